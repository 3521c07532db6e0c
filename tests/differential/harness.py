"""The linter's verdict beside the libraries' own, mutant by mutant: who is right is never in doubt."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from bases import BASES, to_text
from mutate import Mutant, at, paths
from silent import UNREAD, WARNED, excused

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Verdict = dict[str, Any]
_JUDGE = Path(__file__).with_name("judge.py")
_LONGEST_SECONDS = 120.0
_MOST_TRIES = 80
_NAMES = {"json": "ds_config.json", "yaml": "accelerate.yaml", "hostfile": "hostfile"}


class Judge:
    """The judge's process; started again when a file kills it or keeps it busy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()

    def __call__(self, case: dict[str, Any], *, engine: bool = False) -> Verdict:
        """What really happens with the file; ``accepted`` is None where this machine cannot tell."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, _JUDGE, self._folder],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin
        assert process.stdout
        watch = threading.Timer(_LONGEST_SECONDS, process.kill)
        watch.start()
        line = ""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps({**case, "engine": engine}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        watch.cancel()
        return json.loads(line) if line else {"accepted": None, "where": "judge", "error": "the judge died"}


class Said(NamedTuple):
    """The linter's findings, (severity, code, pointer) of each, or why it did not look at the file."""

    findings: tuple[tuple[str, str, str], ...]
    skipped: str = ""

    @property
    def errors(self) -> tuple[str, ...]:
        """The codes of the errors."""
        return tuple(sorted({code for severity, code, _ in self.findings if severity == "error"}))


def lint(reader: str | None, syntax: str, text: str) -> Said:
    """The linter on the text, with the reader stated."""
    document = parse_document(text.encode(), _NAMES[syntax])
    who = Reader() if reader in {None, "hostfile"} else Reader(reader, stated=True)  # type: ignore[arg-type]
    linted = lint_document(document, reader=who)
    skipped = " ".join(one.needs for one in linted.skipped if one.code is None)
    return Said(tuple((one.severity, one.rule.code, one.pointer) for one in linted.findings), skipped)


class Outcome(NamedTuple):
    """One comparison.

    ``kind``: "agreed", "silent" (a named silent fault), "missed" or "false" (disagreements), "not judged" (by the
    libraries on this machine), "skipped" (by the linter: a template, or no configuration at all).
    """

    mutant: Mutant
    verdict: Verdict
    said: Said
    kind: str
    cause: str = ""


def compare(mutant: Mutant, judge: Judge, *, engine: bool = False) -> Outcome:
    """Rejected must be an error, accepted none but a silent fault; the engine has the last word on an error."""
    said = lint(mutant.reader, mutant.base.syntax, mutant.text)
    if said.skipped:
        return Outcome(mutant, {"accepted": None, "where": "linter", "error": ""}, said, "skipped", said.skipped)
    verdict = judge(mutant.case, engine=engine)
    if verdict["accepted"] and said.errors and not engine:
        verdict = judge(mutant.case, engine=True)
    return Outcome(mutant, verdict, said, *_kind(mutant, verdict, said, judge))


def _kind(mutant: Mutant, verdict: Verdict, said: Said, judge: Judge) -> tuple[str, str]:
    if verdict["accepted"] is None:
        return "not judged", verdict["error"]
    if not verdict["accepted"]:
        warned = {code for words, code in WARNED.items() if words in verdict["error"]}
        is_named = said.errors or warned & {code for _, code, _ in said.findings}
        return ("agreed", "") if is_named else ("missed", f"{verdict['where']}: {cause_of(verdict['error'])}")
    if loud := _unexcused(mutant, said, verdict, judge):
        return "false", loud
    if said.errors:
        return "silent", ""
    # what one reader accepts is no error as long as nobody says who reads it
    loud = _unexcused(mutant, lint(None, mutant.base.syntax, mutant.text), verdict, judge)
    return ("false", f"no reader stated: {loud}") if loud else ("agreed", "")


