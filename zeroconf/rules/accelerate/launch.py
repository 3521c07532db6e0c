"""ZC285 to ZC288, ZC290: what an Accelerate YAML tells the launcher beside the machines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, replace
from zeroconf.rules.accelerate.reading import (
    FILTERS,
    STANDARD,
    launcher,
    num_machines,
    type_of_several,
    uses_deepspeed,
    whole_number,
)
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import AccelerateConfig

_RUNNERS = ("pdsh", "openmpi", "mpich", "impi", "mvapich", "slurm")


@rule("ZC285", "unknown-multinode-launcher", severity="error")
def unknown_multinode_launcher(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """deepspeed_multinode_launcher names no launcher.

    Accelerate itself starts `standard` (torchrun) and `nossh`, written exactly so; any other word goes to
    `deepspeed --launcher`, which stops with "Unknown launcher" (deepspeed/launcher/runner.py, main). On one machine
    nothing reads the field.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        deepspeed_config:
          deepspeed_multinode_launcher: torchrun
          deepspeed_hostfile: hostfile
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        deepspeed_config:
          deepspeed_multinode_launcher: pdsh
          deepspeed_hostfile: hostfile
        ```
    """
    name = launcher(accelerate)
    if not uses_deepspeed(accelerate) or name in {STANDARD, "nossh"} or name.lower() in _RUNNERS:
        return
    path = accelerate.path("deepspeed_config", "deepspeed_multinode_launcher")
    meant = {"torchrun": STANDARD, "standard": STANDARD, "nossh": "nossh", "no_ssh": "nossh"}.get(name.lower())
    fix = Fix(f"Write {meant}", replace(accelerate.document, path, meant), safe=False) if meant else None
    message = f"there is no launcher '{name}': {', '.join((STANDARD, 'nossh', *_RUNNERS))}"
    yield Problem(message, path, fix=fix, severity=None if num_machines(accelerate) > 1 else "info")


@rule("ZC286", "launcher-field-without-effect", severity="info")
def launcher_field_without_effect(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """A hostfile or host filter that nothing reads.

    The standard launcher, and any launch on one machine, goes through torchrun, which takes neither
    `deepspeed_hostfile` nor the filters; of the two filters the exclusion wins and the inclusion is dropped, which
    is an error (accelerate/utils/launch.py, prepare_deepspeed_cmd_env).

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 1
        num_processes: 8
        deepspeed_config:
          deepspeed_hostfile: hostfile
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        deepspeed_config:
          deepspeed_hostfile: hostfile
        ```
    """
    if not uses_deepspeed(accelerate):
        return
    machines = num_machines(accelerate)
    given = [name for name in ("deepspeed_hostfile", *FILTERS) if accelerate.deepspeed(name) is not None]
    if machines == 1 or launcher(accelerate) == STANDARD:
        why = "on one machine" if machines == 1 else "with the standard launcher"
        for name in given:
            yield Problem(f"nothing reads {name} {why}", accelerate.path("deepspeed_config", name), on_key=True)
    elif set(FILTERS) <= set(given):
        path = accelerate.path("deepspeed_config", FILTERS[0])
        yield Problem("beside an exclusion filter the inclusion filter is dropped", path, on_key=True, severity="error")


@rule("ZC287", "use-cpu-with-deepspeed", severity="warning")
def use_cpu_with_deepspeed(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """use_cpu has no effect on a DeepSpeed launch.

    `accelerate launch` turns to the CPU only for `--cpu` on the command line; the launch of DeepSpeed exports nothing
    of `use_cpu` (accelerate/utils/launch.py, prepare_deepspeed_cmd_env), and the training takes the GPUs it finds.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        use_cpu: true
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        use_cpu: false
        ```
    """
    if uses_deepspeed(accelerate) and accelerate.is_on("use_cpu"):
        path = accelerate.path("use_cpu")
        fix = Fix("Write false", replace(accelerate.document, path, False))
        yield Problem("use_cpu has no effect with DeepSpeed: it trains on the GPUs", path, fix=fix)


@rule("ZC288", "fewer-gpu-ids-than-processes", severity="error", confidence="medium")
def fewer_gpu_ids_than_processes(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """More processes on a machine than GPUs that gpu_ids lets them see.

    `gpu_ids` becomes CUDA_VISIBLE_DEVICES (accelerate/utils/launch.py, prepare_deepspeed_cmd_env) and each process
    takes the GPU of its local rank (deepspeed/runtime/engine.py, _set_distributed_vars): the first one beyond them
    stops with "invalid device ordinal".

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 4
        gpu_ids: '0,1'
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 2
        gpu_ids: '0,1'
        ```
    """
    ids = accelerate.get("gpu_ids", default="all")
    processes = whole_number(accelerate.get("num_processes")) or 0
    if not uses_deepspeed(accelerate) or not isinstance(ids, str):
        return
    if re.fullmatch(r"\d+(,\d+)*", ids):
        visible, each = len(ids.split(",")), processes // num_machines(accelerate)
        if each > visible:
            message = f"{each} processes on a machine, but gpu_ids shows them {visible} GPU{'s' * (visible > 1)}"
            yield Problem(message, accelerate.path("gpu_ids"))


@rule("ZC290", "one-gpu-id-for-several", severity="error")
def one_gpu_id_for_several(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """distributed_type is for several devices, and gpu_ids names one.

    "Less than two GPU ids were configured and tried to run on multiple GPUs": on one machine every MULTI_ type but
    MULTI_CPU needs two of them, or `all`, whatever num_processes says (accelerate/commands/launch.py,
    _validate_launch_command).

    Example:
        ```yaml
        compute_environment: LOCAL_MACHINE
        distributed_type: MULTI_GPU
        num_processes: 2
        gpu_ids: '0'
        ```

    Use instead:
        ```yaml
        compute_environment: LOCAL_MACHINE
        distributed_type: MULTI_GPU
        num_processes: 2
        gpu_ids: '0,1'
        ```
    """
    kind, ids = type_of_several(accelerate), accelerate.get("gpu_ids", default="all")
    if not kind or not isinstance(ids, str) or ids == "all" or "," in ids or num_machines(accelerate) > 1:
        return
    path, cured, value = accelerate.path("gpu_ids"), "all", "all"
    if whole_number(accelerate.get("num_processes")) == 1:
        path, cured, value = accelerate.path("distributed_type"), "'NO'", "NO"
    fix = Fix(f"Write {cured}", replace(accelerate.document, path, value), safe=False)
    message = f"{kind} needs two GPUs in gpu_ids, or all, and finds '{ids}': accelerate launch stops"
    yield Problem(message, accelerate.path("gpu_ids"), fix=fix)
