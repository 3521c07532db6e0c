"""Where Accelerate finds no width to fill bucket sizes from, by its own word, and what it would write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from with_facts import config, findings

from zeroconf.document.edits import apply

READER = Path(__file__).parent / "width_reader.py"
TEXT = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}  # fmt: skip
GEMMA = {**TEXT, "model_type": "gemma3_text", "head_dim": 64}
MODELS = {
    "llama": TEXT,
    "gemma3_text": GEMMA,
    "gemma3": {"model_type": "gemma3", "text_config": GEMMA},
    "llava": {"model_type": "llava", "text_config": TEXT},
    "llava with a width of its own": {"model_type": "llava", "text_config": TEXT, "hidden_size": 2048},
    "paligemma": {"model_type": "paligemma", "text_config": {**TEXT, "model_type": "gemma"}},
    "t5": {
        "model_type": "t5",
        "d_model": 512,
        "d_ff": 1024,
        "d_kv": 64,
        "num_heads": 8,
        "num_layers": 6,
        "vocab_size": 99,
    },
}
AUTOS = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")


@pytest.fixture(scope="module")
def filled():
    """By model: what Accelerate fills, or its error."""
    pytest.importorskip("deepspeed")
    lines = "".join(json.dumps(values) + "\n" for values in MODELS.values())
    done = subprocess.run(
        [sys.executable, READER], input=lines, capture_output=True, text=True, check=True, timeout=120
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(MODELS, said, strict=True))


def told(path, stage=3, keys=AUTOS, reader="accelerate"):
    content = config(stage, **dict.fromkeys(keys, "auto"))
    found = findings(content, reader=reader, model=str(path))
    return {one.pointer.rsplit("/", 1)[-1]: one for one in found if one.rule.code == "ZC320"}


@pytest.mark.parametrize("name", MODELS)
def test_told_exactly_where_accelerate_stops(name, filled, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS[name]))
    found = told(path)
    assert bool(found) == ("error" in filled[name])
    assert set(found) in (set(), set(AUTOS))
    assert not told(path, reader="trainer")
    assert not told(path, reader="deepspeed")
    assert not told(path, keys=())
    assert set(told(path, 2, AUTOS[:1])) == (set(AUTOS[:1]) if found else set())


def test_the_fix_writes_what_accelerate_writes_for_the_text_model(filled, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["gemma3"]))
    written = {key: one.fix.title for key, one in told(path).items()}
    assert written == {key: f"Write {filled['gemma3_text'][key]}" for key in AUTOS}


def test_below_stage_3_its_keys_go():
    content = config(2, **dict.fromkeys(AUTOS, "auto"))
    fixed = json.dumps(content)
    while found := [
        one for one in findings(fixed, reader="accelerate", model="gemma-3-4b") if one.rule.code == "ZC320"
    ]:
        fixed = apply(fixed, found[0].fix.edits)
    assert json.loads(fixed)["zero_optimization"] == {"stage": 2, "reduce_bucket_size": 2560 * 2560}


def test_the_catalogue_knows_its_vision_language_models():
    assert [bool(told(name)) for name in ("gemma-3-4b", "gemma-3-1b", "llama-3.2-1b")] == [True, False, False]
