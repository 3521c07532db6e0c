"""The written files and scripts, unchanged, start real training: two gloo processes on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.emit.accelerate import accelerate_yaml
from zeroconf.emit.ds_config import ds_config, to_json
from zeroconf.emit.launch import launch_script

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parent / "emit"))

from emit_builders import facts, plan  # noqa: E402  (importlib mode adds no folder to the path)

_TRAINER = "--output_dir out --use_cpu true --ddp_backend gloo --learning_rate 1e-2 --lr_scheduler_type constant "
_TRAINER += "--num_train_epochs 1 --logging_steps 1 --report_to none --save_strategy no --max_grad_norm 0.5"


@pytest.mark.launch
@pytest.mark.parametrize(
    ("reader", "stage", "arguments", "clipping"),
    [("trainer", 3, _TRAINER.split(), 0.5), ("accelerate", 2, ["2"], 1.0)],
)
def test_the_script_trains_what_was_planned(*, tmp_path, reader, stage, arguments, clipping):
    folder = tmp_path / "my run"
    folder.mkdir()
    given = facts("tiny", gpus_per_node=2, reader=reader)
    chosen = plan(stage, gradient_accumulation_steps=2, reduce_bucket_size=100_000)
    config = ds_config(given, chosen, explain=True)
    yaml = "acc.yaml" if reader == "accelerate" else None
    script = launch_script(
        given, chosen, config, ds_config_path="ds config.json", accelerate_path=yaml, script="train it.py"
    )
    (folder / "ds config.json").write_text(to_json(config), encoding="utf-8")
    (folder / "acc.yaml").write_text(accelerate_yaml(given, chosen, "ds config.json"), encoding="utf-8")
    (folder / "launch.sh").write_text(script, encoding="utf-8")
    shutil.copy(_HERE / "emit_train.py", folder / "train it.py")
    environment = os.environ | {
        "READER": reader,
        "RESULT": str(folder / "result.json"),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "launch.sh", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    losses = result.pop("losses")
    assert result == {
        "engine": "DeepSpeedEngine",
        "stage": stage,
        "world_size": 2,
        "train_batch_size": 8,  # 2 x 2 steps x 2 processes
        "bf16": True,
        "clipping": clipping,
    }
    assert losses[-1] < losses[0] - 1
    if reader == "trainer":
        # whole bf16 weights, gathered from both ranks: 99,648 parameters x 2 bytes and a header
        assert (folder / "out" / "model.safetensors").stat().st_size > 99_648 * 2
