"""The linter on public configurations with known verdicts: ``python benchmarks/lint_corpus.py CORPUS_FOLDER``.

The folder holds ``files/`` and ``verdicts.csv``: for each file what DeepSpeed (``raw``), and DeepSpeed after the
Trainer has filled "auto" (``after_auto``), Accelerate or the hostfile parser said, and what fails later when the engine
starts (``engine_errors``). A refusal must be an error of the same cause, an acceptance none but a silent fault.
``--judge N`` asks the libraries themselves about every disagreement and about N other files. Prints a JSON object.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "differential"))

from harness import Judge, cause_of
from silent import CAUSES, UNREAD, excused

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, str]
DISAGREEMENTS = {"missed", "false", "other cause"}


class Case(NamedTuple):
    """One file with one reader; ``error`` is None when the reader accepts it."""

    path: str
    reader: str | None
    error: str | None


class Answer(NamedTuple):
    """What the linter made of a case: (severity, code, pointer) of each finding, or why it skipped the file."""

    case: Case
    findings: tuple[tuple[str, str, str], ...]
    skipped: str

    @property
    def errors(self) -> set[str]:
        """The codes of the errors."""
        return {code for severity, code, _ in self.findings if severity == "error"}


def cases(row: Row) -> Iterator[Case]:
    """The readers that the verdicts speak of; an unknown one refuses only what nobody accepts."""
    path, raw, filled = row["file"], row["raw_error"] or None, row["after_auto_error"] or None
    later = row["engine_errors"] or None
    if row["kind"] == "ds_json":
        not_strict = row["other"] if row["other"].startswith("strict json") else None
        boolean = row["other"] if "'bool' object has no attribute" in row["other"] else None
        for_trainer = not_strict or boolean or filled or later
        yield Case(path, "deepspeed", raw or later)
        yield Case(path, "trainer", for_trainer)
        # a framework may put the batch sizes in
        nobody = for_trainer if raw and for_trainer and "Either train_batch_size" not in for_trainer else later
        yield Case(path, None, nobody)
    elif row["kind"] == "accelerate_yaml":
        yield Case(path, "accelerate", raw or filled or later)
    else:
        yield Case(path, None, raw)


def answer(case: Case, folder: Path) -> Answer:
    """The linter on one case."""
    document = parse_document((folder / "files" / case.path).read_bytes(), case.path)
    reader = Reader(case.reader, stated=True) if case.reader else Reader()  # type: ignore[arg-type]
    linted = lint_document(document, reader=reader)
    skipped = " ".join(one.needs for one in linted.skipped if one.code is None)
    return Answer(case, tuple((one.severity, one.rule.code, one.pointer) for one in linted.findings), skipped)


def judged(answer: Answer) -> tuple[str, str]:
    """("agreed" | "skipped" | "silent" | "missed" | "false" | "other cause", what groups it)."""
    error = answer.case.error
    if answer.skipped:
        return "skipped", answer.skipped.split(":")[0]
    if error is None:
        loud = sorted(
            {
                code
                for severity, code, pointer in answer.findings
                if severity == "error" and code not in UNREAD and not excused(code, pointer)
            }
        )
        return ("false", " ".join(loud)) if loud else ("silent", "") if answer.errors else ("agreed", "")
    if not answer.errors:
        return "missed", cause_of(error.replace(" ; ", "\n"))
    wanted = next((codes for words, codes in CAUSES.items() if words in error), ())
    if wanted and not answer.errors & set(wanted):
        return "other cause", f"{cause_of(error)} -> {' '.join(sorted(answer.errors))}"
    return "agreed", "" if wanted else "a cause that is not listed"


def asked(judge: Judge, path: Path, reader: str | None) -> str | None:
    """What the libraries of this environment say to a file: an error, or None when they accept it."""
    syntax = "yaml" if reader == "accelerate" else "json"
    text = path.read_text(encoding="utf-8")
    verdict = judge({"reader": reader or "trainer", "syntax": syntax, "text": text}, engine=True)
    return None if verdict["accepted"] is not False else verdict["error"]


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", type=int, default=0, metavar="N")
    args = parser.parse_args()
    with (args.folder / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    not_repeated: list[str] = []
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch, Judge(Path(scratch)) as judge:
        for row in rows:
            for case in cases(row):
                linted = answer(case, args.folder)
                kind, cause = judged(linted)
                if args.judge and kind in DISAGREEMENTS and row["kind"] != "hostfile":
                    error = asked(judge, args.folder / "files" / case.path, case.reader)
                    kind, cause = judged(linted._replace(case=case._replace(error=error)))
                    kind = kind if kind in DISAGREEMENTS else f"{kind}, by the libraries"
                groups[str(case.reader), kind, cause].append(case.path)
        chosen = random.Random(1).sample([row for row in rows if row["kind"] == "ds_json"], args.judge)
        for row in chosen:
            error = asked(judge, args.folder / "files" / row["file"], "deepspeed")
            if bool(error) is not bool(row["raw_error"] or row["engine_errors"]):
                not_repeated.append(f"{row['file']}: {row['raw_error'] or 'accepted'}, now {error or 'accepted'}")
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for (reader, kind, _), paths in groups.items():
        counts[reader][kind] += len(paths)
    result = {
        "files": len(rows),
        "by_reader": {reader: dict(count) for reader, count in counts.items()},
        "disagreements": [
            {"reader": reader, "kind": kind, "cause": cause, "count": len(paths), "files": paths[:5]}
            for (reader, kind, cause), paths in sorted(groups.items(), key=lambda group: -len(group[1]))
            if kind in DISAGREEMENTS
        ],
        "skipped": {
            f"{reader}: {cause}": len(paths) for (reader, kind, cause), paths in groups.items() if kind == "skipped"
        },
        "asked_again": len(chosen),
        "not_repeated": not_repeated,
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
