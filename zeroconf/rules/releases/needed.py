"""ZC606 to ZC612: what the file uses asks for a newer release, or means something else since one.

A file whose releases nobody named is checked against the newest ones; what changed with a release is then only told
where the file leaves it to the release (ZC612), and never for that alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, insert
from zeroconf.faulty import BF16_OVERFLOW_UNCHECKED
from zeroconf.keys import AUTOTP_AT_STAGE_3_SINCE, PINS_BY_DEFAULT_SINCE
from zeroconf.rules.accelerate.reading import inline_stage, uses_deepspeed, whole_number
from zeroconf.rules.facts import AUTO
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import AccelerateConfig, DsConfig, Reader

_AUTOTP_LOADER = (1, 6)
_NO_SYNC_REFUSED = (0, 16)
_NO_SYNC_AVOIDED = (1, 9)
_SEQUENCE_PARALLEL = (0, 18, 2)
_CODE_SCHEDULER_WINS = (0, 14, 5)


@rule("ZC606", "autotp-with-stage-3-too-old", severity="error")
def autotp_with_stage_3_too_old(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Tensor parallelism together with stage 3 needs DeepSpeed 0.19.4.

    Older releases stop with "the compatibility between 'autotp' and 'zero_stage = 3' has not been validated"
    (runtime/engine.py; DeepSpeed#7389, allowed since DeepSpeed#8167).

    Example:
        ```json deepspeed=0.18.9
        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "tensor_parallel": {"autotp_size": 2}}
        ```

    Use instead:
        ```json deepspeed=0.18.9
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 2}}
        ```
    """
    size = config.number("tensor_parallel", "autotp_size") or 0
    if config.stage == 3 and size > 1 and releases.deepspeed < AUTOTP_AT_STAGE_3_SINCE:
        message = (
            f"autotp_size {size:g} at stage 3 is refused by DeepSpeed {release_text(releases.deepspeed)}: it needs "
            "0.19.4, or a stage up to 2"
        )
        yield Problem(message, config.path("tensor_parallel", "autotp_size"))


