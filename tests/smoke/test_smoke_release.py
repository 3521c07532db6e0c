"""The estimate beside a run is that of the DeepSpeed release which ran."""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, cluster

from zeroconf.inputs.ds_config import parse_config
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.predict import with_prediction


@pytest.mark.parametrize(
    ("installed", "bytes_per_parameter"),
    [("0.17.6", 24), ("0.16.9+cu121", 9.5), ("0.19.8", 24), (None, 24), ("from source", 24)],
)
def test_the_prediction_is_for_the_release_that_ran(installed, bytes_per_parameter):
    optimizer = {"type": "AdamW", "params": {"lr": 1e-4}}
    content = {"bf16": {"enabled": True}, "optimizer": optimizer, "zero_optimization": {"stage": 0}}
    job = SmokeJob(ds_config=content, architecture={}, sequence_length=8, world_size=8)
    environment = {"deepspeed": installed}
    ran = SmokeResult(mode="dry-run", outcome="crash", ranks=(), environment=environment, log_path="")
    file = parse_config(content, "ds_config.json")
    predicted = with_prediction(ran, job, file, LLAMA_3_8B, cluster(), None).predicted
    step = predicted.gpu.moments["step"]
    assert (step.total - step.overhead) / LLAMA_3_8B.num_parameters == bytes_per_parameter