def _unexcused(mutant: Mutant, said: Said, verdict: Verdict, judge: Judge) -> str:
    """The codes of errors on an accepted file that are no known or proven silent fault."""
    return " ".join(
        sorted(
            {
                code
                for severity, code, pointer in said.findings
                if severity == "error" and not excused(code, pointer)
                if code not in UNREAD or not _is_unread(mutant, pointer, verdict, judge)
            }
        )
    )


def _is_unread(mutant: Mutant, pointer: str, verdict: Verdict, judge: Judge) -> bool:
    """Whether the libraries make the same of the file without the key."""
    if mutant.config is None:
        return True
    without = copy.deepcopy(mutant.config)
    *above, key = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    try:
        del at(without, tuple(int(step) if step.isdecimal() else step for step in above))[key]
    except (KeyError, IndexError, TypeError):
        return False
    again = judge({**mutant.case, "text": to_text(mutant.base.syntax, without)})
    return bool(again["accepted"]) and _same(again["parsed"], verdict["parsed"])


def cause_of(error: str) -> str:
    """A library's error without what differs from file to file."""
    lines = [line.strip() for line in error.splitlines()[:3]]
    text = " | ".join(lines)
    text = re.sub(r"\[type=.*", "", text)
    text = re.sub(r"/\S+", "PATH", text)
    text = re.sub(r"\(char .*|line \d+ column \d+", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'..'", text)
    return re.sub(r"-?\d[\d.e+]*", "N", text)[:160]


def silent_and_unseen(outcomes: Iterable[Outcome], parsed: dict[tuple[str, str], Any]) -> Iterator[Outcome]:
    """Accepted mutants that DeepSpeed reads exactly as their base, and on which the linter has nothing to say."""
    for outcome in outcomes:
        mutant = outcome.mutant
        is_of_interest = mutant.config is not None and mutant.kind not in {"grid", "dropped key"}
        if not is_of_interest or not outcome.verdict["accepted"] or outcome.said.findings:
            continue
        if _same(outcome.verdict["parsed"], parsed[mutant.base.name, mutant.reader]):
            yield outcome


def _same(one: Any, other: Any) -> bool:
    return all(one.get(key) == value for key, value in other.items() if key not in {"world_size", "global_rank"})


def parsed_bases(judge: Judge) -> dict[tuple[str, str], Any]:
    """What DeepSpeed makes of each base for each of its readers; every one must be accepted, and clean."""
    parsed = {}
    for base in BASES:
        for reader in base.readers:
            mutant = Mutant(base, reader, "base", "", base.text)
            verdict = judge(mutant.case)
            said = lint(reader, base.syntax, base.text)
            if not verdict["accepted"] or said.errors:
                msg = f"{base.name} for {reader}: {verdict['error']}, {said.findings}"
                raise AssertionError(msg)
            parsed[base.name, reader] = verdict["parsed"]
    return parsed


def minimised(outcome: Outcome, judge: Judge) -> str:
    """The smallest part of the file that still shows the disagreement, as text."""
    mutant = outcome.mutant
    if mutant.config is None:
        return mutant.text
    config = copy.deepcopy(mutant.config)
    tries = 0
    for path in sorted(paths(config), key=lambda path: (len(path), path.__repr__())):
        smaller = copy.deepcopy(config)
        try:
            del at(smaller, path[:-1])[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # gone with its block
        tries += 1
        if tries > _MOST_TRIES:
            break
        tried = mutant._replace(config=smaller, text=to_text(mutant.base.syntax, smaller))
        again = compare(tried, judge, engine=outcome.verdict["where"] == "engine")
        if (again.kind, again.cause) == (outcome.kind, outcome.cause):
            config = smaller
    return json.dumps(config) if mutant.base.syntax == "json" else to_text("yaml", config)


def grouped(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """Disagreements by kind and cause, the most frequent first."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind in {"missed", "false"}:
            groups[outcome.kind, outcome.cause].append(outcome)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))
