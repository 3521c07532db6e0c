"""ZC4xx by relation: SPEC's case of 1B models over gigabit Ethernet, and silence inside the uncertainty."""

from __future__ import annotations

import json
import re

import pytest
from with_facts import config, drawn, findings, linted, only, step_seconds

from zeroconf import api
from zeroconf.document.edits import apply

GIGABIT = {"hardware": "8x1xA100-80GB", "network": "1gbe", "seq_len": 1024}
MODELS = ("pythia-1b", "llama-3.2-1b")  # below and above stage3_max_live_parameters


@pytest.mark.parametrize("model", MODELS)
def test_stage_3_with_accumulation_sends_many_times_the_bytes(model):
    found = only(config(3, steps=16), "ZC401", model=model, **GIGABIT)
    assert found.severity == "warning"
    assert found.pointer == "/zero_optimization/stage"
    assert "in each of 16 micro steps" in found.message
    fixed = json.loads(apply(json.dumps(config(3, steps=16)), found.fix.edits))
    assert fixed["zero_optimization"]["stage"] < 2
    assert "ZC401" not in {code for code, _ in drawn(fixed, model=model, **GIGABIT)}


@pytest.mark.parametrize("model", MODELS)
def test_without_accumulation_it_is_needless_not_slow(model):
    found = findings(config(3), model=model, **GIGABIT)
    assert [(one.rule.code, one.severity) for one in found if one.rule.code.startswith("ZC4")] == [("ZC402", "info")]
    if model == "pythia-1b":
        assert "needless: it costs latency, hardly more bytes" in found[0].message


def test_stage_3_costs_memory_only_where_it_needs_more():
    """Buffers of 5e8 elements are a gigabyte, whatever the model's size: more than there is to partition of 70M."""
    found = only(config(3), "ZC402", model="pythia-70m", **GIGABIT)
    assert "needless: it costs memory and latency, not bytes" in found.message


def test_a_faster_link_never_adds_a_warning():
    def is_slow(network):
        facts = {"hardware": "8x1xA100-80GB", "network": network, "seq_len": 1024, "model": "llama-3.2-1b"}
        return "ZC401" in {code for code, _ in drawn(config(3, steps=4), **facts)}

    slow = [is_slow(network) for network in ("1gbe", "10gbe", "25gbe", "100gbe", "800gbe")]
    assert slow == sorted(slow, reverse=True)
    assert slow[:3] == [True] * 3


@pytest.mark.parametrize("model", ["gpt2", "llama-3.2-1b", "llama-3.1-8b"])
def test_stage_3_over_nvlink_is_no_warning(model):
    found = drawn(config(3, micro=4), model=model, hardware="8xA100-80GB", seq_len=2048)
    assert not {(code, severity) for code, severity in found if severity != "info"}


def test_a_pinned_stage_or_an_open_batch_draws_nothing_about_time():
    pinned = drawn(config(3, steps=16), model="pythia-1b", zero_stage=3, **GIGABIT)
    assert not {code for code, _ in pinned} & {"ZC401", "ZC402"}
    open_batch = {**config(3), "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    assert not {code for code, _ in drawn(open_batch, reader="trainer", model="pythia-1b", **GIGABIT)} & {
        "ZC401",
        "ZC402",
    }
    options = {"micro_batch_size": 1, "gradient_accumulation": 16}
    assert "ZC401" in {code for code, _ in drawn(open_batch, reader="trainer", model="pythia-1b", **options, **GIGABIT)}


def test_a_lower_stage_that_does_not_fit_is_no_advice():
    facts = {"model": "30B", "hardware": "4x8xA100-80GB", "network": "10gbe", "seq_len": 512}
    found = only(config(3, steps=4), "ZC401", **facts)
    assert "zero_hpz_partition_size" in found.fix.title  # stages 0 to 2 need more than the card has


@pytest.mark.parametrize("hardware", ["8x1xRTX4090", "8x1xA100-40GB", "4x2xRTX3090"])
@pytest.mark.parametrize("micro", [1, 2, 4])
@pytest.mark.parametrize("length", [1024, 2048])
def test_the_better_stage_is_found_where_it_needs_recomputation_or_smaller_micro_batches(hardware, micro, length):
    facts = {"model": "llama-3.2-1b", "hardware": hardware, "network": "1gbe", "seq_len": length}
    text = json.dumps(config(3, micro=micro, steps=8))
    found = only(text, "ZC401", **facts)
    assert 6 < float(re.search(r"is (\d+\.\d)x as fast", found.message)[1]) < 10
    fixed = json.loads(apply(text, found.fix.edits))
    assert fixed["train_micro_batch_size_per_gpu"] * fixed["gradient_accumulation_steps"] == 8 * micro
    left = findings(fixed, **facts)
    assert not [one for one in left if one.rule.code.startswith("ZC4") and one.severity != "info"]


