"""The commands that try a plan run it with its own shapes."""

from __future__ import annotations

import shlex

import pytest

from zeroconf import api
from zeroconf.errors import InputError


def test_a_project_of_packed_weights_is_not_tried(tmp_path):
    (tmp_path / "zeroconf.toml").write_text('quantize = "nf4"\n', encoding="utf-8")
    (tmp_path / "ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 1}', encoding="utf-8")
    with pytest.raises(InputError, match="builds no packed weights"):
        api.smoke_test(tmp_path / "ds_config.json", project=tmp_path, model="tiny", world_size=8, dry_run=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lora_rank": 16}, ["--lora-rank", "16"]),
        ({"attention": "eager", "activation_checkpointing": "full"}, ["--attention", "eager"]),
        ({"activation_checkpointing": "full"}, ["--activation-checkpointing", "full"]),
    ],
)
def test_what_no_file_can_say_is_in_the_command(options, words):
    facts, _ = api.load_facts({"model": "qwen2.5-7b", "hardware": "8xA100-80GB", "seq_len": 2048} | options)
    made = api.generate(facts, model="qwen2.5-7b", hardware="8xA100-80GB")
    for command in (made.smoke_test, made.dry_run):
        assert " ".join(words) in command
        assert shlex.split(command)[:3] == ["zeroconf", "smoke-test", "ds_config.json"]
    assert made.dry_run == f"{made.smoke_test} --dry-run --hardware 8xA100-80GB"
