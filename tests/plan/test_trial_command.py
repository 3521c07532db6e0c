"""The commands that try a plan run it with its own shapes."""

from __future__ import annotations

import shlex

import pytest

from zeroconf import api


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
