"""ZC316: what offload pins on a node whose host memory is tight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.planned import Planned

# of the host memory: what Python, CUDA, loaders and the page cache need beside what is offloaded
_ROOM_BESIDE: Final = 0.1
# of the host memory that not pinning must save to be worth its slower copies
_WORTH_IT: Final = 0.01


@rule("ZC316", "pinned-memory-leaves-no-room", severity="warning", confidence="medium")
def pinned_memory_leaves_no_room(planned: Planned) -> Iterator[Problem]:
    """What offload pins leaves a node less than a tenth of its host memory, and pageable it would leave more.

    Each pinned block is rounded up to a power of two (PyTorch's CachingHostAllocator), and the kernel can neither page
    it out nor reclaim it: a container is killed at its limit, or `ulimit -l` refuses it. pin_memory is true unless
    said otherwise since 0.19.5 (runtime/zero/offload_config.py; DeepSpeed#8207). Without, the blocks of
    offload_optimizer are as large as their content, and copies slower.

    Example:
        ```json model=13B hardware=8xA100-80GB host-memory=288GB seq-len=2048
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json model=13B hardware=8xA100-80GB host-memory=288GB seq-len=2048
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": false}}}
        ```
    """
    room, plan = planned.facts.cluster.host_memory_bytes, planned.plan
    if room is None or plan.offload_optimizer == "none" or plan.pin_memory is False:
        return
    pinned, pageable = planned.cost.host, planned.of_file.with_changes(pin_memory=False).estimate.host
    before, after = (one.pinned_bytes + one.pageable_bytes for one in (pinned, pageable))
    if before <= (1 - _ROOM_BESIDE) * room or after > room or before - after < _WORTH_IT * room:
        return
    yield Problem(
        f"offload takes {gib(before)} of {gib(room)} host memory on each node, {gib(pinned.pinned_bytes)} of it pinned"
        f" and {gib(pinned.rounding_bytes)} only rounding: pin_memory false takes {gib(after)}",
        planned.path("pin_memory"),
        fix=set_to(planned, "pin_memory", value=False),
    )
