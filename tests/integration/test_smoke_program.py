"""``smoke-test --script``: a tiny program of each kind, as users write them, really run and measured from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from builders import TINY_LLAMA

from zeroconf.resources import data_path

pytestmark = [pytest.mark.launch, pytest.mark.skipif(sys.platform != "linux", reason="gloo over the loopback, /proc")]

SCRIPTS = Path(__file__).parent.parent / "data/scripts"
SCHEMA = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
# generation is not what trains
SHAPE = {**TINY_LLAMA, "use_cache": False}
FILE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000},
}
AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
}
ACCELERATE = """\
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 8
deepspeed_config: {zero_stage: 1, gradient_accumulation_steps: 2}
"""


@pytest.fixture
def smoke_test(tmp_path):
    """The command in an empty folder: its answer."""

    def run(*arguments):
        command = [sys.executable, "-m", "zeroconf", "smoke-test", "--num-gpus", "2", "--device", "cpu", "--json"]
        ran = subprocess.run(
            [*command, "--timeout", "200", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        answer = json.loads(ran.stdout)
        jsonschema.validate(answer, SCHEMA)
        assert (answer["outcome"], len(answer["ranks"])) == ("fits", 2)
        return answer

    for name, content in (("ds.json", FILE), ("auto.json", AUTO), ("config.json", SHAPE)):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "accelerate.yaml").write_text(ACCELERATE, encoding="utf-8")
    return run


def test_from_outside_a_program_measures_as_the_same_shapes_do_from_inside(smoke_test):
    options = ("--shape", "config.json", "--deepspeed_config", "ds.json")
    outside = smoke_test("--launcher", "deepspeed", "--script", str(SCRIPTS / "raw.py"), "--", *options)
    inside = smoke_test("ds.json", "--model", "./config.json")
    for one, other in zip(outside["ranks"], inside["ranks"], strict=True):
        assert one["phases"] == pytest.approx(other["phases"], rel=0.01)
        assert one["steady_bytes"] == pytest.approx(other["steady_bytes"], rel=0.01)
        assert one["bytes_sent"] == other["bytes_sent"]
        assert len(one["losses"]) == len(one["step_seconds"]) == 3
        assert one["losses"][-1] < one["losses"][0]
        assert all(0 < part < step for part, step in zip(one["update_seconds"], one["step_seconds"], strict=True))
    assert outside["environment"]["ds_config"] == FILE
    assert outside["facts"] == {"script": str(SCRIPTS / "raw.py"), "arguments": list(options), "world_size": 2}


def test_an_accelerate_script_gets_its_configuration_from_the_launcher(smoke_test):
    script = str(SCRIPTS / "accelerated.py")
    answer = smoke_test("accelerate.yaml", "--launcher", "accelerate", "--steps", "2", "--script", script)
    assert [len(rank["losses"]) for rank in answer["ranks"]] == [2, 2]
    environment = answer["environment"]
    assert [environment[name] for name in ("zero_stage", "gradient_accumulation_steps", "num_processes")] == [1, 2, 2]
    assert environment["ds_config"]["bf16"]["enabled"] is True
    assert any("gloo for the backend that Accelerate looks for" in line for line in answer["substitutions"])


def test_a_trainer_that_ends_by_itself_has_shown_what_it_is(smoke_test):
    options = (
        "--deepspeed auto.json --bf16 --use_cpu --max_steps 2 --save_strategy no --report_to none --output_dir out"
    )
    answer = smoke_test("--script", str(SCRIPTS / "trainer.py"), "--", *options.split())
    assert [len(rank["step_seconds"]) for rank in answer["ranks"]] == [2, 2]
    assert answer["environment"]["zero_stage"] == 3
    assert any("ended by itself, after 2 of 3 optimizer steps" in line for line in answer["substitutions"])
    assert "auto" not in json.dumps(answer["environment"]["ds_config"])
