"""Real runs on the CPU: two gloo ranks, a tiny llama, the real launchers and the real DeepSpeed."""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from zeroconf.resources import data_path
from zeroconf.smoke.command import cache_directory
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.launch import run_smoke_test
from zeroconf.smoke.result import to_json
from zeroconf.smoke.text import to_text

if TYPE_CHECKING:
    from zeroconf.smoke.measured import SmokeResult

pytestmark = [
    pytest.mark.launch,
    pytest.mark.skipif(sys.platform != "linux", reason="gloo over the loopback interface, /proc"),
]

TINY = {
    "architecture": "llama",
    "kind": "decoder",
    "num_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "tied_embeddings": False,
    "max_sequence_length": 64,
}
# vocabulary 2 x 512 x 64; per layer: queries and outputs 64 x 64, keys and values 64 x 32, MLP 3 x 64 x 176, two norms
NUM_PARAMETERS = 2 * 512 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 176 + 2 * 64) + 64
BUCKET = 1000
OFFLOAD = {"offload_optimizer": {"device": "cpu"}}


@pytest.fixture(scope="module")
def smoke():
    """Runs by stage, launcher and offload; each is launched once. Compiled operators are kept between sessions."""

    @functools.cache
    def launch(stage: int, launcher: str, offload: bool) -> SmokeResult:
        zero: dict[str, Any] = {"stage": stage, "reduce_bucket_size": BUCKET}
        if stage == 3:
            zero["stage3_param_persistence_threshold"] = 0
        config: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": 2,
            "gradient_clipping": "auto",
            "bf16": {"enabled": "auto"},
            "zero_optimization": zero | (OFFLOAD if offload else {}),
        }
        if launcher == "deepspeed":
            config["optimizer"] = {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}}
        job = SmokeJob(
            ds_config=config,
            architecture=TINY,
            sequence_length=32,
            world_size=2,
            activation_checkpointing=stage == 2,
        )
        return run_smoke_test(job, launcher=launcher, python=sys.executable, device="cpu", timeout_seconds=200)

    def run(stage: int, launcher: str = "torchrun", *, offload: bool = False) -> SmokeResult:
        return launch(stage, launcher, offload)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZEROCONF_CACHE", str(cache_directory().with_name("zeroconf-tests")))
        yield run


RUNS = [
    (0, "torchrun", False),
    (1, "torchrun", False),
    (2, "torchrun", False),
    (3, "torchrun", False),
    (2, "torchrun", True),
    (2, "deepspeed", False),
    (3, "deepspeed", False),
]


@pytest.mark.parametrize(("stage", "launcher", "offload"), RUNS)
def test_it_trains(smoke, stage, launcher, offload):
    result = smoke(stage, launcher, offload=offload)
    assert result.outcome == "fits", to_text(result)
    assert [rank.rank for rank in result.ranks] == [0, 1]
    assert result.environment["zero_stage"] == stage
    assert result.environment["gradient_accumulation_steps"] == 2
    assert result.environment["parameters"] == NUM_PARAMETERS
    assert result.environment["memory_meter"] == "counting allocator"
    for rank in result.ranks:
        assert len(rank.step_seconds) == len(rank.losses) == 3
        assert rank.losses[0] > rank.losses[1] > rank.losses[2]
        assert all(peak > 0 for peak in rank.phases.values())
        assert rank.peak_allocated_bytes == max(rank.phases.values()) > rank.steady_bytes > 0
        # a process with torch in it holds far more than its tensors
        assert rank.host_peak_bytes > rank.peak_allocated_bytes
    assert result.ranks[0].losses != result.ranks[1].losses
    jsonschema.validate(
        json.loads(json.dumps(to_json(result))),
        json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8")),
    )


@pytest.mark.parametrize(
    ("stage", "bytes_per_parameter"),
    # bf16 weights, fp32 copy and two moments: 2 + 12, partitioned over 2 ranks: all but the weights, then all
    [(0, 14), (1, 2 + 12 / 2), (2, 2 + 12 / 2), (3, 14 / 2)],
)
def test_what_stays_is_the_model_states(smoke, stage, bytes_per_parameter):
    for rank in smoke(stage).ranks:
        extra = {0: 0, 1: 0, 2: 0, 3: NUM_PARAMETERS}[stage]  # stage 3 keeps a bf16 gradient partition: 2 / 2
        assert rank.steady_bytes == pytest.approx(bytes_per_parameter * NUM_PARAMETERS + extra, rel=0.03)


def test_higher_stages_hold_less(smoke):
    steady = [smoke(stage).ranks[0].steady_bytes for stage in range(4)]
    assert steady[0] > steady[1] == pytest.approx(steady[2], rel=0.01)
    assert steady[0] > 1.5 * steady[3]


def test_launchers_agree(smoke):
    for stage in (2, 3):
        one, other = (smoke(stage, launcher).ranks[0] for launcher in ("torchrun", "deepspeed"))
        assert one.steady_bytes == pytest.approx(other.steady_bytes, rel=0.01)
        # 0.02: fused and for-loop AdamW round differently in fp32
        assert one.losses == pytest.approx(other.losses, abs=0.02)


def test_offload_brings_deepspeeds_own_optimizer(smoke):
    result = smoke(2, offload=True)
    assert result.environment["optimizer"] == "DeepSpeedCPUAdam"
    assert any("DeepSpeedCPUAdam" in line for line in result.substitutions)


def test_what_was_filled_is_named(smoke):
    lines = smoke(2).substitutions
    assert 'train_micro_batch_size_per_gpu: 1 for "auto"' in lines
    assert 'bf16.enabled: true for "auto"' in lines
    assert 'gradient_clipping: 1.0 for "auto"' in lines
    assert any("for the script's optimizer" in line for line in lines)


def test_each_run_is_kept_for_calibration(smoke):
    result = smoke(2)
    lines = (cache_directory() / "measurements.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [line for line in map(json.loads, lines) if line["log_path"] == result.log_path]
    assert [line["ranks"][0]["steady_bytes"] for line in kept] == [result.ranks[0].steady_bytes]
    assert kept[0]["facts"]["architecture"] == TINY
