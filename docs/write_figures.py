"""Writes the measured and the textbook's figures into the pages: ``python docs/write_figures.py``.

Each stands between ``<!-- figures: NAME -->`` and ``<!-- /figures -->`` and comes from the newest file of its benchmark
in ``benchmarks/results``, or from the public functions. A test fails when they are stale.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from write_rules import table

from zeroconf import api
from zeroconf.estimate.rules_of_thumb import STAGES, model_state_bytes, traffic_elements

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("which-stage.md", "ladder.md", "speed.md"))]
_REGION = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- /figures -->\n)", re.DOTALL)
_GPUS = 8
_PHASES = ("init", "forward", "backward", "step")


def newest(benchmark: str) -> tuple[dict[str, Any], Path]:
    """The newest result of a benchmark, and its file."""
    path = max((ROOT / "benchmarks/results").glob(f"{benchmark}-2*.json"))
    return json.loads(path.read_text(encoding="utf-8")), path


def link(benchmark: str, text: str = "", folder: str = "../") -> str:
    """A link to the newest result of a benchmark."""
    found, path = newest(benchmark)
    return f"[{text or found['date']}]({folder}{path.relative_to(ROOT).as_posix()})"


def percent(share: float, digits: int = 0) -> str:
    """A share without its sign."""
    return f"{abs(share) * 100:.{digits}f} %"


def _peak(moments: dict[str, int]) -> int:
    return max(moments[phase] for phase in _PHASES)


def _peak_errors(benchmark: str, given: str) -> list[float]:
    """How far the estimate's peak is from DeepSpeed's, case by case."""
    return [_peak(case["estimate"]) / _peak(case[given]) - 1 for case in newest(benchmark)[0]["cases"]]


def headline() -> str:
    """The README's paragraph."""
    shapes = [abs(error) for error in _peak_errors("memory-real-size", "device")]
    memory, time = newest("memory-accuracy")[0], newest("step-time-accuracy")[0]
    peers = memory["peers"].values()
    choice, wire = newest("choice")[0], newest("shaped-link")[0]
    (many,) = (one for one in wire["stage_3_over_stage_1"] if one["cases"][0] == "stage-3/accumulation-16")
    theirs, ours = ([one[who]["median_absolute"] for one in peers] for who in ("theirs", "ours"))
    all_rows, deepspeed = memory["summary"]["all"], memory["summary"]["DeepSpeed"]
    steps, engine = time["all"], time["engines"]["DeepSpeed"]
    return f"""\
* **Memory, against what DeepSpeed allocates**: on {len(shapes)} shapes from 1B to 70B the estimate's peak is off by
  {percent(statistics.median(shapes), 1)} in the median, {percent(max(shapes))} at worst ({link("memory-real-size", folder="")}).
* **Memory, against {all_rows["rows"]} published GPU runs**: {percent(all_rows["median_signed"])} low in the median
  ({percent(deepspeed["median_signed"])} on the {deepspeed["rows"]} with DeepSpeed), one reason for the 20 % headroom. Where public estimators
  answer they miss by {percent(min(theirs))[:-2]} to {percent(max(theirs))}, this one by {percent(min(ours))[:-2]} to {percent(max(ours))} on the same rows
  ({link("memory-accuracy", folder="")}, [row by row](docs/accuracy.md)).
* **Step time**, a model with a range: on {steps["rows"]} published runs off by {percent(steps["left_out"]["median_absolute"])} in the median
  ({percent(engine["left_out"]["median_absolute"])} on the {engine["rows"]} with DeepSpeed), each source left out of the fit; {percent(steps["in_band"])} lie in
  the range ({link("step-time-accuracy", folder="")}).
* **Choice**: {choice["sets_in_order"]} of {choice["sets"]} published rankings in their order ({link("choice", folder="")}). On a real link of 100 Mb/s
  {wire["pairs_as_predicted"]} of {wire["pairs_judged"]} pairs of plans were in the order predicted; with 16 micro steps stage 3 sent {many["bytes_ratio"]:.0f} times
  stage 1's bytes and took {many["seconds"][0]:.1f} s a step, stage 1 {many["seconds"][1]:.1f} s ({link("shaped-link", folder="")}).
"""


def textbook() -> str:
    """The ZeRO paper's bytes and elements beside DeepSpeed's, for 7B on 8 GPUs."""
    parameters = 7e9
    rows = []
    for stage in STAGES:
        textbook_bytes = model_state_bytes(parameters, _GPUS, stage)
        (_, sent_once), (held, sent) = (_deepspeed(stage, micro_steps) for micro_steps in (1, 16))
        cells = [
            f"{stage} | {textbook_bytes / parameters:g} | {textbook_bytes / 1e9:g} GB | {held}",
            f"{traffic_elements(parameters, stage) / parameters:g}P | {sent_once:.1f}P | {sent:.1f}P",
        ]
        rows.append(" | ".join(cells))
    return table(
        "stage | textbook: bytes per parameter | in all | DeepSpeed: bytes per parameter (when) | textbook: sent | "
        "DeepSpeed: sent | with 16 micro steps",
        rows,
    )


def _deepspeed(stage: int, micro_steps: int) -> tuple[str, float]:
    """What DeepSpeed's defaults hold of 7B beside activations and the context, and what they send, per parameter.

    What one of 8 GPUs sends is scaled to many GPUs, as the textbook counts.
    """
    written = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": micro_steps,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": stage},
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "ds_config.json"
        config.write_text(json.dumps(written), encoding="utf-8")
        facts, _ = api.load_facts({"model": "7B", "hardware": f"{_GPUS}xA100-80GB"})
        facts, (cost,) = api.estimate(facts, config)
    held = {moment: one.total - one.activations - one.logits - one.overhead for moment, one in cost.gpu.moments.items()}
    most = max(held, key=lambda moment: held[moment])
    sent = sum(one.elements for one in cost.traffic.per_collective) * _GPUS / (_GPUS - 1)
    parameters = facts.model.num_parameters
    return f"{held[most] / parameters:.1f} ({most})", sent / parameters


FIGURES: dict[str, Callable[[], str]] = {"headline": headline, "textbook": textbook}


def text_of(page: Path) -> str:
    """A page with today's figures."""
    return _REGION.sub(lambda found: found[1] + FIGURES[found[2]]() + found[3], page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(text_of(page), encoding="utf-8")
