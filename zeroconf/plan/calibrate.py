"""``--calibrate``: what was measured on the cluster itself, in the place of published figures.

A smoke test's steps say how much longer, or shorter, the card or the host works than predicted: its own shapes are
predicted, and what its steps took beyond communication and optimizer is compared with the work. ``zeroconf detect
--measure-network`` says what the links reach.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.errors import InputError
from zeroconf.inputs.cluster import with_links
from zeroconf.inputs.gpus import link_generations, read_gpu
from zeroconf.inputs.links import read_intra_node, scope_of
from zeroconf.inputs.text import read_text, shown, shown_path
from zeroconf.plan.fitted import fitted, read_run
from zeroconf.resources import data_path
from zeroconf.types import Link
from zeroconf.units import gigabits_per_second

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zeroconf.types import Facts

_SCHEMA: Final = "zeroconf/smoke-test/1"
_LARGEST_FILE_BYTES: Final = 10_000_000


def calibrated(facts: Facts, path: Path) -> Facts:
    """The facts with what the file says was measured on this hardware.

    Raises:
        InputError: the file is neither ``smoke-test --json`` nor an inventory, was measured on other hardware, or does
            not say what is asked of it.
    """
    values = _result(path)
    return _with_links(facts, path) if values is None else _with_rates(facts, values, shown_path(path))


def _result(path: Path) -> dict[str, Any] | None:
    """A smoke test's JSON; None for another kind of file.

    Raises:
        InputError: it cannot be read, or is not what this release prints.
    """
    try:
        values = json.loads(read_text(path, _LARGEST_FILE_BYTES))
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.get("schema") != _SCHEMA:
        return None
    import jsonschema  # noqa: PLC0415  (40 ms, for this file only)

    schema = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(values)
    if (first := next(errors, None)) is not None:
        where = ".".join(map(str, first.path)) or "the result"
        msg = f"{shown_path(path)}: not what this release's smoke-test --json prints: {where}: {shown(first.message)}"
        raise InputError(msg)
    return values


# --- links ---------------------------------------------------------------------------------------


def _with_links(facts: Facts, path: Path) -> Facts:
    """The cluster with the links that an inventory says were measured."""
    from zeroconf.inputs.described import draft_of  # noqa: PLC0415  (pydantic and YAML, for inventories only)
    from zeroconf.inputs.inventory import read_inventory  # noqa: PLC0415

    where, cluster = shown_path(path), facts.cluster
    try:
        draft = draft_of(read_inventory(path), path.stem)
    except InputError as error:
        msg = f"--calibrate takes what smoke-test --json or detect --measure-network wrote; {error}"
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


def _with_rates(facts: Facts, values: Mapping[str, Any], where: str) -> Facts:
    """The facts with the rates that a real run on this GPU shows."""
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
    node = replace(facts.cluster, num_nodes=1, gpus_per_node=values["facts"]["world_size"], network=None)
    return replace(_noted(facts, run.versions.deepspeed, where), rates=fitted(run, node, where))


def _noted(facts: Facts, release: tuple[int, ...], where: str) -> Facts:
    """The facts with a note where another release of DeepSpeed ran."""
    wanted = facts.versions.deepspeed
    if release == wanted:
        return facts
    ran, used = (".".join(map(str, one)) for one in (release, wanted))
    note = f"{where} was measured with DeepSpeed {ran}, this is for {used}: its host's part may differ"
    return replace(facts, cluster=replace(facts.cluster, assumptions=(*facts.cluster.assumptions, note)))


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