@rule("ZC607", "autotp-with-old-accelerate", severity="warning")
def autotp_with_old_accelerate(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """Tensor parallelism through Accelerate or the Trainer needs Accelerate 1.6.

    Before, each rank of a tensor parallel group gets a batch of its own: "Data inconsistency within the TP group"
    (runtime/engine.py; axolotl#2491, accelerate#3390).

    Example:
        ```json for=trainer accelerate=1.5.2
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 2}}
        ```

    Use instead:
        ```json for=trainer accelerate=1.6.0
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 2}}
        ```
    """
    size = config.number("tensor_parallel", "autotp_size") or 0
    if reader.fills_auto and size > 1 and releases.accelerate < _AUTOTP_LOADER:
        message = (
            f"Accelerate {release_text(releases.accelerate)} gives the {size:g} ranks of a tensor parallel group "
            "different batches (axolotl#2491): use 1.6.0 or newer"
        )
        yield Problem(message, config.path("tensor_parallel", "autotp_size"))


@rule("ZC608", "accumulate-refused", severity="warning")
def accumulate_refused(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """accelerator.accumulate() at stage 2 or 3 stops with this pair of releases.

    DeepSpeed refuses `no_sync` for partitioned gradients since 0.16.0 (DeepSpeed#6675), and Accelerate asks for it
    in every micro step but the last until 1.9.0 (accelerate#3656): "no_sync context manager is incompatible with
    gradient partitioning logic of ZeRO stage 2" (DeepSpeed#6793, accelerate#3481).

    Example:
        ```yaml deepspeed=0.16.4 accelerate=1.2.0
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          gradient_accumulation_steps: 4
        ```

    Use instead:
        ```yaml deepspeed=0.16.4 accelerate=1.9.0
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          gradient_accumulation_steps: 4
        ```
    """
    stage = inline_stage(accelerate)
    steps = whole_number(accelerate.deepspeed("gradient_accumulation_steps")) or 0
    pair_fails = releases.deepspeed >= _NO_SYNC_REFUSED and releases.accelerate < _NO_SYNC_AVOIDED
    if uses_deepspeed(accelerate) and stage in {2, 3} and steps > 1 and pair_fails:
        message = (
            f"accelerator.accumulate() stops at stage {stage} with DeepSpeed {release_text(releases.deepspeed)} and "
            f"Accelerate {release_text(releases.accelerate)} (DeepSpeed#6793): use Accelerate 1.9.0, or stage 1"
        )
        yield Problem(message, accelerate.path("deepspeed_config", "gradient_accumulation_steps"))


@rule("ZC609", "sequence-parallel-too-old", severity="error")
def sequence_parallel_too_old(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """Sequence parallelism through Accelerate needs DeepSpeed 0.18.2.

    Accelerate refuses an older one (accelerate/utils/constants.py, BETA_SP_AVAILABLE_DEEPSPEED_VERSION;
    accelerate/parallelism_config.py; accelerate#3817).

    Example:
        ```yaml deepspeed=0.18.1
        distributed_type: DEEPSPEED
        num_processes: 8
        parallelism_config:
          parallelism_config_sp_size: 4
          parallelism_config_sp_backend: deepspeed
        ```

    Use instead:
        ```yaml deepspeed=0.18.2
        distributed_type: DEEPSPEED
        num_processes: 8
        parallelism_config:
          parallelism_config_sp_size: 4
          parallelism_config_sp_backend: deepspeed
        ```
    """
    path = ("parallelism_config", "parallelism_config_sp_size")
    size = whole_number(accelerate.get(*path)) or 0
    if uses_deepspeed(accelerate) and size > 1 and releases.deepspeed < _SEQUENCE_PARALLEL:
        message = f"sequence parallelism needs DeepSpeed 0.18.2; {release_text(releases.deepspeed)} is refused"
        yield Problem(message, accelerate.path(*path))


@rule("ZC610", "file-scheduler-wins", severity="info")
def file_scheduler_wins(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Before DeepSpeed 0.14.5 a scheduler in the file silently replaces the one given in code.

    Since 0.14.5 the one in code wins (runtime/engine.py, _configure_lr_scheduler; DeepSpeed#5726, DeepSpeed#5846).

    Example:
        ```json deepspeed=0.14.4
        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}}
        ```

    Use instead:
        ```json deepspeed=0.14.5
        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}}
        ```
    """
    if config.has("scheduler", "type") and releases.deepspeed < _CODE_SCHEDULER_WINS:
        message = (
            f"in DeepSpeed {release_text(releases.deepspeed)} this scheduler replaces one passed to "
            "deepspeed.initialize(); since 0.14.5 that one wins"
        )
        yield Problem(message, config.path("scheduler"), on_key=True)


@rule("ZC611", "bf16-overflow-unchecked", severity="info")
def bf16_overflow_unchecked(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A NaN or infinite gradient ends a bf16 run, since nothing looks for it.

    The check is on by default since DeepSpeed 0.19.3 (DeepSpeed#8035, DeepSpeed#2911) and can be switched on since
    0.17.1 (runtime/precision_config.py); such steps are then skipped, as with fp16.

    Example:
        ```json deepspeed=0.18.9
        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json deepspeed=0.18.9
        {
          "train_batch_size": 8,
          "bf16": {"enabled": true, "check_grad_overflow": true},
          "zero_optimization": {"stage": 2}
        }
        ```
    """
    is_unsaid = config.is_on("bf16", "enabled") and not config.has("bf16", "check_grad_overflow")
    if is_unsaid and bool(config.stage) and releases.deepspeed in BF16_OVERFLOW_UNCHECKED:
        path = config.path("bf16", "check_grad_overflow")
        fix = Fix("Add check_grad_overflow: true", insert(config.document, path, True), safe=False)
        message = (
            f"DeepSpeed {release_text(releases.deepspeed)} does not look for NaN gradients in bf16 unless "
            "check_grad_overflow is true (the default since 0.19.3)"
        )
        yield Problem(message, path, fix=fix)


@rule("ZC612", "pinned-by-default", severity="info")
def pinned_by_default(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Offloaded data is in page-locked host memory since DeepSpeed 0.19.5, unless pin_memory says otherwise.

    The default changed from false to true (runtime/zero/offload_config.py; DeepSpeed#8207): the same file needs more
    host memory that cannot be swapped, which small container limits do not survive. Told only when the release is
    named.

    Example:
        ```json deepspeed=0.19.5
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json deepspeed=0.19.5
        {
          "train_batch_size": 8,
          "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": false}}
        }
        ```
    """
    if not releases.stated or releases.deepspeed < PINS_BY_DEFAULT_SINCE:
        return
    for name in ("offload_optimizer", "offload_param"):
        device = config.zero(name, "device")
        if device in ("cpu", "nvme") and config.zero(name, "pin_memory", default=AUTO) == AUTO:
            message = f"pin_memory is true by default since 0.19.5: {name} takes page-locked host memory"
            yield Problem(message, config.path("zero_optimization", name, "pin_memory"))
