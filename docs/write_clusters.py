"""Writes the files of ``templates/clusters/`` and their gallery: ``python docs/write_clusters.py``.

Each folder's ``zeroconf.toml`` says what is asked for.
A test fails when they are stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zeroconf import api
from zeroconf.plan.reasons import title
from zeroconf.units import count, gib, seconds

if TYPE_CHECKING:
    from zeroconf.generated import Generated
    from zeroconf.types import Candidate

ROOT = Path(__file__).parent.parent
CLUSTERS = ROOT / "templates/clusters"
PAGE = ROOT / "docs/clusters.md"
NAMES = {"output": "ds_config.json", "accelerate": "accelerate.yaml", "launch": "launch.sh"}
HEAD = """# Configurations for clusters that people have

<!-- written by docs/write_clusters.py -->

Each folder of [templates/clusters](../templates/clusters) holds a `zeroconf.toml`, which says the model and the
machines, and what `zeroconf generate --accelerate accelerate.yaml --launch launch.sh` made of it there: for the
Trainer, with the newest releases. Copy a folder, change the `zeroconf.toml`, generate again. Peaks and times are
predictions; `zeroconf smoke-test` says whether they hold on yours.

"""


def made(folder: Path) -> Generated:
    """What ``generate`` makes in a folder."""
    facts, _ = api.load_facts({}, project=folder)
    return api.generate(facts, **NAMES)


def chosen(one: Generated) -> Candidate:
    """The plan that was chosen; a folder whose model does not fit is a fault here."""
    candidate = one.decision.chosen
    if candidate is None:
        raise ValueError(one.decision.facts.cluster.name)
    return candidate


def row(folder: Path, one: Generated) -> str:
    """The gallery's line."""
    facts, best = one.decision.facts, chosen(one)
    plan, cost = best.plan, best.estimate
    about = (folder / "zeroconf.toml").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    checkpointing = "yes" if plan.activation_checkpointing else "no"
    cells = (
        f"[{about}](../templates/clusters/{folder.name})",
        f"{facts.model.name}, {count(facts.model.num_parameters)}",
        title(plan),
        f"{plan.micro_batch_size} x {plan.gradient_accumulation_steps} x {facts.cluster.num_gpus}",
        checkpointing,
        f"{gib(cost.gpu.peak_allocated_bytes)} of {gib(cost.capacity_bytes)}",
        seconds(cost.step.seconds_per_sample),
    )
    return f"| {' | '.join(cells)} |"


def texts() -> dict[Path, str]:
    """Every file that is written, whole."""
    folders = sorted(path.parent for path in CLUSTERS.glob("*/zeroconf.toml"))
    results = {folder: made(folder) for folder in folders}
    written = {folder / name: text for folder, one in results.items() for name, text in one.files.items()}
    columns = "| machines | model | plan | micro batch x steps x GPUs | recompute | GPU peak | per sample |"
    lines = [columns, "|" + "---|" * 7, *(row(folder, one) for folder, one in results.items())]
    return written | {PAGE: HEAD + "\n".join(lines) + "\n"}


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
