"""A plan in a user's own file: the decision that its keys leave, and what becomes of them."""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeroconf.emit.answers import answers
from zeroconf.emit.base import merged
from zeroconf.emit.ds_config import ds_config, to_json
from zeroconf.emit.notes import leaves
from zeroconf.inputs.ds_config import parse_config
from zeroconf.keys import Releases
from zeroconf.lint.generated import errors_in, fitted_to_stage, rules_broken
from zeroconf.lint.known import Known
from zeroconf.plan.candidates import offloads
from zeroconf.plan.choose import best_of, decide
from zeroconf.plan.cures import decide_with_cures
from zeroconf.plan.reasons import title
from zeroconf.rules.facts import Reader
from zeroconf.types import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.choices import Offload
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import Decision, Facts, Plan

# what a plan takes from a base file, and the file loses where its stage does not read it, or its link does not need it
_SWITCHES: Final = {
    "contiguous_gradients": "contiguous_gradients",
    "reduce_scatter": "reduce_scatter",
    "quantized_weights": "zero_quantized_weights",
    "quantized_gradients": "zero_quantized_gradients",
}


class Settled(NamedTuple):
    """A decision with the facts that it is of, and the base file without the switches that it switches off."""

    facts: Facts
    base: ConfigFile
    decision: Decision


def settled(facts: Facts, base: ConfigFile) -> Settled:
    """The decision for a base file: of what the file keeps, and at a stage and offload that go with its keys.

    Where those of the best plan contradict a key, the other stages are decided, else those with the file's own offload,
    and the best of what goes with the file is taken. A file that goes with none stays with the first.

    Raises:
        InputError: the batch cannot be split over the GPUs.
    """
    first = _as_kept(facts, base, decide_with_cures(facts))
    chosen, problems = first.decision.chosen, _problems(first)
    if chosen is None or not problems:
        return first
    for offload in dict.fromkeys((facts.workload.offload, facts.workload.offload or base.plan.offload)):
        others = [_pinned(facts, base, stage, offload) for stage in range(4)]
        fine = [one for one in others if one and not _problems(one)]
        if fine:
            best = best_of(one.decision.chosen for one in fine if one.decision.chosen)
            other = next(one for one in fine if one.decision.chosen is best)
            note = f"{base.path} does not go with {title(chosen.plan)}: {problems[0]}"
            return other._replace(decision=replace(other.decision, notes=(*other.decision.notes, note)))
    return first


def _pinned(facts: Facts, base: ConfigFile, stage: int, offload: Offload | None) -> Settled | None:
    """The decision at one stage, and with one offload where that is not None; None where that cannot be, or not fit."""
    if facts.workload.zero_stage not in (None, stage) or not offloads(
        facts.cluster, replace(facts.workload, offload=offload), stage
    ):
        return None
    there = replace(facts, workload=replace(facts.workload, zero_stage=stage, offload=offload))
    found = _as_kept(there, base, decide(there))
    return found if found.decision.chosen else None


def _as_kept(facts: Facts, base: ConfigFile, decision: Decision) -> Settled:
    """Decided again without the switches of the base that the written file loses: the figures are of the file."""
    while decision.chosen is not None and facts.given is not None:
        plan = decision.chosen.plan
        kept = parse_config(_put_into(base, ds_config(facts, plan), facts), base.path).plan
        off = {name for name in _SWITCHES if _is_default(kept, name) and not _is_default(plan, name)}
        if not off:
            break
        defaults = {name: getattr(kept, name) for name in off}
        facts = replace(facts, given=replace(facts.given, **defaults))
        base = replace(base, content=copy.deepcopy(base.content), plan=replace(base.plan, **defaults))
        for name in off:
            base.content["zero_optimization"].pop(_SWITCHES[name], None)
        decision = decide_with_cures(facts)
    return Settled(facts, base, decision)


def _is_default(plan: Plan, name: str) -> bool:
    return bool(getattr(plan, name) == type(plan).__dataclass_fields__[name].default)


def _problems(one: Settled) -> tuple[str, ...]:
    """What the linter calls wrong in the file with the plan in it."""
    if one.decision.chosen is None:
        return ()
    written = config_of_plan(one.facts, one.decision.chosen.plan, one.base)
    return errors_in(to_json(written), *as_read(one.facts))


def config_of_plan(
    facts: Facts, plan: Plan, base: ConfigFile | None, reasons: Sequence[Reason] = (), *, explain: bool = False
) -> dict[str, Any]:
    """The configuration of a plan, put into a base file where there is one."""
    plain = ds_config(facts, plan)
    draws = rules_broken(to_json(_put_into(base, plain, facts) if base else plain), *as_read(facts))
    ignore = {code: reason for code, reason in answers(facts).items() if code in draws}
    if base is None:
        return ds_config(facts, plan, reasons, explain=explain, ignore=ignore)
    result = _put_into(base, ds_config(facts, plan, ignore=ignore), facts)
    if explain:
        told = [asdict(reason) for reason in true_of(result, facts, plan, reasons, kept=True)]
        result["_zeroconf"] = result.get("_zeroconf", {}) | {"reasons": told}
    return result


def _put_into(base: ConfigFile, plan: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    return fitted_to_stage(merged(base.content, plan), *as_read(facts))


def true_of(
    written: Mapping[str, Any], facts: Facts, plan: Plan, reasons: Sequence[Reason], *, kept: bool = False
) -> tuple[Reason, ...]:
    """The reasons that a base file with the plan in it has left; ``kept``: with one for each of the base's own values.

    Those that speak of no key (recomputation) stay.
    """
    own, planned = leaves(written), leaves(ds_config(facts, plan))
    true = [reason for reason in reasons if reason.key not in planned or own.get(reason.key) == reason.value]
    named = {reason.key for reason in true}
    others = ((key, value) for key, value in own.items() if key not in named and not key.startswith("_zeroconf"))
    if kept:
        true += [Reason(key=key, value=value, rule="base-file", because="the base file's") for key, value in others]
    return tuple(true)


def as_read(facts: Facts) -> tuple[Reader, Releases, Known]:
    """Who reads the files, with which releases, and the facts that they are made for."""
    releases = Releases(facts.versions.deepspeed, facts.versions.accelerate, stated=True)
    return Reader(facts.reader, stated=True), releases, Known.of(facts)
