"""Advice must hold when it is followed: cures, the faster tight plan, what a pin costs."""

from __future__ import annotations

import contextlib
import random
import re
import shlex
from dataclasses import replace

import pytest

from zeroconf import api
from zeroconf.errors import InputError
from zeroconf.plan.choose import seconds_per_sample
from zeroconf.plan.search import costed
from zeroconf.render.text import decision_text
from zeroconf.units import seconds


def asked(options, words):
    """The options with a printed command's words added, as the command line would read them."""
    pairs = zip(words[::2], words[1::2], strict=True)
    typed = {name[2:].replace("-", "_"): value for name, value in pairs}
    numbers = {name: int(value) if value.isdigit() else value for name, value in typed.items()}
    if "headroom" in numbers:
        numbers["headroom"] = float(numbers["headroom"])
    return api.load_facts({**options, **numbers})[0]


CHOICES = {
    "activation_checkpointing": ["none", "full"],
    "attention": ["eager", "sdpa"],
    "gradient_accumulation": [2, 4],
    "micro_batch_size": [2, 8],
    "offload": ["none"],
    "zero_stage": [1, 2, 3],
    "seq_len": [8192, 32768],
    "global_batch_size": [8, 64],
}


def random_options(seed):
    choose = random.Random(seed)  # noqa: S311  (cases, not secrets)
    options = {
        "model": choose.choice(["llama-3.1-8b", "70B", "13B", "pythia-1b", "mixtral-8x7b"]),
        "hardware": choose.choice(["1xT4", "2xA100-40GB", "4xRTX4090", "p3.2xlarge", "g5.12xlarge", "2x4xL4"]),
    }
    return options | {key: choose.choice(values) for key, values in CHOICES.items() if choose.random() < 0.3}


@pytest.fixture(scope="module")
def decisions():
    """Random options that can be planned for, each with what is decided."""
    found = []
    for options in map(random_options, range(40)):
        with contextlib.suppress(InputError):
            found.append((options, api.decide(api.load_facts(options)[0])))
    return found


def test_a_cure_that_fits_does_fit_when_its_options_are_given(decisions):
    tried = 0
    for options, decision in decisions:
        for cure in decision.cures:
            if cure.fits:
                tried += 1
                followed = api.decide(asked(options, shlex.split(cure.option)))
                assert followed.chosen is not None, (options, cure.option)
    assert tried > 20


def test_the_faster_tight_plan_is_what_its_command_gives(decisions):
    tried = 0
    for options, decision in [*decisions, ({}, api.decide(case_13b()))]:
        tight = decision.faster_tight
        if tight is None:
            continue
        tried += 1
        text = decision_text(decision)
        words = re.search(r"but tight:.*?  zeroconf generate (--[^\n]*)\n", text, re.DOTALL)[1].split()
        base = options or {"model": "13B", "hardware": "8xA100-80GB"}
        followed = api.decide(asked(base, words)).chosen
        assert followed.plan == tight.plan
        assert seconds_per_sample(followed) < seconds_per_sample(decision.chosen)
    assert tried


def case_13b():
    return api.load_facts({"model": "13B", "hardware": "8xA100-80GB"})[0]


@pytest.mark.parametrize(
    ("model", "needs"),
    [
        ("1.18B", "22.7 GiB, up to 24.2 GiB with the predicted error (does not fit)"),
        ("1.4B", "26.8 GiB (does not fit)"),
    ],
)
def test_a_peak_below_the_card_that_does_not_fit_is_said_with_its_error(model, needs):
    decision = api.decide(api.load_facts({"model": model, "hardware": "4xRTX4090-24GB"})[0])
    stage = next(reason for reason in decision.reasons if reason.key == "zero_optimization.stage")
    assert f"; stage 0 needs {needs}; " in stage.because


