"""The section of ``docs/accuracy.md`` on time, from the figures of ``step_time_accuracy.py``."""

from __future__ import annotations

from typing import Any

from accuracy_page import percent, table

_HEAD = """# Time: predicted against published runs

{date}. Written by `benchmarks/step_time_accuracy.py --page`; figures in
`benchmarks/results/step-time-accuracy-{date}.json`, the runs' facts with their public sources in
`benchmarks/data/measured.csv` and `benchmarks/data/timed.csv`.

Seven constants of `zeroconf/rates.py` and `inputs/data/gpus.csv` are fitted to these runs, and an eighth is the least
that one shows; what DeepSpeed's hooks cost the host is measured apart (`benchmarks/host_floor.py`), the rest is counted
or published. "Left out" is the error of a source's runs with all eight found again without that source, "in band" how
many of them lie between the low and the high prediction made so. Errors are predicted / measured - 1 of an optimizer
step. An engine other than DeepSpeed is read by one rule for each engine (`benchmarks/step_time_rows.py`): fused
modules, communication that FSDP hides and tensors that it copies whole, DDP's buckets.
"""
_BESIDE = """None of these runs is fitted to: what adapters cost is counted and measured apart, and what joins the nodes
is guessed where the source does not say. Three groups are not explained: Qwen-7B's adapters on two nodes took 1.7 times
what they took on one GPU at every length; fsdp_qlora's sharded runs on the RTX 3090 went over a board with slow PCIe,
of which the width is not stated; its RTX 6000 Ada was slower than its RTX 4090.

"""
_HEADER = ("", "rows", "median", "left out: median", "90th percentile", "median signed", "in band", "high / low")


def section(found: dict[str, Any]) -> str:
    """The section's text."""
    blocks = [
        _HEAD.format(date=found["date"]).rstrip(),
        "## By engine\n\nAll parameters train, and the source says what joins its nodes.\n\n"
        + _errors({"all": found["all"], **found["engines"]}),
        "## By engine and source\n\n" + _errors(found["sources"]),
        "## Adapters, and networks that are not stated\n\n" + _BESIDE + _errors(found["beside"]),
        "## Constants\n\n" + _constants(found),
        "## Each timed row\n\n" + _rows(found["rows"]),
        "## Timings not used\n\n" + _unused(found["unused"]),
    ]
    return "\n\n".join(blocks) + "\n"


def _errors(groups: dict[str, Any]) -> str:
    lines = [
        (
            name,
            str(one["rows"]),
            percent(one["fitted"]["median_absolute"]),
            percent(one["left_out"]["median_absolute"]),
            percent(one["left_out"]["p90_absolute"]),
            percent(one["left_out"]["median_signed"], signed=True),
            percent(one["in_band"]),
            f"{one['median_band']:.2f}",
        )
        for name, one in groups.items()
    ]
    return table(_HEADER, lines)


def _constants(found: dict[str, Any]) -> str:
    sources = list(found["left_out"])
    header = ("", "start", "fitted to all", *(f"without {source}" for source in sources))
    lines = [
        (name, f"{start:g}", f"{found['fitted'][name]:g}", *(f"{found['left_out'][one][name]:g}" for one in sources))
        for name, start in found["start"].items()
    ]
    return table(header, lines)


def _rows(rows: list[dict[str, Any]]) -> str:
    header = ("id", "framework", "model", "GPUs", "stage", "tokens", "measured s", "predicted", "error", "left out")
    lines = [
        (
            row["id"],
            row["framework"],
            row["model"] + ("" if row["full"] else " QLoRA" if row["quantize"] else " LoRA"),
            f"{row['gpus']} {row['gpu'].split('-')[0]}",
            row["stage"],
            f"{row['micro_batch']} x {row['sequence_length']}",
            f"{row['measured_seconds']:.3g}",
            f"{row['predicted_seconds']:.3g}",
            percent(row["signed_error"], signed=True),
            percent(row["left_out_error"], signed=True),
        )
        for row in rows
    ]
    return table(header, lines)


def _unused(unused: dict[str, Any]) -> str:
    counted = table(("rows", "reason"), [(str(number), reason) for reason, number in unused["reasons"].items()])
    listed = table(("id", "source", "reason"), [(r["id"], r["source"], r["reason"]) for r in unused["rows"]])
    return f"{counted}\n\n{listed}"
