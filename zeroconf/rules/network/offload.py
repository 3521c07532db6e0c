"""ZC404: offload that is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import DsConfig
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.edits import Fix
    from zeroconf.rules.planned import Planned
    from zeroconf.types import Candidate


@rule("ZC404", "needless-offload", severity="warning", confidence="medium")
def needless_offload(timed: Planned) -> Iterator[Problem]:
    """States are offloaded that fit on the GPU.

    Offload moves gradients down and weights up each step and updates on the host's processors
    (runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py): 6 to 15 times slower is reported where the model fits
    without (DeepSpeed#6695, DeepSpeed#2998). Told where the same plan without offload is comfortable and takes no
    longer: a warning where it is faster beyond doubt, else an info.

    Example:
        ```json model=gpt2 hardware=2xA100-80GB seq-len=1024
        {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json model=gpt2 hardware=2xA100-80GB seq-len=1024
        {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2}}
        ```
    """
    of_file, plan = timed.of_file, timed.plan
    without = without_offload(timed)
    if without is None:
        return
    words, mine = of_file.words, of_file.candidate
    yield Problem(
        f"it fits without offload: {words.memory(without)}, {words.time(without)}; as it stands it takes"
        f" {words.memory(mine)}, {words.time(mine)}{of_file.instead}",
        timed.path("offload_optimizer" if plan.offload_optimizer != "none" else "offload_param"),
        severity="warning" if of_file.is_surely_slower_than(without) else "info",
        fix=_without_offload(timed),
    )


def without_offload(planned: Planned) -> Candidate | None:
    """The file's plan without offload, where that is comfortable and no slower."""
    of_file = planned.of_file
    if planned.plan.offload == "none" or not of_file.may_vary("offload"):
        return None
    without = of_file.alternative(offload_optimizer="none", offload_param="none")
    is_better = without is not None and without.estimate.verdict == "comfortable" and of_file.is_no_slower(without)
    return without if is_better else None


def _without_offload(planned: Planned) -> Fix | None:
    view = planned.view
    if not isinstance(view, DsConfig):
        return None
    blocks = [name for name in ("offload_optimizer", "offload_param") if view.has("zero_optimization", name)]
    if not blocks:
        return None
    made = edits.remove_all(view.document, view.path("zero_optimization"), blocks)
    return cure("Remove offload", made, safe=False)
