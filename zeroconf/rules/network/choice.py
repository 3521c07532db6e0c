"""ZC407: a plan that another one beats in more than one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.rules.network.offload import without_offload
from zeroconf.rules.network.stage import faster_stage
from zeroconf.rules.network.steps import faster_split
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.planned import Planned

# what the search may change, so that nobody may have pinned it
_FREE: Final = ("zero_stage", "offload", "micro_batch_size", "gradient_accumulation", "activation_checkpointing")
# of a step that waits for links and the host: with less, nothing is 1.5 times as fast
_WAITING: Final = 1 / 3


@rule("ZC407", "slower-than-the-best-plan", severity="warning", confidence="medium")
def slower_than_the_best_plan(timed: Planned) -> Iterator[Problem]:
    """Most of the step waits for a link or for the host, and another plan of the same batch does not.

    Which one it is takes more than one key of the file: stage, offload, micro batch and recomputation together, as
    generate searches them with the traffic of runtime/zero/stage_1_and_2.py and
    runtime/zero/partitioned_param_coordinator.py (DeepSpeed#5770). Told where that plan is comfortable and faster
    beyond doubt, as ZC401 has it, and where no single key would do (ZC401, ZC404, ZC405).

    Example:
        ```json model=llama-3.1-8b hardware=8xL40S seq-len=512
        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 16, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json model=llama-3.1-8b hardware=8xL40S seq-len=512
        {"train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3}}
        ```
    """
    of_file = timed.of_file
    if not all(map(of_file.may_vary, _FREE)) or of_file.candidate.rejected_by is not None or not _waits(timed):
        return
    if faster_stage(timed) or faster_split(timed) or without_offload(timed):
        return
    best = of_file.decision.chosen if of_file.decision else None
    if best is None or best.estimate.verdict != "comfortable" or not of_file.is_surely_slower_than(best):
        return
    words, mine = of_file.words, of_file.candidate
    ratio = mine.estimate.step.total_seconds / best.estimate.step.total_seconds
    yield Problem(
        f"generate would choose a plan {ratio:.1f}x as fast: {of_file.choice(best)}; {words.title(mine)} takes"
        f" {words.time(mine)} and sends {words.sent(mine)} per GPU and step ({words.traffic(mine)}){of_file.assumed}",
        timed.path("stage"),
    )


def _waits(planned: Planned) -> bool:
    step = planned.cost.step
    return step.exposed_communication_seconds + step.offload_seconds > _WAITING * step.total_seconds
