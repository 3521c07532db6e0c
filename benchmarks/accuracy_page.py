"""``docs/accuracy.md`` from the figures of ``memory_accuracy.py``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GIB = 2**30
_HEAD = """# Memory: predicted against published runs

{date}. Written by `benchmarks/memory_accuracy.py --page`; figures in
`benchmarks/results/memory-accuracy-{date}.json`, the runs' facts with their public sources in
`benchmarks/data/measured.csv`. To do it again:

```sh
python -m venv peer && peer/bin/pip install llm-analysis==0.2.2
python benchmarks/memory_accuracy.py --llm-analysis peer/bin/python --page
```

No constant of the estimate is fitted to these rows. They come from many releases and several engines, and leave
settings open (the note says which were inferred): a row of another engine than DeepSpeed is read as the plan that does
most nearly the same. Errors are predicted / measured - 1. Allocated is compared with allocated, reserved with reserved,
nvidia-smi with all that is on the card; where a source does not say, its figure is read as reserved.
"""


def put_section(path: Path, text: str) -> None:
    """Puts a section, which begins with its title, in the place of the one with the same title, or at the end."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = [part for part in re.split(r"(?m)^(?=# )", old) if part.strip()]
    title = text.partition("\n")[0]
    places = [index for index, part in enumerate(parts) if part.startswith(f"{title}\n")]
    if places:
        parts[places[0]] = text
    else:
        parts.append(text)
    path.write_text("\n".join(part.rstrip("\n") + "\n" for part in parts), encoding="utf-8")


def page(found: dict[str, Any]) -> str:
    """The page's text."""
    summary = found["summary"]
    blocks = [
        _HEAD.format(date=found["date"]).rstrip(),
        _summary(summary),
        "## By framework and stage\n\n" + _groups(found["groups"]),
        _peers(found["peers"], found["versions"]),
        "## Each row\n\n" + _rows(found["rows"]),
        _outcomes(found["outcomes"], summary["verdicts"]),
        _unused(found["unused"]),
    ]
    return "\n\n".join(blocks) + "\n"


def percent(share: float, *, signed: bool = False) -> str:
    """A share as the page writes it."""
    return f"{share:+.1%}" if signed else f"{share:.1%}"


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _errors(name: str, errors: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        str(errors["rows"]),
        percent(errors["median_absolute"]),
        percent(errors["p95_absolute"]),
        percent(errors["median_signed"], signed=True),
    )


_ERROR_HEADER = ("", "rows", "median absolute", "95th percentile", "median signed")


def _summary(summary: dict[str, Any]) -> str:
    lines = [_errors("all", summary["all"]), _errors("DeepSpeed", summary["DeepSpeed"])]
    within = percent(summary["in_interval"])
    return f"{table(_ERROR_HEADER, lines)}\n\n{within} of the rows lie in the estimate's interval."


def _groups(groups: dict[str, Any]) -> str:
    return table(_ERROR_HEADER, [_errors(name, errors) for name, errors in groups.items()])


def _peers(peers: dict[str, Any], versions: dict[str, str]) -> str:
    header = ("estimator", "rows", "its median", "our median", "its 95th", "our 95th")
    lines = []
    for name, pair in peers.items():
        theirs, ours = pair["theirs"], pair["ours"]
        middle = (percent(theirs["median_absolute"]), percent(ours["median_absolute"]))
        high = (percent(theirs["p95_absolute"]), percent(ours["p95_absolute"]))
        lines.append((name, str(theirs["rows"]), *middle, *high))
    used = ", ".join(f"{name} {number}" for name, number in versions.items())
    return (
        f"## Beside public estimators\n\nAbsolute errors on the rows where each answers ({used}). None answers for "
        "adapters; `accelerate estimate-memory` needs the hub for its model, so its arithmetic is called with the "
        f"row's parameters, and it knows one GPU only.\n\n{table(header, lines)}"
    )


def _rows(rows: list[dict[str, Any]]) -> str:
    header = (
        "id",
        "framework",
        "model",
        "GPUs",
        "stage",
        "tokens",
        "kind",
        "measured GiB",
        "predicted",
        "error",
        "note",
    )
    lines = []
    for row in rows:
        tokens = f"{row['micro_batch']} x {row['sequence_length']}"
        kind = row["memory_kind"]
        sizes = (f"{row['measured_bytes'] / GIB:.1f}", f"{row['predicted_bytes'] / GIB:.1f}")
        name = row["model"] + (" LoRA" if row["lora"] else "")
        place = (row["id"], row["framework"], name, row["gpus"], row["stage"], tokens, kind)
        lines.append((*place, *sizes, percent(row["signed_error"], signed=True), row["note"]))
    return table(header, lines)


def _outcomes(outcomes: list[dict[str, Any]], verdicts: dict[str, Any]) -> str:
    refused, comfortable = (
        verdicts[key] for key in ("ran_but_called_does_not_fit", "out_of_memory_called_comfortable")
    )
    listed = [row for row in outcomes if row["id"] in refused or row["fits"] == "oom"]
    header = ("id", "framework", "model", "GPUs", "stage", "outcome", "verdict", "share of the card")
    lines = [
        (
            *(row[key] for key in ("id", "framework", "model", "gpus", "stage")),
            "ran" if row["fits"] == "yes" else "out of memory",
            row["verdict"],
            f"{row['share_of_card']:.0%}",
        )
        for row in listed
    ]
    fused = sum(row["loss"] == "fused" for row in outcomes)
    text = (
        f"Of {verdicts['ran']} runs that ran, {len(refused)} ({percent(verdicts['share_called_does_not_fit'])}) are "
        f"called does-not-fit; of {verdicts['out_of_memory']} that ran out of memory, {len(comfortable)} are called "
        f"comfortable. {fused} of the runs (llm-foundry's MPT) have a fused cross-entropy (`--cross-entropy fused`), "
        "which keeps 4 bytes per logit where Transformers' loss keeps 12. Those that ran and are called does-not-fit, "
        "and all that ran out of memory:"
    )
    return f"## Outcomes\n\n{text}\n\n{table(header, lines)}"


def _unused(unused: dict[str, Any]) -> str:
    counted = table(("rows", "reason"), [(str(number), reason) for reason, number in unused["reasons"].items()])
    listed = table(("id", "source", "reason"), [(r["id"], r["source"], r["reason"]) for r in unused["rows"]])
    return f"## Not used\n\n{counted}\n\n{listed}"
