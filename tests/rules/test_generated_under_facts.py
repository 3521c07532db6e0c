"""Under its own facts nothing that ``generate`` writes draws a finding: random models, clusters, batches, releases."""

from __future__ import annotations

import random

import pytest

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.errors import NoPlanFits
from zeroconf.keys import Releases
from zeroconf.lint import lint_document
from zeroconf.lint.known import Known
from zeroconf.lint.siblings import among
from zeroconf.rules.facts import Reader

# with their parameters in billions
MODELS = {
    "gpt2": 0.12,
    "350M": 0.35,
    "pythia-1b": 1,
    "llama-3.2-1b": 1.2,
    "llama-3.1-8b": 8,
    "13B": 13,
    "qwen2.5-14b": 15,
    "qwen3-30b-a3b": 31,
    "llama-3.1-70b": 71,
}
# with their memory in GB
GPUS = {
    "T4-16GB": 15,
    "V100-32GB": 32,
    "RTX4090": 24,
    "A10G-24GB": 23,
    "A100-40GB": 40,
    "A100-80GB": 80,
    "L40S": 46,
    "H100-80GB": 80,
    "H200": 140,
}
WITHOUT_BF16 = ("T4-16GB", "V100-32GB")
NETWORKS = ("1gbe", "10gbe", "25gbe", "100gbe", "roce-200", "ib-ndr", "3Gbps")
# on both sides of what ZC601 to ZC612 know; None is the newest
RELEASES = (None, None, "0.16.0", "0.16.9", "0.17.4", "0.17.5", "0.17.6", "0.18.2", "0.18.3", "0.18.9", "0.19.2")
STAGES = {None: (0, 1, 2, 3), "none": (0, 1, 2, 3), "optimizer": (1, 2, 3), "all": (3,), "nvme": (3,)}
MAYBE = {
    "seq_len": (128, 512, 1024, 2048),
    "optimizer": ("adamw", "adam", "lion", "sgd"),
    "activation_checkpointing": ("none", "full"),
    "attention": ("sdpa", "eager"),
    "lora_rank": (8, 64),
    "host_memory": ("256GiB", "2TiB"),
    "nvme": ("/scratch:3.5TB",),
    "offload": ("none", "optimizer", "all", "nvme"),
    "headroom": (0.05, 0.3),
}
# pinned or stated by about this share of users
SHARE = 0.25
# what full training with Adam takes at its peak, a card's share of it beside activations
BYTES_PER_PARAMETER = 24
SEEDS = 88


def random_facts(seed):
    """Options of ``generate``, most of them left out; of the models one that has a chance to fit."""
    pick = random.Random(seed)  # noqa: S311  (seeded on purpose)
    nodes, gpus, card = pick.choice((1, 1, 2, 3, 4, 8)), pick.choice((1, 2, 4, 8)), pick.choice(tuple(GPUS))
    chosen = {name: pick.choice(values) for name, values in MAYBE.items() if pick.random() < SHARE}
    if pick.random() < SHARE:
        chosen["zero_stage"] = pick.choice(STAGES[chosen.get("offload")])
    if pick.random() < SHARE:
        chosen["precision"] = pick.choice(("fp16", "fp32") if card in WITHOUT_BF16 else ("bf16", "fp16", "fp32"))
    if pick.random() < SHARE:
        chosen["global_batch_size"] = nodes * gpus * pick.choice((4, 16, 64))
        chosen["micro_batch_size"] = pick.choice((1, 2, 4))
    if chosen.get("offload") == "nvme":
        chosen["nvme"] = "/scratch:3.5TB"
    whole = chosen.get("zero_stage", 3) < 2 or chosen.get("activation_checkpointing") == "none"
    room = GPUS[card] * (1 if whole else nodes * gpus) / BYTES_PER_PARAMETER
    options = {
        "model": pick.choice([name for name, size in MODELS.items() if size <= max(room, 0.2)]),
        "hardware": f"{nodes}x{gpus}x{card}",
        "reader": pick.choice(("trainer", "accelerate", "deepspeed")),
        # each release as often as the others, whatever the dice say
        "deepspeed_version": RELEASES[seed % len(RELEASES)],
    }
    if nodes > 1:
        options["network"] = pick.choice(NETWORKS)
    return options | chosen


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_finding_under_its_own_facts(seed):
    options = random_facts(seed)
    facts, _ = api.load_facts(options)
    try:
        made = api.generate(facts, accelerate="accelerate.yaml" if seed % 2 else None, launch="launch.sh")
    except NoPlanFits as error:
        pytest.skip(str(error))
    releases = Releases(facts.versions.deepspeed, facts.versions.accelerate, stated=True)
    pinned = {"ZC603"} if options.get("zero_stage") == 2 else set()
    for path, text in made.files.items():
        document = parse_document(text.encode(), path)
        read_by = Reader("accelerate" if path.endswith(".yaml") else facts.reader, stated=True)
        known, files = Known.of(facts), among(made.files)
        linted = lint_document(document, reader=read_by, releases=releases, known=known, siblings=files)
        findings = [one for one in linted.findings if one.rule.code not in pinned]
        found = [f"{one.severity} {one.rule.code} {one.pointer}: {one.message}" for one in findings]
        assert document.kind != "unknown"
        assert found == [], options
        assert linted.skipped == (), options
