"""An auto in a file of an unknown reader is an error exactly where DeepSpeed and Accelerate both refuse it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.document.read import parse_document
from zeroconf.keys import key_table
from zeroconf.lint import lint_document

READER = Path(__file__).parent / "autos_reader.py"
# refused for another reason than the auto, or only where another key asks for it
UNSEEN = {
    "aio.use_gds": "GDS needs CUDA",
    "expert_parallel.load_balance_coeff": "not in this AutoEP build",
    "data_efficiency.data_sampling.dynamic_batching.enabled": "an auto counts as true, and max_tokens is missing",
}


def _cases():
    """Every current key with "auto", by its dotted path."""
    for path, block in key_table("deepspeed").blocks.items():
        for name, key in block.keys.items():
            if key.until or key.alias_of:
                continue
            config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}}
            holder = config
            for step in filter(None, path.split(".")):
                holder = holder.setdefault(step, {})
            holder[name] = "auto"
            yield f"{path}.{name}".strip("."), config


@pytest.fixture(scope="module")
def verdicts():
    """By key: the configuration, and what DeepSpeed and Accelerate refuse it with."""
    cases = dict(_cases())
    cases["a null micro batch"] = {"train_micro_batch_size_per_gpu": None, "zero_optimization": {"stage": 1}}
    lines = "".join(json.dumps(config) + "\n" for config in cases.values())
    done = subprocess.run(
        [sys.executable, READER], input=lines, capture_output=True, text=True, check=True, timeout=300
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    return dict(zip(cases, zip(cases.values(), said, strict=True), strict=True))


def _is_error(config):
    findings = lint_document(parse_document(json.dumps(config).encode(), "x.json")).findings
    return any(one.severity == "error" and one.rule.code in {"ZC120", "ZC202"} for one in findings)


def test_an_auto_is_an_error_where_all_refuse_it(verdicts):
    wrong = {key: refused for key, (config, refused) in verdicts.items() if _is_error(config) != all(refused)}
    assert set(wrong) == set(UNSEEN), wrong
    assert _is_error(verdicts["a null micro batch"][0])
