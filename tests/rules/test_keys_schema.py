"""The walk over the key table and the published schema, which is written from it, find fault with the same files."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.document.read import parse_document
from zeroconf.keys import key_table
from zeroconf.lint import lint_document
from zeroconf.resources import data_path

# what a schema can say: unknown and removed keys, types, ranges, choices; with the rules on what stands in quotes
EXPRESSIBLE = {"ZC008", "ZC009", "ZC010", *(f"ZC{n}" for n in (101, 102, 103, 104, 105, 111, 112, 113, 114, 115, 116))}
# passed over beside bf16; a rule among those about optimizers; one about blocks that are idle without NVMe
ELSEWHERE = {"bfloat16", "max_grad_norm", "thread_count"}
BLOCKS = key_table("deepspeed").blocks
VALIDATOR = jsonschema.Draft202012Validator(json.loads(data_path("schemas/ds_config.schema.json").read_bytes()))

PLAIN = {
    "integer": st.sampled_from([0, 1, 2, 5, 1000, 4.0, 5e8]),
    "number": st.sampled_from([0, 0.5, 1, 1e-8]),
    "boolean": st.booleans(),
    "string": st.sampled_from(["a", "cpu", "fp16"]),
    "array": st.sampled_from([[], ["a"], [0.9, 0.999], [1]]),
    "object": st.just({}),
    "null": st.none(),
}
QUOTED = ("8", "5e8", "0.5", "true", "No", "none")
ODD_VALUES = [
    *(*QUOTED, None, True, False, 0, 1, -1, 3, 0.5, 1.0, 2.5, 5e8, "", "x", "CPU", "fp32"),
    *([], [None], ["a", 1], {}, {"enabled": True}, {"x": 1}),
]
ODD = st.sampled_from(ODD_VALUES)
KEYS = sorted({name for block in BLOCKS.values() for name in block.keys} - ELSEWHERE)
STRANGE = st.sampled_from(["nope", "_note", "$x", "comment", "Comments", "#", "", "é", "msamp", "zero_optimisation"])


def values(key):
    if key.enum:
        return st.sampled_from(key.enum) | ODD
    return st.one_of(*(PLAIN[name] for name in key.type), ODD)


@st.composite
def blocks(draw, path=""):
    """A block with some of its keys, now and then one that it has not, or a value that it does not take."""
    keys = BLOCKS[path].keys
    names = draw(st.lists(st.sampled_from(sorted(set(keys) - ELSEWHERE)), unique=True, max_size=3))
    config = {}
    for name in names:
        inner = keys[name].block
        config[name] = draw(blocks(inner) if inner is not None and draw(st.booleans()) else values(keys[name]))
    if draw(st.integers(0, 5)) == 0:
        config[draw(STRANGE | st.sampled_from(KEYS))] = draw(ODD)
    return config


def walk_finds(config):
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    # whatever it looks like, it is one
    findings = lint_document(replace(document, kind="ds_config", configs=((),))).findings
    told = [found for found in findings if found.rule.code in EXPRESSIBLE and not is_whole(document, found)]
    return sorted({f"{found.rule.code} {found.pointer}" for found in told})


def is_whole(document, found):
    """Whether it is about 1.0 where some readers want 1: to JSON Schema both are an integer."""
    node = document.root.at(found.path)
    return found.rule.code == "ZC115" and isinstance(node.value, float) and node.value.is_integer()


def schema_finds(config):
    return sorted(f"{list(error.absolute_path)}: {error.message}" for error in VALIDATOR.iter_errors(config))


def disagreement(config):
    walk, schema = walk_finds(config), schema_finds(config)
    return None if bool(walk) == bool(schema) else f"{json.dumps(config)}\nwalk: {walk}\nschema: {schema}"


@pytest.mark.parametrize("path", BLOCKS)
def test_they_agree_on_every_key_by_itself(path):
    for name, key in BLOCKS[path].keys.items():
        for value in [*ODD_VALUES, *(key.enum or ())] if name not in ELSEWHERE else ():
            config = {name: value}
            for holder in reversed(path.split(".") if path else []):
                config = {holder: config}
            assert disagreement({"train_batch_size": 8} | config) is None


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(blocks())
def test_they_agree_on_random_configurations(config):
    assert disagreement({"train_batch_size": 8} | config) is None


@pytest.mark.parametrize(
    ("config", "is_good"),
    [
        ({}, True),
        ({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}, "bf16": {"enabled": "auto"}}, True),
        ({"zero_optimization": True}, True),
        ({"zero_optimization": {"max_live_parameters": 1e9}, "_comment": "x", "msamp": {}}, True),
        ({"optimizer": {"type": "X", "params": {"anything": [1]}}}, True),
        ({"checkpoint": {"tag_validation": "WARN"}, "communication_data_type": "FP16"}, True),
        ({"zero_optimization": {"nope": 1}}, False),
        ({"nope": 1}, False),
        ({"amp": {"enabled": False}}, False),
        ({"zero_optimization": {"stage": 4}}, False),
        ({"zero_optimization": {"offload_param": {"device": "CPU"}}}, False),
        ({"fp16": {"min_loss_scale": 0.5}}, False),
        ({"train_batch_size": "8"}, False),
    ],
)
def test_both_tell_good_from_bad(config, is_good):
    config = {"train_batch_size": 8} | config
    assert bool(walk_finds(config)) is not is_good
    assert bool(schema_finds(config)) is not is_good