def test_where_activations_must_not_be_computed_again_the_batch_is_split():
    facts = {"model": "llama-3.2-1b", "hardware": "8x1xRTX4090", "network": "1gbe", "seq_len": 2048}
    found = only(config(3, micro=2, steps=8), "ZC401", activation_checkpointing="none", **facts)
    assert "micro batch 1 x 16" in found.message
    assert "recomputing" not in found.message


def test_a_plan_that_several_keys_beat_together():
    facts = {"model": "llama-3.1-8b", "hardware": "8xL40S", "seq_len": 512}
    found = only(config(2, micro=4, steps=16), "ZC407", **facts)
    assert "stage 3, micro batch 16 x 4, recomputing activations" in found.message
    assert not drawn(config(2, micro=4, steps=16), zero_stage=2, **facts)


def test_stage_2_reduces_in_every_micro_step():
    facts = {"model": "llama-3.1-8b", "hardware": "4x8xA100-80GB", "network": "10gbe", "seq_len": 512}
    found = only(config(2, steps=16), "ZC401", **facts)
    assert "stage 1" in found.message
    assert "ZC405" not in {code for code, _ in drawn(config(2, steps=16), **facts)}


@pytest.mark.parametrize(("size", "codes"), [(2, set()), (4, set()), (8, {"ZC403"}), (3, {"ZC308"}), (64, {"ZC308"})])
def test_partitions_stay_inside_a_node(size, codes):
    found = drawn(config(3, zero_hpz_partition_size=size), hardware="4x4xA100-80GB", network="ib-hdr")
    assert {code for code, _ in found} == codes


def test_offload_is_needless_only_where_the_plan_fits_without():
    offloaded = config(2, micro=4, offload_optimizer={"device": "cpu"})
    facts = {"hardware": "8xA100-80GB", "seq_len": 512}
    found = only(offloaded, "ZC404", model="llama-3.2-1b", **facts)
    fixed = json.loads(apply(json.dumps(offloaded), found.fix.edits))
    assert "offload_optimizer" not in fixed["zero_optimization"]
    assert "ZC404" not in {code for code, _ in drawn(offloaded, model="30B", **facts)}
    assert "ZC404" not in {code for code, _ in drawn(offloaded, model="llama-3.2-1b", offload="optimizer", **facts)}


def test_the_assumed_length_of_sequences_is_told():
    facts = {"model": "gpt2", "hardware": "8xA100-80GB"}
    offloaded = config(2, offload_optimizer={"device": "cpu"})
    assert "sequences of 1024 tokens, since --seq-len is not given" in only(offloaded, "ZC404", **facts).message
    assert "--seq-len" not in only(offloaded, "ZC404", seq_len=512, **facts).message


INLINE = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3, %s}\n"


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.yaml", INLINE % "gradient_accumulation_steps: 16", ["global_batch_size"]),
        ("a.yaml", INLINE % "gradient_accumulation_steps: auto", ["global_batch_size", "micro_batch_size"]),
        ("a.json", '{"train_micro_batch_size_per_gpu": "auto"}', ["global_batch_size", "micro_batch_size"]),
        ("a.json", '{"train_batch_size": 128, "train_micro_batch_size_per_gpu": "auto"}', ["micro_batch_size"]),
        ("a.json", '{"gradient_accumulation_steps": 16, "bf16": {"enabled": "auto"}}', ["global_batch_size"]),
    ],
)
def test_rules_about_time_are_skipped_with_the_options_that_say_the_batch(name, text, options):
    facts = {"name": name, "model": "llama-3.2-1b", **GIGABIT}
    needed = " and ".join(f"--{option.replace('_', '-')}" for option in options)
    skipped = {one.code: one.needs for one in linted(text, **facts).skipped}
    assert skipped == dict.fromkeys(("ZC401", "ZC402", "ZC404", "ZC405", "ZC406", "ZC407", "ZC408"), needed)
    values = {"global_batch_size": 128, "micro_batch_size": 1}
    done = linted(text, **facts, **{option: values[option] for option in options})
    assert not done.skipped
    if "zero_stage: 3" in text:
        assert "ZC401" in {one.rule.code for one in done.findings}