def test_a_pinned_stage_3_over_gigabit_says_what_it_costs():
    facts, _ = api.load_facts(
        {"model": "llama-3.2-1b", "hardware": "8x1xA100-80GB", "network": "1gbe", "zero_stage": 3, "seq_len": 2048}
    )
    note = next(note for note in api.decide(facts).notes if "was asked for" in note)
    assert "stage 3 was asked for" in note
    assert note.count("per sample") == 2
    assert "over 1gbe" in note


def test_a_pin_that_costs_nothing_says_nothing():
    facts, _ = api.load_facts({"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "zero_stage": 2})
    assert not [note for note in api.decide(facts).notes if "was asked for" in note]


def test_inside_an_nvlink_node_stage_3_does_not_win_by_its_tuning_keys():
    for options in ({}, {"seq_len": 1024}):
        facts, _ = api.load_facts({"model": "7B", "hardware": "8xA100-80GB", "global_batch_size": 8, **options})
        assert api.decide(facts).chosen.plan.stage == 1


def test_a_mixture_gathers_all_experts_of_a_block():
    facts, _ = api.load_facts({"model": "deepseek-v3", "hardware": "32x8xH100-80GB", "network": "3200Gbps"})
    decision = api.decide(facts)
    plain = next(c for c in decision.candidates if c.plan.stage == 3 and c.plan.offload == "none")
    experts = 256 * 3 * 2048 * 7168
    assert plain.estimate.gpu.moments["backward"].gathered_parameters >= 2 * experts
    assert plain.estimate.verdict == "does-not-fit"


def test_the_scripts_own_optimizer_is_slower_on_the_host():
    options = {"model": "llama-3.1-8b", "hardware": "2xA100-80GB", "offload": "optimizer"}
    ours = api.decide(api.load_facts(options)[0]).chosen.estimate.step.offload_seconds
    theirs = api.decide(api.load_facts({**options, "client_optimizer": True})[0]).chosen.estimate.step.offload_seconds
    assert theirs > 4 * ours


def test_parameters_leave_the_card_only_where_that_is_faster_on_a_slow_host_too():
    unsure = api.decide(api.load_facts({"model": "65B", "hardware": "8xA100-80GB"})[0])
    assert unsure.chosen.plan.offload == "optimizer"
    assert "but unsure" in decision_text(unsure)
    faster = api.decide(api.load_facts({"model": "65B", "hardware": "4x8xA100-40GB"})[0])
    assert faster.chosen.plan.offload == "all"
    words = {reason.key: reason.because for reason in faster.reasons}
    assert "1.58x as fast" in words["zero_optimization.offload_param.device"]


def test_more_headroom_given_up_never_makes_the_choice_slower():
    options = {"model": "llama-3-70b", "seq_len": 2048, "global_batch_size": 64, "host_memory": "512GiB"}
    options |= {"hardware": "4x2xRTX5090-32GB", "network": "5Gbps"}
    chosen = [api.decide(api.load_facts({**options, "headroom": share})[0]).chosen for share in (0.3, 0.2, 0.1)]
    times = [one.estimate.step.high_seconds for one in chosen]
    assert times == sorted(times, reverse=True)


def test_weights_on_the_host_cost_their_copies_whoever_holds_the_optimizer():
    """2 x 2 bytes of 35e9 frozen parameters in each of 32 micro steps, at half of PCIe 4's 22e9 bytes/s: 407 s."""
    options = {"model": "llama-3.1-70b", "lora_rank": 16, "hardware": "2xA6000", "zero_stage": 3, "offload": "all"}
    options |= {"micro_batch_size": 2, "gradient_accumulation": 32, "activation_checkpointing": "full"}
    facts, _ = api.load_facts(options)
    plan = api.decide(facts).candidates[0].plan
    both, params = (costed(facts, replace(plan, offload_optimizer=place)).estimate.step for place in ("cpu", "none"))
    assert both.offload_seconds == pytest.approx(params.offload_seconds, rel=0.02)
    assert params.offload_seconds == pytest.approx(2 * 2 * 35.4e9 * 32 / (0.5 * 22e9), rel=0.03)


@pytest.mark.parametrize("batch", [1_441_440, 2**20 * 8, 7 * 11 * 13 * 8])
def test_composite_batches_do_not_blow_up_the_search(batch):
    facts, _ = api.load_facts({"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "global_batch_size": batch})
    assert api.decide(facts).num_searched < 2000


def test_a_plan_pinned_to_stage_0_without_offload_is_not_advised_to_offload():
    decision = api.decide(
        api.load_facts({"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "zero_stage": 0, "offload": "none"})[0]
    )
    assert decision.chosen is None
    assert decision.cures
    assert not any(cure.option.startswith("--offload") for cure in decision.cures)


A6000 = {"model": "llama-3.1-70b", "hardware": "2xA6000", "lora_rank": 16}


def test_packed_weights_are_named_where_lora_was_offloaded_and_hold_what_is_said():
    decision = api.decide(api.load_facts(A6000)[0])
    (note,) = [note for note in decision.notes if "QLoRA" in note]
    option, value = re.search(r"(--quantize) (\S+)\)", note).groups()
    chosen = api.decide(asked(A6000, [option, value])).chosen
    assert f"would take {seconds_per_sample(chosen):.1f} s per sample" in note
    assert f"instead of {seconds_per_sample(decision.chosen):.1f} s" in note
    assert chosen.estimate.verdict in note
    assert seconds_per_sample(chosen) < seconds_per_sample(decision.chosen)


@pytest.mark.parametrize(
    "options",
    [
        A6000 | {"quantize": "nf4-double"},  # they are
        A6000 | {"hardware": "8xA100-80GB"},  # nothing is offloaded
        {"model": "30B", "hardware": "2xA100-80GB"},  # everything trains
    ],
)
def test_packed_weights_are_not_named_elsewhere(options):
    assert not [note for note in api.decide(api.load_facts(options)[0]).notes if "QLoRA" in note]


ONE_CARD = {"model": "llama-3.1-8b", "hardware": "1xRTX4090", "lora_rank": 16, "seq_len": 2048, "global_batch_size": 16}


def test_the_reasons_of_a_plan_on_one_gpu():
    """42M trainable parameters are updated at once; what offload costs are the copies of 8B weights."""
    made = api.generate(api.load_facts(ONE_CARD)[0])
    words = {
        reason.key.rsplit(".", 2)[-2]: reason.because for reason in made.decision.reasons if "device" in reason.key
    }
    step = made.decision.chosen.estimate.step
    assert f"costs {seconds(step.upload_seconds)} per step on PCIe" in words["offload_param"]
    assert f"costs {seconds(step.offload_seconds - step.upload_seconds)} per step on" in words["offload_optimizer"]
    assert step.upload_seconds > 100 * (step.offload_seconds - step.upload_seconds)
    others = [reason.because for reason in made.decision.reasons if "device" not in reason.key]
    assert not [because for because in others if re.search("reduced while|communicates|pcie", because)]
    text = decision_text(made.decision)
    assert " 0 us" not in text
    assert "communication" not in text[text.index("one step: ") :].partition(";")[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"},
            r"; micro batch 2 would need [\d.]+ GiB \(does not fit\)",
        ),
        (
            {"model": "13B", "hardware": "8xA100-80GB"},
            r"; micro batch \d+ would need [\d.]+ GiB \((tight|does not fit)\)",
        ),
        ({"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "micro_batch_size": 1}, ""),
        ({"model": "pythia-70m", "hardware": "8xA100-80GB", "global_batch_size": 8}, ""),
    ],
)
def test_why_the_next_larger_micro_batch_was_not_taken(options, words):
    decision = api.decide(api.load_facts(options)[0])
    (because,) = [one.because for one in decision.reasons if one.key == "train_micro_batch_size_per_gpu"]
    assert re.fullmatch(rf"(asked for; )?\d+ x \d+ x \d+ GPUs = \d+ sequences of \d+ tokens{words}", because)
