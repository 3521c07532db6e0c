"""Real runs on the CPU: two gloo ranks, a tiny llama, the real launchers and the real DeepSpeed.

Beside them the estimate, dry runs, and one process that stands for a rank of two or of many.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jsonschema
import pytest

from zeroconf import api
from zeroconf.inputs.model import TINY
from zeroconf.resources import data_path
from zeroconf.smoke.command import cache_directory
from zeroconf.smoke.result import to_json
from zeroconf.smoke.text import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Estimate

    Run = Callable[..., SmokeResult]

pytestmark = [
    pytest.mark.launch,
    pytest.mark.skipif(sys.platform != "linux", reason="gloo over the loopback interface, /proc"),
]

NUM_PARAMETERS = TINY.num_parameters
OFFLOADS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "optimizer": {"offload_optimizer": {"device": "cpu"}},
    "all": {"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}


class Case(NamedTuple):
    """One configuration and how it is launched."""

    stage: int
    offload: str
    steps: int
    lora_rank: int
    launcher: str

    def config(self) -> dict[str, Any]:
        """A Trainer's file; the script brings the optimizer, but for adapters under the deepspeed launcher.

        PyTorch's AdamW takes a temporary more on a CPU than on a GPU, where it is not fused; adapters are small.
        """
        zero: dict[str, Any] = {"stage": self.stage, "reduce_bucket_size": 20_000, **OFFLOADS[self.offload]}
        if self.stage == 3:
            zero |= {"stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 20_000}
        optimizer = {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}}
        return {
            "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": self.steps,
            "gradient_clipping": "auto",
            "bf16": {"enabled": "auto"},
            "zero_optimization": zero,
        } | ({"optimizer": optimizer} if self.launcher == "deepspeed" and self.lora_rank else {})


CASES = [
    Case(0, "none", 1, 0, "torchrun"),
    Case(0, "none", 4, 8, "deepspeed"),
    Case(1, "none", 4, 0, "accelerate"),
    Case(1, "optimizer", 1, 8, "torchrun"),
    Case(2, "none", 4, 0, "torchrun"),
    Case(2, "none", 1, 8, "accelerate"),
    Case(2, "optimizer", 1, 8, "deepspeed"),
    Case(3, "none", 1, 0, "deepspeed"),
    Case(3, "optimizer", 4, 8, "accelerate"),
    Case(3, "all", 4, 0, "torchrun"),
]
# all parameters train and stay on the device; by stage
WHOLE = [CASES[0], CASES[2], CASES[4], CASES[7]]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Runs of a case, each launched once."""
    path = tmp_path_factory.mktemp("smoke") / "ds_config.json"

    @functools.cache
    def run(case: Case, *, dry_run: bool = False, world_size: int | None = None) -> SmokeResult:
        path.write_text(json.dumps(case.config()), encoding="utf-8")
        here: dict[str, Any] = {} if dry_run else {"launcher": case.launcher, "device": "cpu", "python": sys.executable}
        return api.smoke_test(
            path,
            model="tiny",
            sequence_length=64,
            num_processes=1 if world_size else 2,
            world_size=world_size,
            dry_run=dry_run,
            lora_rank=case.lora_rank,
            activation_checkpointing=case.stage == 2,
            timeout_seconds=300,
            **here,
        )

    return run


def test_the_cases_have_every_pair_of_values_but_two():
    """Twelve would have these too: each stage under each launcher."""
    columns = {name: [getattr(case, name) for case in CASES] for name in Case._fields}
    columns["offload"] = [value != "none" for value in columns["offload"]]
    missing = set()
    for (_, one), (_, other) in itertools.combinations(columns.items(), 2):
        missing |= set(itertools.product(one, other)) - set(zip(one, other, strict=True))
    assert missing == {(0, True), (0, "accelerate"), (1, "deepspeed")}  # and stage 0 has no offload


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_trains(smoke: Run, case: Case):
    result = smoke(case)
    assert result.outcome == "fits", to_text(result)
    assert result.explanation == ""
    assert [rank.rank for rank in result.ranks] == [0, 1]
    assert result.environment["zero_stage"] == case.stage
    assert result.environment["gradient_accumulation_steps"] == case.steps
    assert result.environment["launcher"] == case.launcher
    assert result.environment["parameters"] >= NUM_PARAMETERS
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


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_peak_is_the_estimates(smoke: Run, case: Case):
    result = smoke(case)
    assert result.predicted is not None
    expected = device_and_host_bytes(result.predicted, num_ranks=2)
    assert max(rank.peak_allocated_bytes for rank in result.ranks) == pytest.approx(expected, rel=0.05)


