from __future__ import annotations

import pytest
import yaml
from emit_builders import facts, plan

from zeroconf.emit.accelerate import accelerate_yaml, inline_accelerate_yaml
from zeroconf.errors import InputError

_BESIDE_A_FILE = {"deepspeed_config_file", "zero3_init_flag", "deepspeed_multinode_launcher"}


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("num_nodes", [1, 4])
def test_the_file_is_named_with_nothing_that_accelerate_refuses_beside_it(stage, num_nodes):
    fields = yaml.safe_load(accelerate_yaml(facts(num_nodes=num_nodes), plan(stage), "my configs/ds.json"))
    deepspeed = fields["deepspeed_config"]
    assert deepspeed["deepspeed_config_file"] == "my configs/ds.json"
    assert set(deepspeed) <= _BESIDE_A_FILE
    assert deepspeed.get("zero3_init_flag", False) is (stage == 3)
    assert "mixed_precision" not in fields
    assert fields["num_processes"] == 8 * num_nodes
    assert fields["num_machines"] == num_nodes
    assert (deepspeed.get("deepspeed_multinode_launcher") == "standard") == (num_nodes > 1)
    assert ("main_process_port" in fields) == (num_nodes > 1)


@pytest.mark.parametrize("path", ["no", "5e8", "a: b", "#x", "\u00e9t\u00e9.json", "C:\\x", "'", '"'])
def test_any_path_survives_yaml(path):
    fields = yaml.safe_load(accelerate_yaml(facts(), plan(2), path))
    assert fields["deepspeed_config"]["deepspeed_config_file"] == path


def _defaults(stage: int, offload: str = "none"):
    return plan(
        stage,
        offload,
        overlap_comm=stage == 3,
        reduce_bucket_size=500_000_000,
        max_live_parameters=1_000_000_000,
        max_reuse_distance=1_000_000_000,
    )


@pytest.mark.parametrize(("stage", "offload"), [(0, "none"), (1, "none"), (2, "optimizer"), (3, "all")])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_inline_where_deepspeeds_defaults_are_the_plan(stage, offload, precision):
    text = inline_accelerate_yaml(facts(reader="accelerate", precision=precision), _defaults(stage, offload))
    fields = yaml.safe_load(text)
    assert fields["mixed_precision"] == ("bf16" if precision == "bf16" else "no")
    assert fields["deepspeed_config"]["zero_stage"] == stage
    assert fields["deepspeed_config"]["gradient_accumulation_steps"] == 4


@pytest.mark.parametrize(
    ("given", "chosen", "lost"),
    [
        ({}, plan(2), "zero_optimization.reduce_bucket_size"),
        ({}, _defaults(3, "nvme"), "zero_optimization.offload_optimizer.nvme_path"),
        ({"precision": "fp16"}, _defaults(1), "fp16.loss_scale"),
        ({"optimizer": "sgd"}, _defaults(2, "optimizer"), "zero_force_ds_cpu_optimizer"),
        ({"deepspeed": (0, 19, 4)}, _defaults(2, "optimizer"), "zero_optimization.offload_optimizer.pin_memory"),
        ({"reader": "trainer"}, _defaults(2), "cannot serve the reader 'trainer'"),
    ],
)
def test_inline_refuses_to_lose_anything(given, chosen, lost):
    with pytest.raises(InputError, match=lost):
        inline_accelerate_yaml(facts(**({"reader": "accelerate"} | given)), chosen)
