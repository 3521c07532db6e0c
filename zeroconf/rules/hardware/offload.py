"""ZC316 and ZC317: what offload pins on a node whose host memory is tight, and the buffers of weights on NVMe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import whole
from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.planned import Planned

# runtime/zero/offload_config.py
_DEFAULT_COUNT: Final = 5
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
        fix=set_to(planned, pin_memory=False),
    )


@rule("ZC317", "too-few-swap-buffers", severity="error", confidence="medium")
def too_few_swap_buffers(config: DsConfig, planned: Planned) -> Iterator[Problem]:
    """offload_param.buffer_count is less than the weights that one GPU holds at once.

    Each weight that is whole holds a buffer until it is released, and what is used again within
    stage3_max_reuse_distance elements is not: "Not enough buffers 0 for swapping 1" in the second step
    (runtime/swap_tensor/partitioned_param_swapper.py, swap_in; DeepSpeed#3062). Counted along the model's modules as
    the coordinator does, and equal to the engine of 0.19.8 for Llama and GPT-NeoX on one GPU, which alone is told.

    Example:
        ```json model=llama-3.2-1b hardware=1xA100-80GB nvme=/scratch:3.5TB seq-len=1024
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "nvme",
          "nvme_path": "/scratch", "buffer_count": 5, "buffer_size": 300000000}}}
        ```

    Use instead:
        ```json model=llama-3.2-1b hardware=1xA100-80GB nvme=/scratch:3.5TB seq-len=1024
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "stage3_max_reuse_distance": 0, "offload_optimizer": {"device": "cpu"},
          "offload_param": {"device": "nvme", "nvme_path": "/scratch", "buffer_count": 5, "buffer_size": 300000000}}}
        ```
    """
    facts, plan = planned.facts, planned.plan
    workload, block = facts.workload, ("zero_optimization", "offload_param", "buffer_count")
    count = whole(config, *block) if config.has(*block) else _DEFAULT_COUNT
    is_counted = workload.lora_rank is None and workload.trainable_parameters is None and not facts.model.num_experts
    if plan.offload_param != "nvme" or facts.cluster.num_gpus > 1 or not is_counted or count is None:
        return
    recomputes = {"auto": (False, True), "full": (True,)}.get(workload.activation_checkpointing, (False,))
    from zeroconf.estimate.swaps import swap_buffers  # noqa: PLC0415  (start-up: most files are linted without facts)

    needed = min(swap_buffers(facts.model, plan, recomputes=one) for one in recomputes)
    if count < needed:
        path = config.path(*block)
        yield Problem(
            f"buffer_count {count} is less than the {needed} weights that are whole at once, each in a buffer of its"
            f" own; a lower stage3_max_reuse_distance ({plan.max_reuse_distance:,} elements) keeps fewer",
            path,
            fix=cure(f"Write {needed}", edits.insert(config.document, path, needed), safe=False),
        )
