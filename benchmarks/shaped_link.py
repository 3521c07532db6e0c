"""The order of stages over a slow link, predicted and measured: ``python benchmarks/shaped_link.py``.

Two network namespaces joined by virtual Ethernet that ``tc tbf`` limits to 100 Mbit/s both ways, real DeepSpeed on the
CPU with a rank on each side (or two, for hpZ), a Llama of 3.5 million parameters. Each case takes three steps until
stage 3's trace is complete, five over the free link and five over the limited one; medians count.

Predicted seconds of an optimizer step = the same engine's seconds over the free link (what the processor takes, which
no table of GPUs knows) + what zeroconf predicts to be sent (``estimate``'s collectives in gloo's bytes, ``wire.py``) /
what it plans with on such a link (``--network 100Mbps``: 0.88 of the line rate). A reduce counts as what its
owner receives after the ring, by which it takes as long as an all-reduce, though the others send less; what the mean
bytes of the ranks would predict is told beside. Of each two cases with as many ranks whose predictions are more than
25 % apart, the measured order must be the predicted one. Needs root and iproute2; without them it says so. Runs in the
training environment; prints a JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gloo_bytes import SPACES, crossing, namespaces, run
from traffic_cases import named_case

from zeroconf.estimate.wire import bytes_on_wire
from zeroconf.inputs.links import read_network

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cases import Case

    from zeroconf.types import Collective

WORKER = Path(__file__).resolve().parent / "shaped_rank.py"
NETWORK, RATE = "100Mbps", "100mbit"
APART = 1.25
PAIRS = [
    *((stage, option) for stage in range(4) for option in ("", "accumulation-4")),
    (1, "reduce-to-owner"),
    (2, "reduce-to-owner+accumulation-4"),
    (2, "lora+accumulation-4"),
    (3, "lora+accumulation-4"),
    (3, "live-default"),
    (3, "live-default+accumulation-4"),
    (1, "accumulation-16"),
    (3, "live-default+accumulation-16"),
    (3, "accumulation-16"),
]
QUADS = [(1, "accumulation-4"), (2, "accumulation-4"), (3, "accumulation-4"), (3, "hpz-2+accumulation-4")]
# stage 3 beside stage 1 over a slow link: without accumulation, with it, and where the whole model may stay gathered
CLAIMS = [
    ("stage-3/", "stage-1/"),
    ("stage-3/live-default", "stage-1/"),
    ("stage-3/accumulation-16", "stage-1/accumulation-16"),
    ("stage-3/live-default+accumulation-16", "stage-1/accumulation-16"),
]


def busiest(one: Collective) -> Collective:
    """What sends as much as the busiest rank of a collective sends or receives."""
    return replace(one, collective="all-reduce") if one.collective == "reduce" else one


def timed_case(case: Case, found: Mapping[str, Any]) -> dict[str, Any]:
    """One case: seconds of an optimizer step, predicted and measured."""
    link, _ = read_network(NETWORK)
    wire = crossing(case, found)
    sent, carried = (sum(bytes_on_wire(one, "gloo") for one in ones) for ones in (wire, map(busiest, wire)))
    free, measured = (statistics.median(found[name]) for name in ("free_seconds", "limited_seconds"))
    mean, seconds = (size / link.bandwidth_bytes_per_second for size in (sent, carried))
    return {
        "case": case.name,
        "ranks": case.job.world_size,
        "bytes": sent,
        "free_seconds": free,
        "wire_seconds": round(seconds, 3),
        "predicted_seconds": round(free + seconds, 3),
        "by_mean_bytes_seconds": round(free + mean, 3),
        "measured_seconds": measured,
        "error": round((free + seconds) / measured - 1, 3),
        "runs": found["limited_seconds"],
        "free_runs": found["free_seconds"],
    }


def pair(one: Mapping[str, Any], other: Mapping[str, Any], by: str) -> dict[str, Any]:
    """The slower of two as predicted over the faster, predicted and measured."""
    fast, slow = sorted((one, other), key=lambda row: row[by])
    predicted, measured = (slow[name] / fast[name] for name in (by, "measured_seconds"))
    return {
        "slow": slow["case"],
        "fast": fast["case"],
        "ranks": slow["ranks"],
        "predicted_ratio": round(predicted, 3),
        "measured_ratio": round(measured, 3),
        "judged": predicted > APART,
        "as_predicted": measured > 1,
    }


def judged(rows: Sequence[Mapping[str, Any]], by: str) -> dict[str, Any]:
    """All pairs with as many ranks, and those that are predicted so far apart that their order counts."""
    alike = [two for two in itertools.combinations(rows, 2) if two[0]["ranks"] == two[1]["ranks"]]
    pairs = [pair(*two, by) for two in alike]
    apart = [one for one in pairs if one["judged"]]
    return {
        "pairs_judged": len(apart),
        "pairs_as_predicted": sum(one["as_predicted"] for one in apart),
        "wrong": [one for one in apart if not one["as_predicted"]],
        "pairs": pairs,
    }


def claims(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Bytes and seconds of stage 3 over those of stage 1."""
    by_name = {row["case"]: row for row in rows if row["ranks"] == 2}
    return [
        {
            "cases": [third, first],
            "bytes": [by_name[third]["bytes"], by_name[first]["bytes"]],
            "seconds": [by_name[third]["measured_seconds"], by_name[first]["measured_seconds"]],
            "bytes_ratio": round(by_name[third]["bytes"] / by_name[first]["bytes"], 2),
            "seconds_ratio": round(by_name[third]["measured_seconds"] / by_name[first]["measured_seconds"], 2),
        }
        for third, first in CLAIMS
        if {third, first} <= by_name.keys()
    ]


def _check_limit() -> None:
    """Whether a link may be limited here, before any rank starts.

    Raises:
        CalledProcessError: it may not.
    """
    limit = ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", RATE, "burst", "8kb", "latency", "200ms"]
    for words in (limit, ["tc", "qdisc", "del", "dev", "lo", "root"]):
        subprocess.run(["ip", "netns", "exec", SPACES[0], *words], check=True, capture_output=True, text=True)


def measure(only: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the limited link reached, and a row for each case that ran."""
    links: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch, namespaces():
        _check_limit()
        for ranks, names in ((2, PAIRS), (4, QUADS)):
            cases = [named_case(stage, option, ranks) for stage, option in names]
            cases = [case for case in cases if only in case.name]
            if not cases:
                continue
            link, *found = run(cases, ranks, Path(scratch), WORKER) or [{}]
            links[f"{ranks} ranks"] = link.get("bytes_per_second")
            by_name = {one["name"]: one for one in found}
            rows += [timed_case(case, by_name[case.name]) for case in cases if case.name in by_name]
    return links, rows


def summary(links: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The whole result."""
    by_mean = judged(rows, "by_mean_bytes_seconds")
    return {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("torch", "deepspeed", "transformers", "peft")},
        "link": {"rate": NETWORK, "planned": read_network(NETWORK)[0].bandwidth_bytes_per_second, "reached": links},
        "cases": len(rows),
        "median_error": round(statistics.median(abs(row["error"]) for row in rows), 3) if rows else None,
        "by_mean_bytes": {name: by_mean[name] for name in ("pairs_judged", "pairs_as_predicted", "wrong")},
        "stage_3_over_stage_1": claims(rows),
        "rows": rows,
        **judged(rows, "predicted_seconds"),
    }


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    os.environ["ZEROCONF_RATE"] = RATE
    try:
        links, rows = measure(args.only)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no limited link between namespaces on this machine (root and iproute2 are needed): {error}")
        return
    result = summary(links, rows)
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
