"""``--calibrate``: what was measured on the cluster itself, in the place of published figures.

A smoke test's steps say how much longer, or shorter, the card or the host works than predicted: its own shapes are
predicted, and what its steps took beyond communication and optimizer is compared with the work. Of a file of many runs
the newest one of this model that can be compared counts, else the newest one that can. ``zeroconf detect
--measure-network`` says what the links reach.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.errors import InputError
from zeroconf.inputs.cluster import with_links
from zeroconf.inputs.gpus import link_generations, read_gpu
from zeroconf.inputs.links import read_intra_node, scope_of
from zeroconf.inputs.text import shown, shown_path
from zeroconf.plan.fitted import fitted, read_run
from zeroconf.plan.measurements import check, is_of, read_runs
from zeroconf.types import Link
from zeroconf.units import gigabits_per_second, release_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zeroconf.plan.fitted import Run
    from zeroconf.plan.measurements import Recorded
    from zeroconf.types import Cluster, Facts

_TAKES: Final = (
    "--calibrate takes a file that zeroconf smoke-test CONFIG --json, or detect --measure-network -o FILE, wrote on "
    "this hardware (a step's seconds alone do not say what ran)"
)


def calibrated(facts: Facts, path: Path) -> Facts:
    """The facts with what the file says was measured on this hardware.

    Raises:
        InputError: the file is neither ``smoke-test --json`` nor an inventory, was measured on other hardware, or does
            not say what is asked of it.
    """
    try:
        runs = read_runs(path)
    except InputError as error:
        msg = f"{error}; {_TAKES}"
        raise InputError(msg) from error
    if runs is None:
        return _with_links(facts, path)
    if len(runs) == 1:
        return _with_rates(facts, runs[0])
    shape = asdict(facts.model)
    # another model's run is better than none, and an older one of this model better than that
    ranked = sorted(runs, key=lambda run: not is_of(run, shape))
    why = ""
    for run in ranked:
        try:
            return _with_rates(facts, run)
        except InputError as error:
            why = why or str(error)
    msg = f"{shown_path(path)}: none of its {len(runs)} runs can be used here; {why}"
    raise InputError(msg)


# --- links ---------------------------------------------------------------------------------------


def _with_links(facts: Facts, path: Path) -> Facts:
    """The cluster with the links that an inventory says were measured."""
    from zeroconf.inputs.described import draft_of  # noqa: PLC0415  (pydantic and YAML, for inventories only)
    from zeroconf.inputs.inventory import read_inventory  # noqa: PLC0415

    where, cluster = shown_path(path), facts.cluster
    try:
        draft = draft_of(read_inventory(path), path.stem)
    except InputError as error:
        why = str(error).removeprefix(f"{where}: ")
        msg = f"{where}: neither a smoke test's JSON nor an inventory ({why}); {_TAKES}"
        raise InputError(msg) from error
    _check_gpu(draft.gpu.name, facts, where)
    network = draft.network if isinstance(draft.network, Link) and draft.network.confidence == "measured" else None
    network = network if cluster.num_nodes > 1 else None
    # of links inside a node detect writes a rate only where it measured one, else a class
    text = draft.intra_node if draft.intra_node and scope_of(draft.intra_node) is None else None
    inside = read_intra_node(text, cluster.gpu, link_generations(cluster.gpu)) if text else None
    inside = replace(inside, source=f"an all-reduce inside a node, {where}", confidence="measured") if inside else None
    if network is None and inside is None:
        kind = "between nodes" if cluster.num_nodes > 1 else "inside a node"
        msg = f"{where}: no link {kind} was measured; zeroconf detect --measure-network -o {where} measures it"
        raise InputError(msg)
    words = [_link_words(cluster.network, network, "between nodes"), _link_words(cluster.intra_node, inside, "inside")]
    rates = replace(facts.rates, measured=f"{', '.join(filter(None, words))} ({where})")
    return replace(facts, cluster=with_links(cluster, intra_node=inside, network=network), rates=rates)


def _link_words(before: Link | None, after: Link | None, place: str) -> str:
    if before is None or after is None:
        return ""
    rates = [gigabits_per_second(one.bandwidth_bytes_per_second) for one in (after, before)]
    return f"{rates[0]} {place}, where {rates[1]} would be taken"


# --- seconds -------------------------------------------------------------------------------------


def _with_rates(facts: Facts, recorded: Recorded) -> Facts:
    """The facts with the rates that a real run on this GPU shows.

    Raises:
        InputError: the run says nothing about this hardware, or about time.
    """
    try:
        return _rated(facts, recorded)
    except InputError as error:
        # what reads the run's own values knows nothing of the file
        if str(error).startswith(recorded.where):
            raise
        msg = f"{recorded.where}: {error}"
        raise InputError(msg) from error


def _rated(facts: Facts, recorded: Recorded) -> Facts:
    values, where = recorded
    check(recorded)
    if "script" in values["facts"]:
        msg = f"{where}: the shapes of {shown(values['facts']['script'])} are not known; calibrate with a smoke test "
        msg += "of a configuration and --model"
        raise InputError(msg)
    if values["mode"] != "real":
        why = "a dry run has no times" if values["mode"] == "dry-run" else "one rank of many does not communicate"
        msg = f"{where}: {why}; calibrate with a smoke test that runs on the GPUs"
        raise InputError(msg)
    if values["outcome"] != "fits":
        msg = f"{where}: the run ended with {values['outcome']}; calibrate with one that fits"
        raise InputError(msg)
    for rank in values["ranks"]:
        _check_gpu(rank["device"], facts, where)
    run = read_run(values, where)
    if run.workload.precision != facts.workload.precision:
        ran, wanted = run.workload.precision, facts.workload.precision
        msg = f"{where}: it ran in {ran}, this is {wanted}, which other units of the card compute; measure in {wanted}"
        raise InputError(msg)
    if run.plan.offload == "nvme":
        msg = f"{where}: with NVMe the update does not tell CPU Adam from the disk; measure with offload to the CPU"
        raise InputError(msg)
    rates = fitted(run, _ran_on(values, facts.cluster, where), where)
    notes = _differences(facts, run, where)
    cluster = replace(facts.cluster, assumptions=(*facts.cluster.assumptions, *notes))
    return replace(facts, cluster=cluster, rates=rates)


def _ran_on(values: Mapping[str, Any], cluster: Cluster, where: str) -> Cluster:
    """As much of the cluster as the run had: its hosts, of which one has no network.

    Raises:
        InputError: it ran on several, and what joined them is not the cluster's; or they had different numbers of GPUs.
    """
    ranks = values["facts"]["world_size"]
    hosts = values["environment"].get("hosts")
    if not isinstance(hosts, dict) or len(hosts) <= 1:
        return replace(cluster, num_nodes=1, gpus_per_node=ranks, network=None)
    if cluster.network is None:
        msg = f"{where}: it ran on {len(hosts)} hosts, and this cluster is one; measure on one"
        raise InputError(msg)
    if len(set(hosts.values())) > 1:
        msg = f"{where}: its hosts have different numbers of ranks; measure with as many on each"
        raise InputError(msg)
    return replace(cluster, num_nodes=len(hosts), gpus_per_node=ranks // len(hosts))


def _differences(facts: Facts, run: Run, where: str) -> list[str]:
    """What ran otherwise than here, and may have taken another time for it."""
    found = []
    ran, used = (release_text(one.deepspeed) for one in (run.versions, facts.versions))
    if ran != used:
        found.append(f"{where} was measured with DeepSpeed {ran}, this is for {used}: its host's part may differ")
    ran, used = run.workload.attention, facts.workload.attention
    if ran != used:
        found.append(
            f"{where} was measured with {ran} attention, this is for {used}: the factor is of other kernels; "
            f"smoke-test --attention {used}, or --attention {ran} here"
        )
    return found


def _check_gpu(name: str, facts: Facts, where: str) -> None:
    """Refuses another GPU than the cluster's; names are read leniently.

    Raises:
        InputError: it is another one.
    """
    ours = facts.cluster.gpu.name
    try:
        measured = read_gpu(name)[0].name
    except InputError:
        measured = name
    if measured != ours:
        msg = f"{where}: measured on {shown(measured)}, and this cluster has {ours}; "
        msg += "measure there, or leave out --calibrate"
        raise InputError(msg)
