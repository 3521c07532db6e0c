"""ZC501 to ZC504: an Accelerate YAML against the ds_config.json that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, replace
from zeroconf.rules.accelerate.reading import num_machines, uses_deepspeed, whole_number
from zeroconf.rules.batch_equation import TRAIN, mismatch
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import AccelerateConfig
    from zeroconf.rules.named import Named

_TRUE_WORDS = {"true", "yes", "on", "y", "t", "1"}
_HPZ = "zero_hpz_partition_size"


@rule("ZC501", "batch-against-processes", severity="error")
def batch_against_processes(accelerate: AccelerateConfig, named: Named) -> Iterator[Problem]:
    """num_processes does not fit the batch sizes of the named file.

    num_processes is the world size, and Accelerate leaves the numbers of the file as they are
    (accelerate/accelerator.py, deepspeed_config_process with must_match=False): DeepSpeed stops with "Check batch
    related parameters" unless train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x
    processes (runtime/config.py, _batch_assertion; DeepSpeed#6914).

    Example:
        ```yaml ds.json={"train_batch_size":32,"train_micro_batch_size_per_gpu":4,"zero_optimization":{"stage":2}}
        distributed_type: DEEPSPEED
        num_processes: 16
        deepspeed_config:
          deepspeed_config_file: ds.json
        ```

    Use instead:
        ```yaml ds.json={"train_batch_size":32,"train_micro_batch_size_per_gpu":4,"zero_optimization":{"stage":2}}
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds.json
        ```
    """
    processes = whole_number(accelerate.get("num_processes")) or 0
    if not uses_deepspeed(accelerate) or processes <= 0:
        return
    wrong = mismatch(named.config, processes)
    if wrong is not None:
        yield Problem(
            f"{TRAIN} {named.config.get(TRAIN)} in {named.path} {wrong.relation}: {processes} processes want"
            f" {wrong.right} there, or no {TRAIN} at all",
            accelerate.path("num_processes"),
        )


@rule("ZC502", "named-config-refused", severity="error")
def named_config_refused(accelerate: AccelerateConfig, named: Named) -> Iterator[Problem]:
    """The named file fails as Accelerate reads it.

    Accelerate opens it with Python's json (no comments, no trailing commas) and wants a zero_optimization block;
    DeepSpeed itself asks for neither (accelerate/utils/deepspeed.py, HfDeepSpeedConfig;
    accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__). Lint the file itself, with `--for accelerate`, for
    each error at its place.

    Example:
        ```yaml ds.json={"train_batch_size":32,"bf16":{"enabled":true}}
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds.json
        ```

    Use instead:
        ```yaml ds.json={"train_batch_size":32,"bf16":{"enabled":true},"zero_optimization":{"stage":1}}
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds.json
        ```
    """
    if uses_deepspeed(accelerate) and named.errors:
        more = f", and {len(named.errors) - 1} more" if len(named.errors) > 1 else ""
        yield Problem(
            f"{named.path} fails when Accelerate reads it: {named.errors[0]}{more}",
            accelerate.path("deepspeed_config", "deepspeed_config_file"),
        )


@rule("ZC503", "zero3-init-against-named-stage", severity="warning")
def zero3_init_against_named_stage(accelerate: AccelerateConfig, named: Named) -> Iterator[Problem]:
    """zero3_init_flag says otherwise than the stage of the named file.

    Below stage 3: "DeepSpeed Zero3 Init flag is only applicable for ZeRO Stage 3. Setting it to False."
    (accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__; accelerate#2079). At stage 3, false makes every
    process build the whole model before it is partitioned: processes x model bytes of host memory (accelerate#1801).

    Example:
        ```yaml ds.json={"train_batch_size":32,"zero_optimization":{"stage":2}}
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds.json
          zero3_init_flag: true
        ```

    Use instead:
        ```yaml ds.json={"train_batch_size":32,"zero_optimization":{"stage":3}}
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds.json
          zero3_init_flag: true
        ```
    """
    said, stage = accelerate.deepspeed("zero3_init_flag"), named.config.stage
    if not uses_deepspeed(accelerate) or said is None or stage is None:
        return
    is_on = str(said).lower() in _TRUE_WORDS
    path = accelerate.path("deepspeed_config", "zero3_init_flag")
    if is_on and stage < 3:
        message = f"zero3_init_flag has no effect at stage {stage} of {named.path}: Accelerate sets it to false"
        yield Problem(message, path, fix=Fix("Write false", replace(accelerate.document, path, False)))
    elif not is_on and stage == 3:
        processes = whole_number(accelerate.get("num_processes")) or 0
        each = f"each of {processes} processes" if processes > 1 else "each process"
        message = f"stage 3 of {named.path} without zero3_init_flag: {each} builds the whole model in host memory"
        fix = Fix("Write true", replace(accelerate.document, path, True), safe=False)
        yield Problem(message, path, fix=fix, severity="info")


@rule("ZC504", "partition-against-machines", severity="error")
def partition_against_machines(accelerate: AccelerateConfig, named: Named) -> Iterator[Problem]:
    """zero_hpz_partition_size of the named file does not fit the machines.

    It divides the processes, or DeepSpeed stops: "12 is not divisible by 8" (utils/groups.py,
    _create_zero_param_parallel_group). Where it does not divide the processes of one machine, groups reach over
    machines and gather over the network after all: a warning (DeepSpeed#4386).

    Example:
        ```yaml ds.json={"train_batch_size":48,"zero_optimization":{"stage":3,"zero_hpz_partition_size":8}}
        distributed_type: DEEPSPEED
        num_machines: 3
        num_processes: 12
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_config_file: ds.json
          deepspeed_multinode_launcher: standard
        ```

    Use instead:
        ```yaml ds.json={"train_batch_size":48,"zero_optimization":{"stage":3,"zero_hpz_partition_size":4}}
        distributed_type: DEEPSPEED
        num_machines: 3
        num_processes: 12
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_config_file: ds.json
          deepspeed_multinode_launcher: standard
        ```
    """
    size = whole(named.config, "zero_optimization", _HPZ)
    processes, machines = whole_number(accelerate.get("num_processes")) or 0, num_machines(accelerate)
    if not uses_deepspeed(accelerate) or named.config.stage != 3 or size is None or size <= 1 or processes <= 0:
        return
    path, where = accelerate.path("num_processes"), f"{_HPZ} {size} in {named.path}"
    if processes % min(size, processes):
        yield Problem(f"{where} does not divide {processes} processes", path)
    elif machines > 1 and processes % machines == 0 and (processes // machines) % size:
        each = processes // machines
        message = f"{where} reaches over machines of {each} processes; {each} keeps gathers inside"
        yield Problem(message, path, severity="warning")
