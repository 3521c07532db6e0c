"""A user's file with a plan in it: nothing of the user's is lost, nothing that the plan decides is left."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.config_file import read_base
from zeroconf.emit.base import changes, merged
from zeroconf.errors import InputError

STAGE_2 = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4,
    "gradient_clipping": "auto",
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 1000},
}
BASE = {
    "train_batch_size": 64,
    "gradient_clipping": 0.5,
    "steps_per_print": 100,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
    "fp16": {"enabled": True, "loss_scale": 128},
    "zero_optimization": {
        "stage": 3,
        "contiguous_gradients": True,
        "reduce_bucket_size": "auto",
        "max_live_parameters": 5,
        "stage3_max_reuse_distance": 6,
        "stage3_gather_16bit_weights_on_model_save": True,
        "offload_param": {"device": "cpu", "pin_memory": False},
    },
}


def test_the_plan_is_set_what_it_has_not_goes_and_the_rest_stays():
    assert merged(BASE, STAGE_2) == {
        "gradient_clipping": 0.5,
        "steps_per_print": 100,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
        "zero_optimization": {
            "stage": 2,
            "contiguous_gradients": True,
            "reduce_bucket_size": 1000,
            "overlap_comm": True,
        },
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True},
    }


def test_an_offload_that_stays_keeps_what_else_its_block_says():
    ours = {"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "pin_memory": True}}}
    block = merged(BASE, ours)["zero_optimization"]["offload_param"]
    assert block == {"device": "nvme", "pin_memory": False}


def test_what_an_earlier_plan_said_of_itself_goes_and_the_users_ignores_stay():
    ignore = {"ignore": {"ZC240": "later"}}
    earlier = BASE | {"_zeroconf": {"verified": "dry run: fits", "reasons": [], **ignore}}
    assert merged(earlier, STAGE_2)["_zeroconf"] == ignore
    assert "_zeroconf" not in merged(BASE | {"_zeroconf": {"verified": "dry run: fits"}}, STAGE_2)


def test_changes_name_each_leaf_once():
    after = merged(BASE, STAGE_2)
    found = {change.key: (change.kind, change.before, change.after) for change in changes(BASE, after)}
    assert found["zero_optimization.stage"] == ("changed", 3, 2)
    assert found["zero_optimization.overlap_comm"] == ("added", None, True)
    assert found["fp16.loss_scale"] == ("removed", 128, None)
    assert "steps_per_print" not in found
    assert changes(after, after) == ()


def test_one_and_true_are_not_the_same():
    assert [change.kind for change in changes({"a": 1}, {"a": True})] == ["changed"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.sampled_from([*BASE, "zero_optimization", "offload_param", "stage", "device", "x"])
CONFIGS = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=4), max_size=6)


@given(CONFIGS, st.sampled_from([STAGE_2, {"zero_optimization": {"stage": 0}}]))
def test_merging_twice_changes_nothing_more_and_the_base_is_not_touched(base, ours):
    before = json.dumps(base)
    once = merged(base, ours)
    assert json.dumps(base) == before
    assert merged(once, ours) == once
    assert changes(once, merged(once, ours)) == ()
    assert once["zero_optimization"]["stage"] == ours["zero_optimization"]["stage"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config: {}\n", "ds_config.json"),
        ("[1, 2]", "a configuration is a mapping"),
        ("{", "not JSON"),
    ],
)
def test_other_files_are_no_base(tmp_path, text, words):
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_base(path)