def device_and_host_bytes(predicted: Estimate, num_ranks: int) -> int:
    """A rank's highest peak where device and host are one memory, of which nothing is rounded."""
    host = predicted.host.pinned_bytes - predicted.host.rounding_bytes + predicted.host.pageable_bytes
    return predicted.gpu.peak_allocated_bytes - predicted.gpu.peak.overhead + host // num_ranks


def test_the_peak_is_the_dry_runs(smoke: Run):
    (dry,) = smoke(WHOLE[3], dry_run=True, world_size=2).ranks
    assert smoke(WHOLE[3]).ranks[0].peak_allocated_bytes == pytest.approx(dry.peak_allocated_bytes, rel=0.05)


@pytest.mark.parametrize(("case", "peak_bar"), [(WHOLE[2], 0.02), (WHOLE[3], 0.05)], ids=str)
def test_one_process_as_rank_of_two_holds_what_the_rank_holds(smoke: Run, case: Case, peak_bar: float):
    real, simulated = smoke(case).ranks[0], smoke(case, world_size=2).ranks[0]
    assert simulated.steady_bytes == pytest.approx(real.steady_bytes, rel=0.005)
    assert simulated.phases == pytest.approx(real.phases, rel=peak_bar)


def test_one_process_as_rank_of_many_holds_what_is_estimated(smoke: Run):
    """At stage 3; ``benchmarks/smoke_simulated.py`` has the others, and 8 ranks."""
    result = smoke(WHOLE[3], world_size=64)
    assert result.simulated_world_size == 64
    assert result.relative_error == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(
    ("case", "bytes_per_parameter"),
    # bf16 weights, fp32 copy and two moments: 2 + 12, partitioned over 2 ranks: all but the weights, then all; stage 3
    # keeps a bf16 gradient partition: 2 / 2
    list(zip(WHOLE, (14, 2 + 12 / 2, 2 + 12 / 2, 14 / 2 + 2 / 2), strict=True)),
    ids=str,
)
def test_what_stays_is_the_model_states(smoke: Run, case: Case, bytes_per_parameter: float):
    for rank in smoke(case).ranks:
        assert rank.steady_bytes == pytest.approx(bytes_per_parameter * NUM_PARAMETERS, rel=0.03)


@pytest.mark.parametrize("stages", [(0, 1, 2), (3,)])
def test_whatever_is_launched_starts_from_the_same_loss(smoke: Run, stages: tuple[int, ...]):
    """The same weights and batches before any update; adapters start from nothing. Stage 3 draws weights in parts."""
    for rank in (0, 1):
        first = [smoke(case).ranks[rank].losses[0] for case in CASES if case.stage in stages]
        assert first == pytest.approx([first[0]] * len(first), abs=0.02)


def test_offload_brings_deepspeeds_own_optimizer(smoke: Run):
    result = smoke(CASES[3])
    assert result.environment["optimizer"] == "DeepSpeedCPUAdam"
    assert any("DeepSpeedCPUAdam" in line for line in result.substitutions)
    # torch_adam does without, and without a compiler
    assert smoke(CASES[6]).environment["optimizer"] == "AdamW"


def test_what_was_filled_is_named(smoke: Run):
    lines = smoke(WHOLE[2]).substitutions
    assert 'train_micro_batch_size_per_gpu: 1 for "auto"' in lines
    assert 'bf16.enabled: true for "auto"' in lines
    assert 'gradient_clipping: 1.0 for "auto"' in lines
    assert any("for the script's optimizer" in line for line in lines)


def test_each_run_is_kept_for_calibration(smoke: Run):
    result = smoke(WHOLE[2])
    lines = (cache_directory() / "measurements.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [line for line in map(json.loads, lines) if line["log_path"] == result.log_path]
    assert [line["ranks"][0]["steady_bytes"] for line in kept] == [result.ranks[0].steady_bytes]
    assert kept[0]["facts"]["architecture"]["name"] == "tiny"
