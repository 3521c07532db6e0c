"""What ``estimate`` prints: moments of one plan, all stages, textbook beside real, cures where nothing fits."""

from __future__ import annotations

import json
import re

import click
import pytest

from zeroconf import api
from zeroconf.render.estimate_text import estimate_text, largest_part, textbook_reason
from zeroconf.units import GIB

LLAMA = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"}
STAGE_1 = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 8,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1},
}


def printed(tmp_path, content=None, **options):
    facts, _ = api.load_facts({**LLAMA, **options})
    path = None
    if content is not None:
        path = tmp_path / "ds_config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
    facts, estimates = api.estimate(facts, path)
    cures = api.estimate_cures(facts, estimates, one=path is not None)
    return estimates, cures, click.unstyle(estimate_text(facts, estimates, cures, one=path is not None))


def test_one_plan_shows_its_parts_at_each_moment(tmp_path):
    (cost,), cures, text = printed(tmp_path, STAGE_1)
    assert cures == ()
    table = {
        line.rsplit(maxsplit=4)[0]: line.split()[-4:]
        for line in text.splitlines()
        if re.search(r"( +[\d.]+){4}$", line)
    }
    assert [float(cell) for cell in table.pop("GiB per GPU")] == pytest.approx(
        [moment.total / GIB for moment in cost.gpu.moments.values()], abs=0.051
    )
    for part, cells in table.items():
        real = [getattr(moment, part.strip().replace(" ", "_")) / GIB for moment in cost.gpu.moments.values()]
        assert [float(cell) for cell in cells] == pytest.approx(real, abs=0.051)
    # a part that is nowhere has no line
    assert "gathered parameters" not in table
    assert "largest part  parameters, 15.0 GiB" in text
    assert f"comfortable: the peak is {cost.gpu.peak_allocated_bytes / cost.capacity_bytes:.0%} of 79.2 GiB" in text


def test_what_does_not_fit_comes_with_cures(tmp_path):
    _, cures, text = printed(tmp_path, STAGE_1, hardware="8xA100-40GB")
    assert "It does not fit. What would help" in text
    assert [cure.fits for cure in cures] == sorted((cure.fits for cure in cures), reverse=True)
    assert {"--zero-stage 3", "--offload optimizer", "(as in the file)"} <= {cure.option for cure in cures}
    assert all(cure.option in text for cure in cures)


def test_too_large_buckets_are_cured_by_generates(tmp_path):
    zero = {"stage": 2, "reduce_bucket_size": 20_000_000_000, "overlap_comm": True}
    _, cures, _ = printed(tmp_path, STAGE_1 | {"zero_optimization": zero}, activation_checkpointing="full")
    # nothing else is credited with what the buckets save
    assert [(cure.option, cure.fits) for cure in cures] == [("(as in the file)", True)]


def test_other_cures_say_what_of_their_saving_the_buckets_bring(tmp_path):
    zero = {"stage": 1, "reduce_bucket_size": 20_000_000_000}
    _, cures, _ = printed(tmp_path, STAGE_1 | {"zero_optimization": zero}, hardware="8xA100-40GB")
    own, *others = sorted(cures, key=lambda cure: cure.option != "(as in the file)")
    assert not own.fits
    assert all(cure.cost.startswith("buckets as generate sets them; ") for cure in others)
    assert own.gpu_bytes not in {cure.gpu_bytes for cure in others if cure.host_bytes == own.host_bytes}


def test_all_stages_side_by_side_have_no_cures_while_one_fits(tmp_path):
    estimates, cures, text = printed(tmp_path)
    assert (len(estimates), cures) == (4, ())
    assert [f"stage {stage}: the textbook's" in text for stage in range(4)] == [True] * 4
    _, cures, text = printed(tmp_path, model="70B", hardware="2xT4")
    assert cures
    assert "Nothing fits." in text


def test_the_difference_from_the_textbook_is_named(tmp_path):
    (cost,), _, _ = printed(tmp_path, STAGE_1)
    reason = textbook_reason(cost)
    assert reason.startswith("the textbook's 41.1 GiB count")
    assert reason.index("logits") < reason.index("activations")
    assert "offload" not in reason
    assert largest_part(cost.gpu.peak) == ("parameters", cost.gpu.peak.parameters)
    offloaded = STAGE_1 | {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    (cost,), _, _ = printed(tmp_path, offloaded)
    assert "it knows no offload" in textbook_reason(cost)


def test_speeds_are_of_a_gpu_and_of_all_with_the_range_of_a_step(tmp_path):
    estimates, _, text = printed(tmp_path)
    rows = {line[:20].strip(): re.split(r"  +", line[20:].strip()) for line in text.splitlines()}
    each, every = ([float(cell.replace(",", "")) for cell in rows[f"tokens/s {of}"]] for of in ("per GPU", "in all"))
    assert every == pytest.approx([8 * one for one in each], abs=4)
    assert each == pytest.approx([cost.step.tokens_per_second_per_gpu for cost in estimates], abs=0.5)
    ranges = [line for line in text.splitlines() if line.startswith("  between") and " s to " in line]
    assert len(ranges) == 1
    low_to_high = re.findall(r"([\d.]+) s to ([\d.]+) s", ranges[0])
    assert [tuple(map(float, one)) for one in low_to_high] == [
        pytest.approx((cost.step.low_seconds, cost.step.high_seconds), rel=0.01) for cost in estimates
    ]


@pytest.mark.parametrize(("option", "words"), [("none", "kept"), ("full", "recomputed"), (None, "recomputed")])
def test_whether_activations_are_recomputed_is_said(tmp_path, option, words):
    _, _, text = printed(tmp_path, STAGE_1, activation_checkpointing=option)
    assert f"flash attention, activations {words}\n" in text
    assert "Plan      stage 1, micro batch 2 x 8 accumulation steps\n" in text


def test_whether_each_stage_recomputes_stands_in_its_column(tmp_path):
    estimates, _, text = printed(tmp_path)
    (row,) = [line for line in text.splitlines() if line.startswith("recompute ")]
    assert row.split()[1:] == ["yes" if cost.plan.activation_checkpointing else "no" for cost in estimates]
    assert "activations kept" not in text
