"""Two records of one case, compared: rows, a table, a summary."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from zeroconf.errors import ZeroconfError
from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.memory import error_bytes
from zeroconf.estimate.sizes import sizes
from zeroconf.estimate.states import state_moments
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.lora import with_lora
from zeroconf.plan.ran import workload_and_plan
from zeroconf.smoke.predict import processors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cases import Case

MODES = ("dry-run", "simulated")
STEADY_BAR, PEAK_BAR = 0.005, 0.02
FOREACH = "torch's Adam takes all tensors at once in the dry run, as on a GPU, one after the other where it was counted"
SHARES = "Muon's gradients and momentums come from the host to be gathered; one memory copies nothing between two"
# "offload-half": for what offload_optimizer.ratio leaves on the device
NAMED = {"torch-adam": FOREACH, "offload-half": FOREACH, "muon-offload-optimizer": SHARES}
# a simulated rank on the CPU has one memory and copies nothing between two
TRANSIT = "on the way to the device a tensor is in both memories; the device alone is within the bar"
PHASES = ("init", "forward", "backward", "step", "steady")


def compare(case: Case, records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One case: bytes by phase, errors relative to the counted bytes, and what failed.

    ``dry`` and ``counted`` are device and host together, ``device`` the dry run's device alone, which the analytic
    ``estimate`` is about.
    """
    errors = {mode: record["error"] for mode, record in records.items() if "error" in record}
    done = {mode: record for mode, record in records.items() if mode not in errors}
    dry, counted = done.get("dry-run"), done.get("simulated")
    row: dict[str, Any] = {"case": case.name, "stage": case.job.ds_config["zero_optimization"]["stage"]}
    row |= {"seconds": {mode: record["seconds"] for mode, record in records.items()}}
    if dry:
        row |= {"dry": _phases(dry), "device": dry["host"]["device"], "host": _host(dry)}
    if counted:
        row["counted"] = _phases(counted)
    if done:
        row |= _estimated(case, next(iter(done.values()))["environment"]["ds_config"])
    if dry and counted:
        row["errors"] = {phase: _error(row["dry"], row["counted"], phase) for phase in PHASES}
    if dry and "estimate" in row:
        row["estimate_errors"] = {phase: _error(row["estimate"], row["device"], phase) for phase in PHASES}
    if errors:
        row["failed"] = errors
    return row


def _phases(record: Mapping[str, Any]) -> dict[str, int]:
    return record["phases"] | {"steady": record["steady_bytes"]}


def _host(record: Mapping[str, Any]) -> dict[str, int]:
    return {name: size for name, size in record["host"].items() if name != "device"}


def _error(one: Mapping[str, int], other: Mapping[str, int], phase: str) -> float | None:
    return round(one[phase] / other[phase] - 1, 5) if other.get(phase) and phase in one else None


def _estimated(case: Case, ds_config: dict[str, Any]) -> dict[str, Any]:
    """The analytic model's device bytes by phase and the bounds of its peak, or why it has none."""
    trainable = with_lora(case.model, case.job.lora_rank) if case.job.lora_rank else None
    cluster = processors(case.job.world_size)
    try:
        workload, plan = workload_and_plan(case.job, parse_config(ds_config, case.name), trainable)
        gpu = estimate(case.model, cluster, workload, plan).gpu
        symbols = sizes(case.model, cluster, workload, plan)
    except ZeroconfError as error:
        return {"no_estimate": str(error)}
    frozen = symbols.element_bytes * workload.frozen_parameters
    moments = {moment: parts.total - parts.overhead for moment, parts in gpu.moments.items()}
    peak, error = max(moments.values()), error_bytes(gpu.peak)
    return {
        "estimate": moments | {"steady": state_moments(symbols, plan).steady.total + frozen},
        "interval": {"low_bytes": peak - error, "high_bytes": peak + error},
    }


def outside(row: Mapping[str, Any]) -> dict[str, float]:
    """The phases whose error is beyond the bars."""
    bars = {phase: STEADY_BAR if phase == "steady" else PEAK_BAR for phase in PHASES}
    return {phase: error for phase, error in row.get("errors", {}).items() if error and abs(error) > bars[phase]}


def causes(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is beyond the bars, with the cause where it is known to be the method's own."""
    found = {}
    for phase, error in outside(row).items():
        alone = row["device"][phase] / row["counted"][phase] - 1
        transit = TRANSIT if not _offloads(row) and abs(alone) <= PEAK_BAR else "not known"
        cause = next((NAMED[name] for name in row["case"].split("/") if name in NAMED), transit)
        found[phase] = {"error": error, "device_alone": round(alone, 5), "cause": cause}
    return found


def _offloads(row: Mapping[str, Any]) -> bool:
    return row["host"]["pinned_bytes"] + row["host"]["pageable_bytes"] > STEADY_BAR * row["dry"]["steady"]


def table(rows: list[dict[str, Any]]) -> str:
    """Megabytes: dry run | counted, signed error; the dry run's device | estimate, signed error."""
    head = f"{'case':<52}" + "".join(f"{phase:^44}" for phase in PHASES)
    lines = [head, "each phase: dry run | counted (error %)   device | estimate (error %), in MB"]
    for row in rows:
        cells = "".join(_cell(row, phase) for phase in PHASES)
        lines.append(f"{row['case']:<52}{cells}" + (" !" if outside(row) else ""))
        lines += [f"    {mode}: {error}" for mode, error in row.get("failed", {}).items()]
    return "\n".join(lines)


def _cell(row: Mapping[str, Any], phase: str) -> str:
    def size(name: str) -> str:
        value = row.get(name, {}).get(phase)
        return "-" if value is None else f"{value / 1e6:.2f}"

    def error(name: str) -> str:
        value = row.get(name, {}).get(phase)
        return "-" if value is None else f"{100 * value:+.2f}"

    both = f"{size('dry')}|{size('counted')} ({error('errors')})"
    return f"{both:<24}{size('device')}|{size('estimate')} ({error('estimate_errors')})".ljust(46)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts, largest and median errors, and what is out of the bars or failed, by name."""
    steady = [abs(row["errors"]["steady"] or 0) for row in rows if "errors" in row]
    peaks = [abs(row["errors"][phase] or 0) for row in rows if "errors" in row for phase in PHASES[:-1]]
    predicted = [abs(error) for row in rows for error in row.get("estimate_errors", {}).values() if error is not None]
    return {
        "cases": len(rows),
        "compared": len(steady),
        "steady_largest_error": max(steady, default=None),
        "peaks_largest_error": max(peaks, default=None),
        "estimate_median_error": round(statistics.median(predicted), 4) if predicted else None,
        "outside_the_bars": {row["case"]: found for row in rows if (found := causes(row))},
        "failed": {row["case"]: row["failed"] for row in rows if "failed" in row},
    }
