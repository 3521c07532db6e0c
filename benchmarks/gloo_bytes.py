"""What two machines' network cards count, against what is predicted for gloo: ``python benchmarks/gloo_bytes.py``.

Two network namespaces, joined by a pair of virtual Ethernet devices, each with one rank of real DeepSpeed on the CPU
(or two, for hpZ: what stays inside a namespace is not on the wire). After three steps, when stage 3's trace is
complete, the bytes that the interface has sent and received in three more are compared with ``wire.py``. What the
network's own protocols add is measured first, with collectives of known size: a share of large tensors, and bytes for
each call. Needs root and iproute2; without them it says so. Runs in the training environment; prints a JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from traffic_cases import named_case

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.wire import bytes_on_wire
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.lora import with_lora
from zeroconf.plan.ran import workload_and_plan
from zeroconf.smoke.predict import processors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cases import Case

    from zeroconf.types import Collective

WORKER = Path(__file__).resolve().parent / "gloo_rank.py"
SPACES, ADDRESSES = ("zeroconf-0", "zeroconf-1"), ("10.213.0.1", "10.213.0.2")
MODES = ("", "accumulation-4")
PAIRS = [
    *((stage, option) for stage in range(4) for option in MODES),
    (1, "reduce-to-owner"),
    (2, "lora"),
    (2, "tied"),
    (3, "lora"),
    (3, "lora+accumulation-4"),
    (3, "hpz-2"),
    (3, "hpz-2+accumulation-4"),
    (3, "live-default+accumulation-4"),
    (3, "persist-all+accumulation-4"),
    (3, "fp32"),
]
# two ranks in each namespace, groups of two
QUADS = [(3, ""), (3, "hpz-2"), (3, "hpz-2+accumulation-4"), (3, "lora+hpz-2+accumulation-4")]
MINUTES = 25
BAR = 0.03


@contextlib.contextmanager
def namespaces() -> Iterator[None]:
    """Two, each with an address on a common link; gone afterwards."""
    ends = [f"zc-{space[-1]}" for space in SPACES]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    made: list[str] = []
    try:
        for space in SPACES:
            ip("netns", "add", space)
            made.append(space)
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for space, end, address in zip(SPACES, ends, ADDRESSES, strict=True):
            ip("link", "set", end, "netns", space)
            ip("-n", space, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", space, "link", "set", end, "up")
            ip("-n", space, "link", "set", "lo", "up")
        yield
    finally:
        for space in made:
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


def run(cases: list[Case], ranks: int, folder: Path, worker: Path = WORKER) -> list[dict[str, Any]]:
    """What rank 0 wrote: of the plain collectives, then of each case."""
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps([case.job.to_json() | {"name": case.name} for case in cases]), encoding="utf-8")
    output = folder / f"counted-{ranks}.jsonl"
    children = []
    for rank in range(ranks):
        side = rank * len(SPACES) // ranks
        environment = os.environ | {
            "DS_ACCELERATOR": "cpu",
            "TRANSFORMERS_VERBOSITY": "error",
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % (ranks // len(SPACES))),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": ADDRESSES[0],
            "MASTER_PORT": "29713",
            "GLOO_SOCKET_IFNAME": f"zc-{side}",
        }
        command = ["ip", "netns", "exec", SPACES[side], sys.executable, str(worker), str(jobs), str(output)]
        log = (folder / f"rank-{ranks}-{rank}.log").open("w", encoding="utf-8")
        children.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        codes = [child.wait(60 * MINUTES) for child in children]
    finally:
        for child in children:
            child.kill()
    if any(codes):
        print((folder / f"rank-{ranks}-0.log").read_text(encoding="utf-8")[-2000:], file=sys.stderr)
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()] if output.exists() else []


def crossing(case: Case, found: Mapping[str, Any]) -> list[Collective]:
    """The predicted collectives of one step that cross the link: what stays inside a namespace does not."""
    ranks = case.job.world_size
    trainable = with_lora(case.model, case.job.lora_rank) if case.job.lora_rank else None
    model = replace(case.model, num_parameters=found["parameters"] - (trainable or 0))
    workload, plan = workload_and_plan(case.job, parse_config(found["ds_config"], case.name), trainable)
    sent = estimate(model, processors(ranks), workload, plan).traffic.per_collective
    return [one for one in sent if one.group_size > ranks // len(SPACES)]


def compare(case: Case, counted: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """One case: bytes that one side sends in a step, counted, predicted, and predicted with what protocols add."""
    wire = crossing(case, counted)
    predicted = sum(bytes_on_wire(one, "gloo") for one in wire)
    calls = sum(one.count for one in wire)
    real = (counted["bytes"] - added["barriers"]) / counted["steps"]
    headers = sum(one.count * added["bytes_per_call"][one.collective] for one in wire)
    expected = predicted * (1 + added["share"]) + headers
    return {
        "case": case.name,
        "ranks": case.job.world_size,
        "calls": calls,
        "counted_bytes": round(real),
        "predicted_bytes": predicted,
        "with_protocol_bytes": round(expected),
        "plain_error": round(predicted / real - 1, 4),
        "error": round(expected / real - 1, 4),
    }


def added_by_protocols(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A share of large tensors, and bytes for each call by kind, from collectives of known size."""
    large = plain["large"]
    share = sum(one["counted"] for one in large) / sum(one["expected"] for one in large) - 1
    return {
        "share": share,
        "bytes_per_call": plain["bytes_per_small_call"],
        "barriers": plain["bytes_of_barriers"],
    }


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    found: dict[str, Any] = {}
    try:
        with tempfile.TemporaryDirectory() as scratch, namespaces():
            for ranks, names in ((2, PAIRS), (4, QUADS)):
                cases = [named_case(stage, option, ranks) for stage, option in names]
                cases = [case for case in cases if args.only in case.name]
                if not cases:
                    continue
                plain, *counted = run(cases, ranks, Path(scratch)) or [{}]
                if not plain:
                    continue
                added = added_by_protocols(plain)
                found[f"{ranks} ranks"] = plain | {"added": added}
                by_name = {one["name"]: one for one in counted}
                rows += [compare(case, by_name[case.name], added) for case in cases if case.name in by_name]
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no network namespaces on this machine (root and iproute2 are needed): {error}")
        return
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("torch", "deepspeed", "transformers", "peft")},
        "protocols": found,
        "cases": len(rows),
        "within_3_percent": sum(abs(row["error"]) <= BAR for row in rows),
        "largest_error": max((abs(row["error"]) for row in rows), default=None),
        "rows": rows,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
