"""From what the ranks wrote to one verdict: outcome, explanation, cure."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.inputs.text import shown
from zeroconf.smoke.causes import CURES, host_memory_cure, known_cause, no_steps_cure
from zeroconf.smoke.deaths import Death, own_death, reported_death
from zeroconf.smoke.losses import skipped_steps
from zeroconf.units import GIB, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.smoke.free_memory import FreeMemory
    from zeroconf.smoke.measured import Outcome

UNEXPLAINED = "the log holds the whole traceback"
_SAID = "the log holds all that was said"
_TRACEBACK = "Traceback (most recent call last)"
_KILLED_CURE = "run it again; if nobody ended it, it may have been the kernel for want of host memory (dmesg says so)"
_FAULTS = {
    "SIGBUS": "a larger /dev/shm, in a container --shm-size 16g; else ",
    "SIGTERM": "look for who ended it; else ",
}
_FAULT = "run it with PYTHONFAULTHANDLER=1 in the environment: the log then holds where it was"
_LEFT_CURE = (
    "ranks whose data ends first leave the others waiting: give all as many batches (drop_last=True and a "
    "DistributedSampler, which splits the data evenly); else look why it ended there"
)
_LONGEST = 600  # of what a program said; its log has all
_LONGEST_LOOKED_AT = 2000  # as of the ranks' own messages (worker/records.py)
# before deepspeed.initialize (worker/records.py, worker/program.py)
RENDEZVOUS = "torch.distributed's rendezvous"
_BEFORE_ENGINE = ("start", "the script", RENDEZVOUS)
_NAMED = 8
# of the longest step, without a sign of any rank: not slow, but hung
_STILL = 10
_STILL_SECONDS = 10.0
_LOST_PEER = re.compile(
    r"closed by peer|reset by peer|Broken pipe|Connection refused|remote process exited|NCCL.*(abort|remote)|"
    r"DistNetworkError|Socket Timeout"
)
# pdsh puts the host's name before each line
_ERROR_LINE = re.compile(r"^(?:[^\s:]+: )?(?:\[rank\d+\]:\s*)?([A-Za-z_.]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_OF_LAUNCHER = "ChildFailedError"  # torchrun's, behind that of the rank
_SRUN_REFUSES = re.compile(r"^(?:srun|slurmstepd): (error: .*)$", re.MULTILINE)


class Verdict(NamedTuple):
    """How a run ended. ``explanation`` and ``cure`` are empty when it fits."""

    outcome: Outcome
    explanation: str = ""
    cure: str = ""


def one_line(text: str) -> str:
    """What a program said, for people: on one line of bounded length, without control characters."""
    return shown(" ".join(text[:_LONGEST_LOOKED_AT].split()), _LONGEST)


def lost_peer(message: str) -> bool:
    """Whether an error only says that another rank is gone."""
    return _LOST_PEER.search(message) is not None


def last_error(log: str) -> str:
    """The last line of a log that names an error, or by which srun refuses; empty when there is none."""
    lines: list[str] = _ERROR_LINE.findall(log)
    lines = [line for line in lines if _OF_LAUNCHER not in line] or _SRUN_REFUSES.findall(log)
    return lines[-1][:_LONGEST_LOOKED_AT] if lines else ""


def first_failure(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The failed rank that failed by itself, the earliest first; those that only lost a peer come last."""
    failed = [record for record in records if record.get("state") == "failed"]
    return min(failed, key=lambda record: (lost_peer(record["message"]), record["failed_at"]), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How what was started ended.

    ``exit_code`` is the ``launcher``'s, where one is named, else a rank's own; None if it had not ended by itself.
    ``memory`` is what was free where the ranks ran, None if that is not known. ``now`` is a ``time.time()``.
    """

    num_processes: int
    timed_out: bool
    timeout_seconds: float
    log: str
    exit_code: int | None = None
    launcher: str = ""
    ds_config: Mapping[str, Any] = field(default_factory=dict)
    memory: FreeMemory | None = None
    now: float = field(default_factory=time.time)


def judge(records: Sequence[Mapping[str, Any]], **ending: Any) -> Verdict:
    """The verdict on a run, from the ranks' records, then exit codes, then the log. ``ending`` is an ``Ending``."""
    end = Ending(**ending)
    if len(records) == end.num_processes and all(record["state"] == "done" for record in records):
        return Verdict("fits")
    failed = first_failure(records)
    if failed is not None and not lost_peer(failed["message"]):
        return _failed(failed, records, end)
    death = _death(records, end)
    if death is not None and death.signal_name:
        return _died(death, records, end)
    if killed := _killed_launcher(records, end):
        return killed
    if failed is not None:
        return _left_the_others(records, end) or _failed(failed, records, end)
    return _out_of_time(records, end) if end.timed_out else _ended(death, records, end)


def _death(records: Sequence[Mapping[str, Any]], end: Ending) -> Death | None:
    """The rank that ended badly without a word of its own."""
    if (reported := reported_death(end.log)) is not None:
        return reported
    if end.launcher or end.exit_code is None or end.exit_code <= 0:
        return None
    return own_death(records[0]["rank"] if end.num_processes == 1 and records else None, end.exit_code)


def _died(death: Death, records: Sequence[Mapping[str, Any]], end: Ending) -> Verdict:
    """By a signal: the kernel's for want of memory, or a fault of the program."""
    mine = next((record for record in records if record["rank"] == death.rank), None)
    who = "a rank" if death.rank is None else f"rank {death.rank}"
    where = f" {_where(mine)}" if mine else ""
    others = "" if mine or not records else f"; {_all_seen(records)}"
    if death.signal_name != "SIGKILL":
        cure = _FAULTS.get(death.signal_name, "") + _FAULT
        return Verdict("crash", f"{who} died by {death.signal_name}{where}{others}", cure)
    phase = (mine or max(records, key=lambda record: record["step"], default={})).get("phase", "")
    message = f"{who} was killed (SIGKILL){where}, as the kernel does when host memory runs out{others}"
    cure = host_memory_cure(phase, _config(records, end))
    if end.memory is None or end.memory.least is None:
        return Verdict("host-oom", message, cure)
    message += f"; the least that was seen free is {end.memory.least / GIB:.1f} GiB"
    return Verdict("host-oom", message, f"{_KILLED_CURE}; in that case {cure}" if end.memory.plenty else cure)


def _killed_launcher(records: Sequence[Mapping[str, Any]], end: Ending) -> Verdict | None:
    """What was killed where no rank was; None if nothing."""
    if end.exit_code is None:
        return None
    # deepspeed/launcher/runner.py hands on no signal: it exits with 0
    swallowed = end.launcher == "deepspeed" and end.exit_code == 0
    if end.exit_code < 0:
        what = f"zeroconf's guard of the ranks was killed ({Death(None, end.exit_code).signal_name})"
    elif swallowed or (end.launcher and own_death(None, end.exit_code).signal_name == "SIGKILL"):
        what = f"the launcher ({end.launcher}) was killed{'' if swallowed else ' (SIGKILL)'}"
    else:
        return None
    return Verdict("crash", f"{what}, and no rank before it: {_all_seen(records)}", _KILLED_CURE)


def _failed(failed: Mapping[str, Any], records: Sequence[Mapping[str, Any]], end: Ending) -> Verdict:
    """A rank that said how it failed."""
    outcome, message = failed["outcome"], failed["message"]
    if outcome == "unsupported":
        return Verdict(outcome, one_line(message))
    if outcome == "no-steps":
        return Verdict(outcome, one_line(message), no_steps_cure(failed))
    if outcome == "not-finite" and "skipped" in failed:
        return Verdict(outcome, *skipped_steps(records))
    where = f"rank {failed['rank']} failed {_where(failed)}"
    # one that left with an exit code has no traceback, though its launcher has
    log = end.log if failed.get("raised", True) else ""
    found = explain(outcome, message, where, by_library=failed.get("by_library", True), log=log)
    if outcome != "host-oom":
        return found
    return found._replace(cure=host_memory_cure(failed["phase"], _config(records, end)))


def _left_the_others(records: Sequence[Mapping[str, Any]], end: Ending) -> Verdict | None:
    """A user's program that ended well on some ranks (worker/program.py), where others still trained; None if none."""
    early = [record for record in records if "ended" in record]
    others = [record for record in records if record["state"] != "done"]
    if not early or not others:
        return None
    first = min(early, key=lambda record: len(record["step_seconds"]))
    who = _named([record["rank"] for record in early if record["ended"] == first["ended"]])
    why = f"{who} {first['ended']}, while {_all_seen(others)}"
    if end.timed_out:
        return Verdict("hang", f"no end after {end.timeout_seconds:g} s: {why}", _LEFT_CURE)
    return Verdict("crash", why, _LEFT_CURE)


def _ended(death: Death | None, records: Sequence[Mapping[str, Any]], end: Ending) -> Verdict:
    """What was started ended by itself, and no rank left a result."""
    if line := last_error(end.log):
        # what raised before there was a record is a launcher's, or the environment's
        return explain("crash", line, "no rank left a result", by_library=not records, log=end.log)
    code = end.exit_code if death is None else death.code
    who = "it" if death is None or death.rank is None else f"rank {death.rank}"
    # a traceback without the name of an error is the launcher's
    return explain("crash", f"{who} ended with exit code {code}; {_all_seen(records)}", "no rank left a result")


def _out_of_time(records: Sequence[Mapping[str, Any]], end: Ending) -> Verdict:
    """Hung where no rank showed a sign for many steps' time; slow when steps were done; else as far as anyone sees."""
    if left := _left_the_others(records, end):
        return left
    seen, limit = _all_seen(records), f"no end after {end.timeout_seconds:g} s"
    phases = {record["phase"] for record in records}
    if phases == {"the script"} or (RENDEZVOUS in phases and phases <= set(_BEFORE_ENGINE)):
        return _before_engine(records, end.num_processes, limit)
    times = max((list(record.get("step_seconds", ())) for record in records), key=len, default=[])
    if not times:
        return Verdict("hang", f"{limit}: {seen}", CURES["hang"])
    pace = f"{counted(len(times), 'optimizer step')} done at {sum(times) / len(times):.3g} s each"
    still = end.now - max(record.get("entered_at", end.now) for record in records)
    if still > max(_STILL * max(times), _STILL_SECONDS):
        what = "a data loader, a checkpoint, an evaluation, or a collective that not all of them enter"
        cure = f"it hung, and was not slow: look at what the ranks wait for: {what}"
        return Verdict("hang", f"{limit}: {pace}, then nothing for {still:.0f} s: {seen}", cure)
    cure = "it was slow, not hung: raise --timeout, or lower --steps, --seq-len or the accumulation"
    return Verdict("hang", f"{limit}: {pace}; {seen}", cure)


def _before_engine(records: Sequence[Mapping[str, Any]], num_processes: int, limit: str) -> Verdict:
    """Out of time before DeepSpeed: a rank that the others wait for, a network, or a program that has no DeepSpeed."""
    waiting = [record["rank"] for record in records if record["phase"] == RENDEZVOUS]
    late = [rank for rank in range(num_processes) if rank not in waiting]
    why = f"{limit}: {_all_seen(records)}"
    if not waiting:
        why = f"{limit}, and deepspeed.initialize had not been called: {_all_seen(records)}"
        cure = "raise --timeout if it was still loading; else look whether a rank waits for another (a barrier, a "
        cure += f"download), or whether DeepSpeed is used at all: {CURES['no-steps']}"
    elif late:
        cure = f"{_named(late)} {'is' if len(late) == 1 else 'are'} late or stuck before the rendezvous, where the "
        cure += "others wait: look at what is done there before it, or raise --timeout if it was still loading"
    else:
        cure = "all ranks came to the rendezvous and do not reach each other: look at the network (NCCL_SOCKET_IFNAME, "
        cure += "GLOO_SOCKET_IFNAME, a firewall), and at a rank or world size that the program sets itself"
    return Verdict("hang", why, cure)


def explain(outcome: Outcome, message: str, where: str, *, by_library: bool = True, log: str = "") -> Verdict:
    """One line about a failure, with its known cause and cure; ``by_library`` as for ``known_cause``."""
    known = known_cause(" ".join(message.split()), by_library=by_library)
    line = one_line(message)
    if outcome in CURES or known is None:
        unexplained = UNEXPLAINED if _TRACEBACK in log else _SAID
        return Verdict(outcome, f"{where}: {line}", CURES.get(outcome, unexplained))
    issue = f" (as in {known.issue})" if known.issue else ""
    return Verdict(outcome, f"{where}: {line.rstrip('.')}; {known.why}{issue}", known.cure)


def _config(records: Sequence[Mapping[str, Any]], end: Ending) -> Mapping[str, Any]:
    """What ran, as far as a rank had come, else what was given."""
    ran = (record.get("environment", {}).get("ds_config") for record in records)
    return next((config for config in ran if isinstance(config, dict)), end.ds_config)


def _where(record: Mapping[str, Any]) -> str:
    if record.get("after"):
        return f"after step {record['after']}"
    return f"in {record['phase']} of step {record['step']}" if record.get("step") else f"in {record['phase']}"


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:_NAMED]))}"


def _all_seen(records: Sequence[Mapping[str, Any]]) -> str:
    seen = (f"rank {record['rank']} was {_where(record)}" for record in records)
    return ", ".join(seen) or "no rank had started"
