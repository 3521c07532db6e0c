"""What ``generate`` writes for models x hardware x networks x readers is accepted at the true world size."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zeroconf import api
from zeroconf.errors import NoPlanFits

HERE = Path(__file__).parent
MODELS = ("llama-3.2-1b", "llama-3.1-8b", "13B", "qwen3-30b-a3b", "llama-3.1-70b", "gpt2-xl")
READERS = ("trainer", "accelerate", "deepspeed")
# (nodes, GPUs per node): the hardware and networks of that size
WORLDS = {
    (1, 2): [{"hardware": "2xRTX4090", "host_memory": "256GiB"}],
    (1, 8): [
        {"hardware": "8xA100-80GB"},
        {"hardware": "p3.16xlarge", "lora_rank": 16},
        {"hardware": "8xA100-80GB", "optimizer": "adamw-8bit"},
        {"hardware": "8xRTX4090", "lora_rank": 16, "quantize": "nf4"},
    ],
    (4, 4): [{"hardware": "4x4xA100-80GB", "network": "10gbe"}],
    (4, 8): [{"hardware": "4x8xH100-80GB", "network": "ib-ndr", "nvme": "/scratch:7TB", "host_memory": "1TiB"}],
    (8, 1): [{"hardware": "8x1xA100-40GB", "network": "1gbe", "global_batch_size": 64}],
}


def generated(folder):
    """(facts, plan, case for the reader script) of every combination that fits."""
    for (world, options), model, reader in itertools.product(
        [(world, options) for world, several in WORLDS.items() for options in several], MODELS, READERS
    ):
        facts, _ = api.load_facts({"model": model, "reader": reader, **options})
        config = str(folder / f"{world[0]}x{world[1]}" / "ds config.json")
        try:
            made = api.generate(facts, output=config, accelerate="accelerate.yaml", explain=True)
        except NoPlanFits:
            continue
        plan = made.decision.chosen.plan
        case = {
            "reader": reader,
            "precision": facts.workload.precision,
            "micro": plan.micro_batch_size,
            "steps": plan.gradient_accumulation_steps,
            "json": made.files[config],
            "yaml": made.files["accelerate.yaml"],
        }
        yield world, facts, plan, case


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    everything = list(generated(folder))

    def judged(world):
        (folder / f"{world[0]}x{world[1]}").mkdir()
        mine = [(facts, plan, case) for of, facts, plan, case in everything if of == world]
        lines = "".join(json.dumps(case) + "\n" for _, _, case in mine)
        script = [
            sys.executable,
            HERE / "emit_reader.py",
            str(world[0]),
            str(world[1]),
            folder / f"{world[0]}x{world[1]}",
        ]
        ran = subprocess.run(script, input=lines, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        answers = [json.loads(line) for line in ran.stdout.splitlines() if line[:2] in ('{"', '["')]
        assert len(answers) == len(mine)
        return [(facts, plan, answer) for (facts, plan, _), answer in zip(mine, answers, strict=True)]

    with ThreadPoolExecutor(max_workers=2) as two:
        return [verdict for verdicts in two.map(judged, WORLDS) for verdict in verdicts]


def test_at_least_60_combinations_are_generated(verdicts):
    assert len(verdicts) >= 60
    assert {plan.stage for _, plan, _ in verdicts} == {0, 1, 2, 3}
    assert {plan.offload for _, plan, _ in verdicts} >= {"none", "optimizer"}
    assert {facts.workload.precision for facts, _, _ in verdicts} == {"bf16", "fp16"}


def test_every_one_is_accepted_with_the_planned_values(verdicts):
    for facts, plan, verdict in verdicts:
        name = f"{facts.model.name} on {facts.cluster.name} for {facts.reader}: {plan}"
        assert "error" not in verdict, f"{name}\n{verdict.get('trace')}"
        seen = verdict["deepspeed"]
        assert seen["train"] == facts.workload.global_batch_size, name
        assert (seen["micro"], seen["steps"], seen["stage"]) == (
            plan.micro_batch_size,
            plan.gradient_accumulation_steps,
            plan.stage,
        ), name
        assert seen["offload_optimizer"] == plan.offload_optimizer, name
        assert seen.get("left", 0) == 0, f"{name}: an auto was left"
        assert verdict.get("not_asked", []) in ([], ["_zeroconf"]), f"{name}: keys that DeepSpeed never reads"
        accelerate = verdict["accelerate"]
        assert accelerate["num_processes"] == facts.cluster.num_gpus, name
        assert (accelerate["stage"], accelerate["offload_optimizer"]) == (plan.stage, plan.offload_optimizer), name
