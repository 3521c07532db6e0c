"""Under its own facts nothing that ``generate`` writes draws a finding: random models, clusters, networks, batches."""

from __future__ import annotations

import random

import pytest

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.errors import InputError, NoPlanFits
from zeroconf.lint import lint_document
from zeroconf.lint.known import Known
from zeroconf.lint.siblings import among
from zeroconf.rules.facts import Reader

MODELS = (
    "gpt2",
    "pythia-1b",
    "llama-3.2-1b",
    "llama-3.1-8b",
    "qwen2.5-14b",
    "qwen3-30b-a3b",
    "llama-3.1-70b",
    "350M",
    "13B",
)
GPUS = ("T4-16GB", "V100-32GB", "RTX4090", "A10G-24GB", "A100-40GB", "A100-80GB", "L40S", "H100-80GB", "H200")
NETWORKS = ("1gbe", "10gbe", "25gbe", "100gbe", "roce-200", "ib-ndr", "3Gbps")
MAYBE = {
    "seq_len": (128, 512, 1024, 2048, 8192),
    "global_batch_size": (64, 256, 512, 1024),
    "micro_batch_size": (1, 2, 4),
    "precision": ("bf16", "fp16", "fp32"),
    "optimizer": ("adamw", "adam", "lion", "sgd", "adamw-8bit"),
    "activation_checkpointing": ("none", "full"),
    "attention": ("sdpa", "eager"),
    "lora_rank": (8, 64),
    "host_memory": ("64GiB", "256GiB", "2TiB"),
    "nvme": ("/scratch:3.5TB",),
    "zero_stage": (0, 1, 2, 3),
    "offload": ("none", "optimizer", "all", "nvme"),
    "headroom": (0.05, 0.3),
}
# pinned or stated by about this share of users
SHARE = 0.25
SEEDS = 170


def random_facts(seed):
    """Options of ``generate``, most of them left out."""
    pick = random.Random(seed)  # noqa: S311  (seeded on purpose)
    nodes, gpus = pick.choice((1, 1, 2, 3, 4, 8)), pick.choice((1, 2, 4, 8))
    options = {
        "model": pick.choice(MODELS),
        "hardware": f"{nodes}x{gpus}x{pick.choice(GPUS)}",
        "reader": pick.choice(("trainer", "accelerate", "deepspeed")),
    }
    if nodes > 1:
        options["network"] = pick.choice(NETWORKS)
    return options | {name: pick.choice(values) for name, values in MAYBE.items() if pick.random() < SHARE}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_finding_under_its_own_facts(seed):
    options = random_facts(seed)
    try:
        facts, _ = api.load_facts(options)
        made = api.generate(facts, accelerate="accelerate.yaml" if seed % 2 else None, launch="launch.sh")
    except (InputError, NoPlanFits) as error:
        pytest.skip(str(error))
    for path, text in made.files.items():
        document = parse_document(text.encode(), path)
        read_by = Reader("accelerate" if path.endswith(".yaml") else facts.reader, stated=True)
        linted = lint_document(document, reader=read_by, known=Known.of(facts), siblings=among(made.files))
        found = [f"{one.severity} {one.rule.code} {one.pointer}: {one.message}" for one in linted.findings]
        assert document.kind != "unknown"
        assert found == [], options
        assert linted.skipped == (), options
