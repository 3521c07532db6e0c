"""ZC254-ZC256, ZC258-ZC261: gradients on the wire, buckets and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import (
    is_dedicated_bf16_optimizer,
    is_off,
    number,
    offload_device,
    optimizer_type,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig, Reader

_LARGE_BUCKET = 10**9
_DEFAULT_BUCKET = 5 * 10**8
_FACTOR = "gradient_predivide_factor"
_WINDOWS = {
    # key: how few elements are tiny
    "stage3_max_live_parameters": 10**8,
    "stage3_max_reuse_distance": 10**6,
    "stage3_prefetch_bucket_size": 10**5,
    "stage3_param_persistence_threshold": 1,
    "sub_group_size": 10**6,
}


@rule("ZC254", "odd-allgather-bucket", severity="error")
def odd_allgather_bucket(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """allgather_bucket_size is odd.

    Stages 1 and 2 align their sends to 4 bytes, two 16-bit elements: "allgather_bucket_size must be a multiple of
    nccl_start_alignment_factor, 2" (runtime/zero/stage_1_and_2.py).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 200000001}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 200000000}}
        ```
    """
    size = whole(config, "zero_optimization", "allgather_bucket_size")
    if config.stage in {1, 2} and size and size % 2 and not is_dedicated_bf16_optimizer(config, reader):
        path = config.path("zero_optimization", "allgather_bucket_size")
        yield Problem(
            f"allgather_bucket_size {size} must be even",
            path,
            fix=cure(f"Write {size + 1}", edits.replace(config.document, path, size + 1)),
        )


@rule("ZC255", "prescaled-gradients", severity="error")
def prescaled_gradients(config: DsConfig) -> Iterator[Problem]:
    """Gradients are to be scaled before a reduce-scatter.

    "pre-scale gradients is not yet supported with ZeRO-2 with reduce scatter enabled", and gradient_predivide_factor
    must be 1.0 (runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py). Stages 0 and 1 reduce otherwise and take both,
    and so does stage 2 where gradients are summed. All but stage 3 fail where they divide by 0
    (runtime/engine.py, allreduce_bucket).

    Example:
        ```json
        {"train_batch_size": 8, "prescale_gradients": true, "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "prescale_gradients": false, "zero_optimization": {"stage": 2}}
        ```
    """
    factor = number(config, _FACTOR)
    is_summed = str(config.get("gradient_allreduce_op")).lower() == "sum"
    scatters = config.stage in {1, 2, 3} and not is_off(config, "zero_optimization", "reduce_scatter")
    if config.stage in {0, 1, 2} and factor == 0 and not (scatters or is_summed or config.is_on("prescale_gradients")):
        yield Problem(f"DeepSpeed divides the gradients by {_FACTOR}, and it is 0", config.path(_FACTOR))
    if config.stage not in {2, 3} or not scatters or (is_summed and config.stage == 2):
        return
    if config.is_on("prescale_gradients"):
        path = config.path("prescale_gradients")
        yield Problem(
            f"DeepSpeed stops on prescale_gradients at stage {config.stage} with reduce_scatter, its default",
            path,
            fix=cure("Remove prescale_gradients", edits.remove(config.document, path), safe=False),
        )
    if factor is not None and factor != 1:
        path = config.path(_FACTOR)
        yield Problem(
            f"DeepSpeed stops on gradient_predivide_factor {factor:g} at stage {config.stage} with reduce_scatter, its"
            " default",
            path,
            fix=cure("Remove gradient_predivide_factor", edits.remove(config.document, path), safe=False),
        )


@rule("ZC256", "summed-gradients", severity="error")
def summed_gradients(config: DsConfig) -> Iterator[Problem]:
    """gradient_allreduce_op "sum" stands where gradients can only be averaged.

    Stage 3, ZenFlow and DeepCompile refuse it (runtime/config.py, _do_error_check).

    Example:
        ```json
        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "gradient_allreduce_op": "mean", "zero_optimization": {"stage": 3}}
        ```
    """
    if str(config.get("gradient_allreduce_op")).lower() != "sum":
        return
    reasons = [
        (config.stage == 3, "stage 3"),
        (config.zero("zenflow") is not None, "ZenFlow"),
        (config.is_on("compile", "deepcompile"), "DeepCompile"),
    ]
    for applies, reason in reasons:
        if applies:
            path = config.path("gradient_allreduce_op")
            yield Problem(
                f'{reason} averages gradients only; use "mean"',
                path,
                fix=cure('Write "mean"', edits.replace(config.document, path, "mean"), safe=False),
            )
            return


@rule("ZC258", "large-buckets", severity="info")
def large_buckets(config: DsConfig) -> Iterator[Problem]:
    """Buckets are larger than DeepSpeed's default.

    The buffers are allocated whatever the model's size: stages 1 and 2 hold reduce_bucket_size elements of the
    gradients' dtype, twice with overlap_comm, stage 3 once (runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py).
    5e8 is the default, 1 GB in 16 bits.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000000000}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 500000000}}
        ```
    """
    keys = {1: ("reduce_bucket_size", "allgather_bucket_size"), 2: ("reduce_bucket_size", "allgather_bucket_size")}
    for key in keys.get(config.stage or 0, ("reduce_bucket_size",) if config.stage else ()):
        size = whole(config, "zero_optimization", key)
        if size is None or size < _LARGE_BUCKET:
            continue
        is_doubled = (
            key == "reduce_bucket_size" and config.stage != 3 and config.is_on("zero_optimization", "overlap_comm")
        )
        num_buffers = 2 if is_doubled else 1
        yield Problem(
            f"{key} takes {num_buffers} x {size:.1e} elements x 2 bytes = {num_buffers * size * 2 / 1e9:.1f} GB in 16"
            f" bits; the default is {_DEFAULT_BUCKET:.0e}",
            config.path("zero_optimization", key),
        )


@rule("ZC259", "gradient-path", severity="info")
def gradient_path(config: DsConfig) -> Iterator[Problem]:
    """A switch of the gradients' path is overridden, or costs traffic.

    reduce_scatter false all-reduces gradients of which a rank keeps its shard only, twice the traffic
    (runtime/zero/stage3.py). contiguous_gradients false is overridden when the optimizer is offloaded, and
    round_robin_gradients spreads copies to the host that there are not without it (runtime/zero/stage_1_and_2.py).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_scatter": false}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_scatter": true}}
        ```
    """
    zero = "zero_optimization"
    is_offloaded = offload_device(config, "offload_optimizer") != "none"
    if config.stage in {2, 3} and is_off(config, zero, "reduce_scatter") and optimizer_type(config) != "muon":
        path = config.path(zero, "reduce_scatter")
        yield Problem(
            f"stage {config.stage} without reduce_scatter all-reduces gradients: about twice the bytes",
            path,
            fix=cure("Write true", edits.replace(config.document, path, True), safe=False),
        )
    if config.stage in {1, 2} and is_offloaded and is_off(config, zero, "contiguous_gradients"):
        path = config.path(zero, "contiguous_gradients")
        yield Problem(
            "contiguous_gradients is on whatever it says when the optimizer is offloaded",
            path,
            fix=cure("Remove contiguous_gradients", edits.remove(config.document, path), safe=False),
        )
    if config.stage in {1, 2} and not is_offloaded and config.is_on(zero, "round_robin_gradients"):
        path = config.path(zero, "round_robin_gradients")
        yield Problem(
            "round_robin_gradients parallelises copies to the host, and nothing is offloaded",
            path,
            fix=cure("Remove round_robin_gradients", edits.remove(config.document, path), safe=False),
        )


@rule("ZC260", "tiny-stage-3-windows", severity="info")
def tiny_stage_3_windows(config: DsConfig) -> Iterator[Problem]:
    """Stage 3 is set to the smallest memory, at the price of more and smaller gathers.

    What exceeds max_live_parameters is released and gathered again, a prefetch bucket of 0 fetches nothing ahead, and
    sub_group_size 0 steps each parameter by itself (runtime/zero/config.py; such a file in DeepSpeed#4571). Legal and
    sometimes wanted; slower than the defaults.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 0}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000}}
        ```
    """
    if config.stage != 3:
        return
    for key, few in _WINDOWS.items():
        name = key if config.has("zero_optimization", key) else key.removeprefix("stage3_")
        size = whole(config, "zero_optimization", name)
        if size is not None and 0 <= size < few:
            yield Problem(
                f"{name} {size} saves memory and costs speed; the defaults gather ahead and keep what is used again",
                config.path("zero_optimization", name),
            )
    if config.is_on("zero_optimization", "stage3_allgather_sequential") or config.is_on(
        "zero_optimization", "allgather_sequential"
    ):
        prefetch = next(
            (k for k in ("stage3_prefetch_bucket_size", "prefetch_bucket_size") if config.zero(k) is not None), None
        )
        if prefetch:
            yield Problem(
                f"allgather_sequential replaces {prefetch} by 1",
                config.path("zero_optimization", prefetch),
                on_key=True,
            )


@rule("ZC261", "unmanaged-accumulation", severity="error")
def unmanaged_accumulation(config: DsConfig) -> Iterator[Problem]:
    """managed_gradient_accumulation is off together with what needs it.

    "managed_gradient_accumulation=False supports ZeRO overlap_comm only with ZeRO stage 2", and DeepCompile excludes it
    (runtime/engine.py, _do_sanity_check; stage 3 passes that check too).

    Example:
        ```json
        {"train_batch_size": 8, "managed_gradient_accumulation": false,
         "zero_optimization": {"stage": 1, "overlap_comm": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "managed_gradient_accumulation": false, "zero_optimization": {"stage": 1}}
        ```
    """
    if not is_off(config, "managed_gradient_accumulation"):
        return
    path = config.path("managed_gradient_accumulation")
    if config.stage in {0, 1} and config.is_on("zero_optimization", "overlap_comm"):
        yield Problem(f"with overlap_comm at stage {config.stage} the engine manages accumulation itself", path)
    elif config.is_on("compile", "deepcompile"):
        yield Problem("with DeepCompile the engine manages accumulation itself", path)
