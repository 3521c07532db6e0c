"""What is said of ranges and of tables' words, against what the accuracy page shows and where the thing occurs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from zeroconf import api
from zeroconf.rates import RATES
from zeroconf.render.legend import ADAPTERS_IN_RANGE, IN_RANGE, PACKED_IN_RANGE, range_words
from zeroconf.render.text import decision_text

ACCURACY = Path(__file__).parents[2] / "docs/accuracy.md"
LLAMA = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"}


def in_band(pattern):
    """Of all rows that match, the share in the band."""
    row = rf"^\| {pattern} \| (\d+) \|.* ([\d.]+)% \| [\d.]+ \|$"
    rows = re.findall(row, ACCURACY.read_text("utf-8"), re.MULTILINE)
    number = sum(int(rows_of) for rows_of, _ in rows)
    return sum(int(rows_of) * float(share) / 100 for rows_of, share in rows) / number, number


@pytest.mark.parametrize(
    ("words", "pattern", "at_least"),
    [
        (IN_RANGE, "all", 150),
        (ADAPTERS_IN_RANGE, ".*, adapters", 30),
        (PACKED_IN_RANGE, ".*, adapters over 4 bits", 20),
    ],
)
def test_so_many_published_runs_lie_in_the_range(words, pattern, at_least):
    share, number = in_band(pattern)
    assert number >= at_least
    assert words == f"{round(10 * share)} of 10"


def test_the_range_is_that_of_the_job():
    facts, _ = api.load_facts(LLAMA)
    assert range_words(facts).startswith(IN_RANGE)
    assert range_words(api.load_facts({**LLAMA, "lora_rank": 16})[0]).startswith(ADAPTERS_IN_RANGE)
    assert range_words(api.load_facts({**LLAMA, "lora_rank": 16, "quantize": "nf4"})[0]).startswith(PACKED_IN_RANGE)
    links_only = replace(facts, rates=replace(RATES, measured="the link"))
    assert range_words(links_only) == range_words(facts)
    assert "measured steps" in range_words(replace(facts, rates=replace(RATES, compute_error=0.05)))


def flat(decision):
    return " ".join(decision_text(decision).split())


def test_words_are_explained_where_they_occur():
    told = flat(api.decide(api.load_facts({"model": "13B", "hardware": "4x4xA100-80GB", "network": "10gbe"})[0]))
    assert told.count("hpZ: weights partitioned once more inside groups") == 1
    assert f"{IN_RANGE} published runs lie in such a range" in told
    told = flat(api.decide(api.load_facts(LLAMA)[0]))
    assert "hpZ" not in told
    assert "recompute: activation checkpointing" in told


def test_of_what_does_not_fit_the_time_is_left_out_and_the_error_shown_where_the_peak_alone_fits():
    facts, _ = api.load_facts({"model": "llama-3.1-70b", "hardware": "2xA6000", "lora_rank": 16, "quantize": "nf4"})
    decision = api.decide(facts)
    rows = [line for line in click.unstyle(decision_text(decision)).splitlines() if "does-not-fit" in line]
    assert len(rows) == len(decision.candidates)
    for row in rows:
        peak, beside = re.search(r"([\d.]+) GiB  does-not-fit *(.*)$", row).groups()
        assert bool(beside) == (float(peak) < 47.3)
        assert beside in {"", "up to 47.4 GiB with the predicted error"}