def test_the_search_tries_micro_batches_as_large_as_the_linter_does():
    """bert-base in 64 tokens over 10GbE: 256 x 8 takes 2.5 times as long as 2048 x 1."""
    facts = {"model": "bert-base-uncased", "hardware": "8x1xA100-80GB", "network": "10gbe", "seq_len": 64}
    loaded, _ = api.load_facts({**facts, "global_batch_size": 16384, "zero_stage": 2})
    chosen = api.decide(loaded).chosen.plan
    assert (chosen.micro_batch_size, chosen.gradient_accumulation_steps) == (2048, 1)
    sent_once = {"overlap_comm": True, "reduce_bucket_size": 6_000_000, "use_multi_rank_bucket_allreduce": False}
    in_steps = config(2, micro=256, steps=8, **sent_once)
    assert "2048 x 1 fits as well" in only(in_steps, "ZC405", **facts, zero_stage=2).message
    assert drawn(config(2, micro=2048, **sent_once), **facts, zero_stage=2) == set()


QUANTIZED = ("zero_quantized_weights", "zero_quantized_gradients")


@pytest.mark.parametrize(
    ("hardware", "network", "model", "told"),
    [
        ("1xA100-80GB", None, "llama-3.2-1b", dict.fromkeys(QUANTIZED, "has no effect on one GPU")),
        # NVLink carries whole weights in less than unpacking takes
        (
            "8xA100-80GB",
            None,
            "llama-3.1-8b",
            {QUANTIZED[0]: "saves no time here", QUANTIZED[1]: "no effect on one node"},
        ),
        ("2x8xA100-80GB", "ib-ndr", "llama-2-13b", {}),
        ("4x8xA100-80GB", "10gbe", "llama-3.1-8b", {}),
    ],
)
def test_quantized_communication_is_needless_only_where_the_link_carries_it_whole(hardware, network, model, told):
    facts = {"model": model, "hardware": hardware, "seq_len": 2048} | ({"network": network} if network else {})
    both = config(3, micro=4, **dict.fromkeys(QUANTIZED, True))
    found = {one.pointer.rsplit("/", 1)[-1]: one for one in findings(both, **facts) if one.rule.code == "ZC408"}
    assert {key: words in found[key].message for key, words in told.items()} == dict.fromkeys(found, True)
    edits = [edit for one in found.values() for edit in one.fix.edits]
    fixed = apply(json.dumps(both), sorted(edits, key=lambda edit: edit.start))
    assert step_seconds(fixed, facts) <= step_seconds(both, facts)
    assert "ZC408" not in {code for code, _ in drawn(fixed, **facts)}


def test_on_a_launch_line_the_key_is_named():
    line = (
        "deepspeed --num_gpus 8 train.py --deepspeed q.json --per_device_train_batch_size 4"
        " --gradient_accumulation_steps 1 --bf16\n"
    )
    autos = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
    content = config(3, zero_quantized_weights=True) | autos
    facts = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "seq_len": 2048}
    found = only(line, "ZC408", name="train.sh", files={"q.json": json.dumps(content)}, **facts)
    assert found.message.startswith("zero_quantized_weights saves no time here")


def test_groups_over_nodes_of_one_gpu_have_no_inside():
    """A copy for each two of eight hosts halves the gathers that go further; partitions of one would be no hpZ."""
    facts = {"model": "starcoder2-15b", "hardware": "8x1xH200", "network": "10gbe", "seq_len": 512}
    content = config(3, micro=4, steps=4, zero_hpz_partition_size=2)
    assert "ZC403" not in {code for code, _ in drawn(content, **facts)}
    alone = config(3, micro=4, steps=4)
    assert step_seconds(content, facts) < step_seconds(alone, facts)


@pytest.mark.parametrize("model", ["llama-3.1-405b", "mixtral-8x7b"])
def test_a_plan_that_the_quantizer_refuses_is_not_compared(model):
    """On 24 GPUs parts are no multiples of 8: there is an error to tell, and no time."""
    done = linted(config(3, zero_quantized_weights=True), model=model, hardware="3x8xH200")
    assert {one.rule.code for one in done.findings} & {"ZC318", "ZC401", "ZC402", "ZC408", "ZC301"} == {"ZC318"}
    skipped = {one.code: one.needs for one in done.skipped}
    assert all("no multiple of 8" in skipped[code] for code in ("ZC301", "ZC401", "ZC408"))
