"""``generate --verify``: the plan is tried by the real engine on fake tensors before it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zeroconf.smoke import trial
from zeroconf.smoke.measured import SmokeResult

SHAPE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
HARDWARE = ("--hardware", "2xA100-80GB", "--global-batch-size", "4")


@pytest.fixture
def generate(run):
    Path("config.json").write_text(json.dumps(SHAPE))

    def call(*options):
        return run("generate", "--model", "config.json", *HARDWARE, "--verify", *options)

    return call


def test_what_fits_is_written_with_what_was_seen(generate):
    for library in ("deepspeed", "transformers"):
        pytest.importorskip(library)
    code, out, err = generate("--zero-stage", "3")
    assert code == 0, err
    written = json.loads(Path("ds_config.json").read_text())
    assert written["_zeroconf"]["verified"].startswith("dry run of DeepSpeed 0.")
    assert "of the 79.2 GiB of A100-SXM4-80GB" in written["_zeroconf"]["verified"]
    assert f"Verified {written['_zeroconf']['verified']}" in out
    assert "initialising DeepSpeed" in err


def test_what_does_not_fit_is_not_written(generate, monkeypatch):
    failed = SmokeResult(
        mode="dry-run",
        outcome="does-not-fit",
        ranks=(),
        environment={},
        log_path="",
        explanation="the peak is too high",
    )
    monkeypatch.setattr(trial, "dry_run", lambda *_args, **_options: failed)
    code, out, err = generate()
    assert (code, out) == (4, "")
    assert err == "error: the dry run of the chosen plan ends as does-not-fit: the peak is too high\n"
    assert not Path("ds_config.json").exists()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--cross-entropy", "fused"), "--cross-entropy fused"),
        (("--frozen-params", "1B"), "--frozen-params"),
        (("--for", "accelerate", "--optimizer", "lion"), "--optimizer lion of the script"),
        (("--lora-rank", "4", "--quantize", "nf4"), "--quantize nf4"),
        (("--trainable-params", "9"), "--trainable-params"),
    ],
)
def test_what_a_dry_run_does_not_show_is_refused(generate, options, shown):
    code, _, err = generate(*options)
    assert code == 2
    assert err == f"error: a dry run does not show {shown}; leave out --verify\n"


def test_an_existing_file_is_refused_before_the_dry_run(generate):
    Path("ds_config.json").write_text("{}")
    code, _, err = generate()
    assert code == 2
    assert "--force" in err
    assert "initialising" not in err
