"""Every file that is written is accepted by the real DeepSpeed, Accelerate and Trainer, and means what was planned."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from zeroconf.emit.accelerate import accelerate_yaml, inline_accelerate_yaml
from zeroconf.emit.ds_config import ds_config, to_json
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from zeroconf.types import Facts, Plan

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE.parent / "emit"))

from emit_builders import facts, plan  # noqa: E402  (importlib mode adds no folder to the path)

_WORLDS = ((1, 1), (1, 8), (2, 8))
_MODELS = itertools.cycle(("1b", "8b", "70b", "moe"))
_ZERO = (
    (0, "none"),
    (1, "none"),
    (1, "optimizer"),
    (2, "none"),
    (2, "optimizer"),
    (3, "none"),
    (3, "optimizer"),
    (3, "all"),
    (3, "nvme"),
)
_DEEPSPEED_DEFAULTS = {
    "reduce_bucket_size": 500_000_000,
    "max_live_parameters": 1_000_000_000,
    "max_reuse_distance": 1_000_000_000,
}
_READERS = ("trainer", "accelerate", "deepspeed")
_OPTIMIZERS = itertools.cycle(({}, {"optimizer": "sgd"}, {"client_optimizer": True}, {"optimizer": "lion"}, {}))


class Case(NamedTuple):
    facts: Facts
    plan: Plan
    verdict: dict[str, Any]

    def __repr__(self) -> str:
        work = self.facts.workload
        optimizer = "client" if work.client_optimizer else work.optimizer
        return f"{self.facts.model.name} {self.facts.reader} {work.precision} {optimizer} {self.plan}"


def _run(script: str, *arguments: str, text: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, _HERE / script, *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # DeepSpeed prints to stdout as well
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] in "[{" and line[1:2] in '"]']


@pytest.fixture(scope="module", params=_WORLDS, ids=lambda world: f"{world[0]}x{world[1]}")
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """What the real libraries make of 81 combinations at one true world size."""
    num_nodes, gpus_per_node = request.param
    folder = tmp_path_factory.mktemp("reader")
    pairs, lines = [], []
    for (stage, offload), reader, precision in itertools.product(_ZERO, _READERS, ("bf16", "fp16", "fp32")):
        given = facts(
            next(_MODELS),
            num_nodes=num_nodes,
            gpus_per_node=gpus_per_node,
            reader=reader,
            precision=precision,
            **next(_OPTIMIZERS),
        )
        hpz = 8 if num_nodes > 1 and (stage, offload) == (3, "none") else 1
        fields = {"zero_hpz_partition_size": hpz, "multi_rank_bucket_allreduce": precision != "bf16"}
        chosen = plan(stage, offload, **fields, **(_DEEPSPEED_DEFAULTS if precision == "fp32" else {}))
        pairs.append((given, chosen))
        case = {
            "nodes": num_nodes,
            "gpus": gpus_per_node,
            "reader": reader,
            "precision": precision,
            "micro": chosen.micro_batch_size,
            "steps": chosen.gradient_accumulation_steps,
            "json": to_json(ds_config(given, chosen, explain=True)),
            "yaml": accelerate_yaml(given, chosen, str(folder / "ds config.json")),
        }
        with contextlib.suppress(InputError):  # most plans cannot do without the JSON
            case["inline"] = inline_accelerate_yaml(given, chosen)
        lines.append(json.dumps(case) + "\n")
    verdicts = _run("emit_reader.py", str(folder), text="".join(lines))
    assert len(verdicts) == len(pairs) == 81
    return [Case(*pair, verdict) for pair, verdict in zip(pairs, verdicts, strict=True)]


def test_every_file_is_accepted(cases):
    assert {repr(case): case.verdict["trace"] for case in cases if "error" in case.verdict} == {}


def _expected(case: Case) -> dict[str, Any]:
    chosen, work = case.plan, case.facts.workload
    offloaded = chosen.offload_optimizer != "none"
    return {
        "train": chosen.micro_batch_size * chosen.gradient_accumulation_steps * case.facts.cluster.num_gpus,
        "micro": chosen.micro_batch_size,
        "steps": chosen.gradient_accumulation_steps,
        "clipping": 0.3 if case.facts.reader == "trainer" else 1.0,  # 0.3 is the test's max_grad_norm
        "stage": chosen.stage,
        "overlap_comm": chosen.overlap_comm,
        "reduce_bucket_size": chosen.reduce_bucket_size if chosen.stage else 500_000_000,
        "max_live_parameters": chosen.max_live_parameters if chosen.stage == 3 else 1_000_000_000,
        "hpz": chosen.zero_hpz_partition_size,
        "multi_rank": chosen.multi_rank_bucket_allreduce or chosen.stage not in (1, 2),
        "gather": chosen.stage == 3,
        "offload_optimizer": chosen.offload_optimizer,
        "offload_param": chosen.offload_param,
        "nvme_path": "/mnt/nvme" if chosen.offload_param == "nvme" else "None",
        "threads": 4 if chosen.offload == "nvme" else 1,
        "bf16": work.precision == "bf16",
        "fp16": work.precision == "fp16",
        "dynamic": True,
        # under offload the script's own optimizer is kept where it would be refused or replaced
        "force_cpu": not (
            offloaded and (work.client_optimizer or (case.facts.reader == "accelerate" and work.optimizer != "adamw"))
        ),
    }


def test_deepspeed_sees_the_plan_at_the_true_world_size(cases):
    wrong = {}
    for case in cases:
        seen = case.verdict["deepspeed"]
        differing = {key: (seen[key], value) for key, value in _expected(case).items() if seen[key] != value}
        if differing:
            wrong[repr(case)] = differing
    assert wrong == {}


def test_the_trainer_fills_every_auto_and_refuses_other_sizes(cases):
    trained = [case.verdict for case in cases if case.facts.reader == "trainer"]
    assert len(trained) == 27
    for verdict in trained:
        assert verdict["deepspeed"]["left"] == 0
        assert "ds train_micro_batch_size_per_gpu=2 vs hf per_device_train_batch_size=3" in verdict["mismatch"]


def test_no_key_is_ignored_at_the_top_level(cases):
    ignored = {key for case in cases for key in case.verdict.get("not_asked", ())}
    assert ignored == {"_zeroconf"}


def test_accelerate_sees_the_same_plan(cases):
    for case in cases:
        seen, chosen, cluster = case.verdict["accelerate"], case.plan, case.facts.cluster
        assert (seen["num_processes"], seen["num_machines"]) == (cluster.num_gpus, cluster.num_nodes)
        assert (seen["nnodes"], seen["nproc"]) == (cluster.num_nodes, cluster.gpus_per_node)
        assert seen["stage"] == chosen.stage
        assert (seen["offload_optimizer"], seen["offload_param"]) == (chosen.offload_optimizer, chosen.offload_param)
        assert seen["zero3_init"] == seen["save"] == (chosen.stage == 3)
        if case.facts.reader != "trainer":
            assert seen["deepspeed"] == case.verdict["deepspeed"]


def test_the_inline_yaml_means_the_same_as_the_file(cases):
    inline = [case.verdict for case in cases if "inline" in case.verdict]
    assert len(inline) >= 4
    for verdict in inline:
        assert verdict["inline"] == verdict["accelerate"]


def test_the_engine_reads_every_zero_key_that_is_written(tmp_path):
    configs = []
    for stage, offload in ((0, "none"), (1, "none"), (2, "none"), (2, "optimizer"), (3, "none"), (3, "all")):
        # the script's own optimizer: DeepSpeed's would be compiled first
        given = facts("tiny", reader="deepspeed", client_optimizer=True)
        chosen = plan(
            stage,
            offload,
            gradient_accumulation_steps=1,
            reduce_bucket_size=1000,
            multi_rank_bucket_allreduce=False,
            zero_hpz_partition_size=4 if (stage, offload) == (3, "none") else 1,
        )
        configs.append(ds_config(given, chosen))
    fields_read = _run("emit_engine.py", str(tmp_path), text=json.dumps(configs))
    assert len(fields_read) == len(configs)
    for config, fields in zip(configs, fields_read, strict=True):
        assert set(config["zero_optimization"]) - set(fields) == set()
    # the meter tells: neither of these is read at the other's stage
    assert "sub_group_size" not in fields_read[2]
    assert "use_multi_rank_bucket_allreduce" not in fields_read[4]
