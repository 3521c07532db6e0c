"""The safe fixes of the real rules: none makes DeepSpeed refuse a file that it took."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(autouse=True)
def _sample_of_rules():
    """Every rule, not the sample of this folder."""


BATCH = {"train_batch_size": 32}
HELD_BACK = [
    (BATCH | {"train_micro_batch_size_per_gpu": 4, "gradient_acumulation_steps": 3}, "ZC201"),
    (BATCH | {"fp_16": {"enabled": True}, "bf16": {"enabled": True}}, "ZC207"),
    (BATCH | {"lr": 0.001}, "ZC222"),
    (BATCH | {"optimizr": {"type": "Foo"}}, "ZC220"),
    (BATCH | {"zero_optimisation": {"stage": 1, "offload_param": {"device": "cpu"}}}, "ZC240"),
]


@pytest.mark.parametrize(("config", "code"), HELD_BACK, ids=[code for _, code in HELD_BACK])
@pytest.mark.parametrize("options", [(), ("--ignore", "ZC2"), ("--unsafe-fixes",)])
def test_what_is_ignored_is_not_switched_on_to_be_refused(write, zeroconf, config, code, options):
    folder = write(**{"a.json": json.dumps(config)})
    _, out, _ = zeroconf("lint", "--fix", "a.json", *options)
    assert f" would bring an error: {code} " in out
    left = json.loads((folder / "a.json").read_text())
    assert {key: left[key] for key in config} == config
    if not options:
        assert left == config


def test_a_setting_that_fits_is_switched_on(write, zeroconf):
    right = BATCH | {"train_micro_batch_size_per_gpu": 4, "gradient_acumulation_steps": 8}
    folder = write(**{"a.json": json.dumps(right)})
    assert zeroconf("lint", "--fix", "a.json")[0] == 0
    assert "gradient_accumulation_steps" in json.loads((folder / "a.json").read_text())


def test_the_other_fixes_come_all_the_same(write, zeroconf):
    config = HELD_BACK[0][0] | {"offload_optimizer": {"device": "cpu"}, "zero_optimization": {"stage": 2}}
    folder = write(**{"a.json": json.dumps(config)})
    _, out, _ = zeroconf("lint", "--fix", "a.json")
    assert "Fixed 1. " in out
    left = json.loads((folder / "a.json").read_text())
    assert left["zero_optimization"] == {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    assert "gradient_acumulation_steps" in left


def _block(*lines):
    return "\n".join(("{", '  "train_batch_size": 8,', *lines, "}"))


def _yaml(*lines):
    return "\n".join(("deepspeed:", "  train_batch_size: 8", *lines, ""))


ZERO = '  "zero_optimization": {"stage": 2}'
INNER = ['  "zero_optimization": {', '    "stage": 2', "  }"]
GROWN = ['  "zero_optimization": {', '    "stage": 2,', '    "overlap_comm": true', "  }"]
ZERO_YAML = ["  zero_optimization:", "    stage: 2"]
MOVED = [
    # the comment behind the value goes along where a line is there for it
    (
        _block('  "overlap_comm": true, // why', INNER[0], '    "stage": 2 # two', "  }"),
        _block(INNER[0], '    "stage": 2, # two', '    "overlap_comm": true // why', "  }"),
    ),
    (_block('  "zero_optimization": {', '    "stage": 2,', "  },", '  "overlap_comm": true /* why */'), None),
    (_block('  "overlap_comm": true, // why', ZERO), None),
    (_block("  // why", '  "overlap_comm": true,', *INNER), None),
    # a comment apart from it stays
    (_block("  // all", "", '  "overlap_comm": true,', *INNER), _block("  // all", "", *GROWN)),
]
MOVED_IN_YAML = [
    (_yaml("  overlap_comm: true  # why", *ZERO_YAML), _yaml(*ZERO_YAML, "    overlap_comm: true  # why")),
    (_yaml("  overlap_comm: true  # why", "  zero_optimization: {stage: 2}"), None),
    (_yaml("  # why", "  overlap_comm: true", *ZERO_YAML), None),
]
DELETED = [
    _block('  "amp": {"enabled": false}, // once', ZERO),
    _block("  // once", '  "amp": {"enabled": false},', ZERO),
    _block('  "amp": {', '    "enabled": false // once', "  },", ZERO),
]


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        *(("a.json", *case) for case in MOVED),
        *(("a.yaml", *case) for case in MOVED_IN_YAML),
        *(("a.json", text, None) for text in DELETED),
    ],
)
def test_no_safe_fix_parts_a_comment_from_its_value(write, zeroconf, name, text, after):
    folder = write(**{name: text})
    zeroconf("lint", "--fix", name, "--for", "deepspeed", "--select", "ZC103,ZC105")
    assert (folder / name).read_text() == (after or text)


def test_the_same_fixes_are_safe_without_comments(write, zeroconf):
    for text in (MOVED[1][0].replace(" /* why */", ""), DELETED[0].replace(" // once", "")):
        folder = write(**{"a.json": text})
        zeroconf("lint", "--fix", "a.json", "--for", "deepspeed", "--select", "ZC103,ZC105")
        assert (folder / "a.json").read_text() != text
