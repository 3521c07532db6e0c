"""Under facts any configuration gives findings with edits that can be made, or reasons; never an exception."""

from __future__ import annotations

import json
import random

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.keys import newest_releases
from zeroconf.lint import lint_document
from zeroconf.lint.known import Known
from zeroconf.rules.facts import Reader

FACTS = (
    {"model": "gpt2", "hardware": "8x1xA100-80GB", "network": "1gbe"},
    {"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "host_memory": "100GiB", "nvme": "/x:1TB"},
    {"model": "qwen3-30b-a3b", "hardware": "2x8xV100-32GB", "lora_rank": 8, "network": "25gbe"},
    {"model": "7B", "hardware": "1xT4-16GB"},
    {"hardware": "P100-16GB"},
    {"model": "gpt2"},
)
VALUES = (0, 1, -1, 2, 3, 8, 1e9, 10**12, 10**18, 2**63, 1e300, 0.5, True, False, None, "auto", "8", "cpu", {}, [],
          {"device": "cpu"}, {"device": "nvme", "nvme_path": "/x"}, {"enabled": True}, {"stage": 3})  # fmt: skip
KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "bf16", "fp16",
        "optimizer", "sequence_parallel_size", "tensor_parallel", "data_types", "zero_optimization")  # fmt: skip
ZERO = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_max_live_parameters", "sub_group_size",
        "stage3_param_persistence_threshold", "zero_hpz_partition_size", "offload_optimizer", "offload_param",
        "overlap_comm", "use_multi_rank_bucket_allreduce", "zero_quantized_weights")  # fmt: skip
COUNTS = (1, 2, 16, 1000, 10**9, 2**40)
CASES = 60


def made(pick):
    content = {key: pick.choice(VALUES) for key in pick.sample(KEYS, pick.randint(0, 5))}
    if pick.random() < 0.85:
        zero = {key: pick.choice(VALUES) for key in pick.sample(ZERO, pick.randint(0, 5))}
        content["zero_optimization"] = {"stage": pick.choice((0, 1, 2, 3, 3)), **zero}
        content |= {key: pick.choice(COUNTS) for key in KEYS[1:3] if pick.random() < 0.7}
    return json.dumps(content)


@pytest.mark.parametrize("facts", FACTS, ids=lambda facts: " ".join(map(str, facts.values())))
def test_any_configuration_under_facts(facts):
    pick = random.Random(str(facts))  # noqa: S311  (repeatable, not secret)
    known = Known(facts, newest_releases())
    for _ in range(CASES):
        text = made(pick)
        document = parse_document(text.encode(), "ds.json")
        reader = Reader(pick.choice(("trainer", "accelerate", "deepspeed", None)))
        for finding in lint_document(document, reader=reader, known=known).findings:
            assert finding.message, text
            if finding.fix:
                apply(document.text, finding.fix.edits)
