"""What the key rules say comes true: the real libraries stop where they see an error, and go on where they do not."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zeroconf.document.read import parse_document
from zeroconf.keys import key_table
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

SCRIPT = Path(__file__).parent / "keys_reader.py"
ADAM = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
ODD = [True, False, None, 0, 1, -1, 0.5, 1.0, 5e8, "cpu", "none", "bf16", "x", [], {}, ["a"], {"enabled": True}]
PLAIN = {"integer": 2, "number": 0.5, "boolean": True, "string": "a", "array": ["a"], "object": {}, "null": None}
# not about keys: what batch sizes make of each other, which words a list may hold, what only a GPU has
BATCH = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "sequence_parallel_size"}
LEFT_OUT = BATCH | {"passes", "keep_in_fp32_modules", "use_gds"}
# accepted without a word, and not what the file says
SILENT = {"ZC102", "ZC103", "ZC105", "ZC108"}
KEY_RULES = {f"ZC{number}" for number in range(101, 130)}
# these fail later than the parser, where nothing but text, numbers and lists of them is to be judged
LATE = {"ZC107", "ZC111", "ZC112", "ZC113", "ZC114", "ZC115", "ZC121"}


def zero(stage=2, **keys):
    return {"zero_optimization": {"stage": stage} | keys}


FAILS = [
    zero(overlap_com=True),
    zero(reduce_bucket_size=0),
    zero(reduce_bucket_size=None),
    zero(contiguous_gradients=None),
    zero(stage=4),
    zero(stage=2.5),
    zero(offload_optimizer=True),
    zero(offload_optimizer={"device": "CPU"}),
    zero(cpu_offload=False, offload_optimizer={"device": "none"}),
    zero(3, max_live_parameters=5, stage3_max_live_parameters=6),
    zero(legacy_stage1=True),
    zero(mics_shard_size=-1),
    zero(3, leaf_module={"classes": [1]}),
    {"zero_optimization": None},
    {"fp16": None},
    {"fp16": {"enabled": False, "loss_scale": -1}},
    {"fp16": {"enabled": False, "min_loss_scale": True}},
    {"fp16": {"enabled": False, "min_loss_scale": 0.5}},
    {"bf16": {"enabled": False, "loss_scale": 0}},
    {"bf16": True},
    {"amp": {"enabled": False}},
    {"elasticity": None},
    {"communication_data_type": "bfp16"},
    {"communication_data_type": 16},
    {"gradient_allreduce_op": "average"},
    {"checkpoint": {"tag_validation": "off"}},
    {"checkpoint": {"parallel_write": {"pipeline_stage": 2}}},
    {"data_types": {"grad_accum_dtype": "float65"}},
    {"torch_autocast": {"enabled": False, "dtype": "x"}},
    {"gradient_clipping": None},
    {"gradient_clipping": "auto"},
    {"gradient_predivide_factor": "auto"},
    {"steps_per_print": "auto"},
    {"steps_per_print": [1]},
    {"wall_clock_breakdown": None},
    {"wall_clock_breakdown": "auto"},
    {"flops_profiler": {"enabled": "auto"}},
    {"train_batch_size": "auto"},
    {"train_batch_size": 0},
    {"train_batch_size": 1.5},
    {"sequence_parallel_size": 0},
    {"optimizer": None},
    {"optimizer": ADAM | {"params": {"lr": "auto", "torch_adam": True}}},
    {"optimizer": ADAM | {"params": {"lr": 1e-3, "max_grad_norm": 1.0}}},
    {"optimizer": ADAM | {"params": {"lr": None, "torch_adam": True}}},
    {"optimizer": ADAM, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}},
    {"optimizer": ADAM, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}},
    {"log_level": 3},
]
RUNS = [
    zero(overlap_comm=1),
    zero(overlap_comm=None),
    zero(reduce_bucket_size=True),
    zero(reduce_bucket_size=5e8),
    zero(stage=1.0),
    zero(cpu_offload=False),
    zero(cpu_offload="auto", offload_optimizer={"device": "none"}),
    zero(offload_optimizer=None),
    zero(3, leaf_module=None),
    zero(3, stage3_max_live_parameters=0, sub_group_size=0),
    {"zero_optimization": True},
    {"fp16": {"enabled": False, "min_loss_scale": 0}},
    {"bf16": None},
    {"bf16": {"enabled": 1}},
    {"bf16": {"enabled": True, "loss_scale": "auto"}},
    {"bf16": {"enabled": True}, "bfloat16": {"enabled": True, "nope": 1}},
    {"aio": None},
    {"expert_parallel": None},
    {"communication_data_type": "FP16"},
    {"gradient_allreduce_op": "SUM"},
    {"checkpoint": {"tag_validation": "warn"}},
    {"data_types": {"grad_accum_dtype": "float32"}},
    {"gradient_clipping": -1},
    {"gradient_clipping": True},
    {"steps_per_print": None},
    {"wall_clock_breakdown": 1},
    {"prescale_gradients": None},
    {"prescale_gradients": "auto"},
    {"zero_force_ds_cpu_optimizer": "auto"},
    {"memory_breakdown": False, "dump_state": None, "log_level": "WARNING"},
    {"optimizer": ADAM | {"params": {"lr": 1e-3, "torch_adam": "torch_impl"}}},
    {"nobody_reads_this": [1], "_comment": "auto"},
]
FILLED = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "steps_per_print": "auto",
}
BUCKETS = dict.fromkeys(
    ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto"
)
ACCELERATE = [
    zero(3, **BUCKETS),
    zero(0, **BUCKETS),
    zero(stage="auto"),
    zero(offload_optimizer={"device": "auto"}),
    zero(3, stage3_gather_16bit_weights_on_model_save="auto"),
    zero() | {"zero_allow_untested_optimizer": "auto"},
    zero() | {"optimizer": ADAM | {"params": {"lr": "auto", "weight_decay": "auto", "torch_adam": True}}},
    zero() | {"optimizer": ADAM | {"params": {"lr": "auto", "betas": "auto", "torch_adam": True}}},
    zero(overlap_comm="auto"),
    zero(3, prefetch_bucket_size="auto"),
    zero(3, gather_16bit_weights_on_model_save="auto"),
    zero(nope="auto"),
    zero() | {"bfloat16": {"enabled": "auto"}},
    zero() | {"communication_data_type": "auto"},
    zero() | {"tensor_parallel": {"autotp_size": "auto"}},
    zero() | {"data_types": {"keep_in_fp32_modules": "auto"}},
    zero() | {"_comment": "auto"},
    zero() | {"msamp": {"enabled": "auto"}},
]


def with_batch(config: dict[str, Any]) -> dict[str, Any]:
    return {"train_batch_size": 1} | config


def mutated(seed: int, count: int) -> list[dict[str, Any]]:
    """Configurations of random keys, one value in ten odd."""
    blocks = key_table("deepspeed").blocks
    chosen = random.Random(seed)  # noqa: S311  (no secret)

    def value(key: Any) -> Any:
        if chosen.random() < 0.1:
            return chosen.choice(ODD)
        plain = {
            "integer": 2,
            "number": 0.5,
            "boolean": True,
            "string": "a",
            "array": ["a"],
            "object": {},
            "null": None,
        }
        return chosen.choice(key.enum) if key.enum else plain[key.type[0]] if key.type else None

    def block(path: str) -> dict[str, Any]:
        keys = {name: key for name, key in blocks[path].keys.items() if name not in LEFT_OUT and not key.until}
        names = chosen.sample(sorted(keys), min(len(keys), 2))
        config = {name: block(keys[name].block) if keys[name].block else value(keys[name]) for name in names}
        if chosen.random() < 0.1:
            config["nope_" + chosen.choice(names)] = 1
        return config

    return [with_batch(block("")) for _ in range(count)]


MUTATED = mutated(seed=1, count=400)


@pytest.fixture(scope="module")
def verdicts():
    cases = [("deepspeed", with_batch(config)) for config in FAILS + RUNS]
    cases += [("accelerate", FILLED | config) for config in ACCELERATE]
    cases += [("parse", config) for config in MUTATED]
    text = "".join(json.dumps(case) + "\n" for case in cases)
    command = [sys.executable, "-W", "ignore", str(SCRIPT)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=600)  # noqa: PLW1510
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {json.dumps(case): answer for case, answer in zip(cases, answers, strict=True)}


def errors(config, reader):
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    findings = lint_document(document, reader=Reader(reader, stated=True)).findings
    return {finding.rule.code for finding in findings if finding.severity == "error"}


@pytest.mark.parametrize("config", FAILS, ids=json.dumps)
def test_errors_are_failures(config, verdicts):
    config = with_batch(config)
    assert verdicts[json.dumps(("deepspeed", config))] is not None
    assert errors(config, "deepspeed")


@pytest.mark.parametrize("config", RUNS, ids=json.dumps)
def test_what_runs_draws_no_error(config, verdicts):
    config = with_batch(config)
    assert verdicts[json.dumps(("deepspeed", config))] is None
    assert not errors(config, "deepspeed")


@pytest.mark.parametrize("config", ACCELERATE, ids=json.dumps)
def test_accelerate_stops_at_each_auto_that_it_does_not_fill(config, verdicts):
    config = FILLED | config
    verdict = verdicts[json.dumps(("accelerate", config))]
    assert bool(verdict) == bool(errors(config, "accelerate")), verdict


def test_random_configurations(verdicts):
    refused = 0
    for config in MUTATED:
        verdict, found = verdicts[json.dumps(("parse", config))], errors(config, "deepspeed")
        if verdict is not None:
            refused += 1
            assert found, f"{json.dumps(config)}: {verdict}"
        else:
            assert found & KEY_RULES <= SILENT | LATE, json.dumps(config)
    assert 0.1 * len(MUTATED) < refused < 0.9 * len(MUTATED)
