"""ZC307 to ZC310, and ZC314: the file against the known number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.accelerate.reading import num_machines, uses_deepspeed, whole_number
from zeroconf.rules.batch_equation import TRAIN, mismatch, parallel_sizes
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.rules.facts import AccelerateConfig, DsConfig
    from zeroconf.rules.launch import Launch
    from zeroconf.types import Cluster

_HPZ = "zero_hpz_partition_size"


@rule("ZC307", "batch-against-gpus", severity="error")
def batch_against_gpus(config: DsConfig, cluster: Cluster) -> Iterator[Problem]:
    """The batch sizes do not fit the known number of GPUs.

    DeepSpeed stops unless train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x
    data-parallel ranks ("Check batch related parameters. train_batch_size is not equal to ..."), and divides for the
    one that is missing with the remainder dropped, down to "Micro batch size per gpu: 0" (runtime/config.py,
    _set_batch_related_parameters and _batch_assertion; DeepSpeed#3228, DeepSpeed#17). train_batch_size can stay out:
    DeepSpeed multiplies by itself.

    Example:
        ```json hardware=8xA100-80GB
        {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
        ```

    Use instead:
        ```json hardware=8xA100-80GB
        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
        ```
    """
    wrong = mismatch(config, cluster.num_gpus)
    if wrong is None:
        return
    path = config.path(TRAIN)
    shared = "".join(f" / {key[-1]} {size}" for key, size in parallel_sizes(config).items())
    yield Problem(
        f"{TRAIN} {config.get(TRAIN)} {wrong.relation} on the {cluster.num_gpus} GPUs of {cluster.name}{shared}; write"
        f" {wrong.right}, or leave {TRAIN} out",
        path,
        fix=cure(f"Write {TRAIN} {wrong.right}", edits.replace(config.document, path, wrong.right), safe=False),
    )


@rule("ZC308", "groups-against-gpus", severity="error")
def groups_against_gpus(config: DsConfig, cluster: Cluster) -> Iterator[Problem]:
    """Groups of GPUs do not divide the known number of them.

    zero_hpz_partition_size: "AssertionError: 12 is not divisible by 8", and beyond the number of GPUs it is cut to it
    without a word (utils/groups.py, _create_zero_param_parallel_group). tensor_parallel.autotp_size and
    sequence_parallel_size: bare assertions, or a world size that is no integer (utils/groups.py; runtime/config.py).

    Example:
        ```json hardware=3x4xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```

    Use instead:
        ```json hardware=3x4xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}
        ```
    """
    gpus = cluster.num_gpus
    where = f"the {gpus} GPUs of {cluster.name}"
    for key, size in parallel_sizes(config).items():
        if gpus % size:
            yield Problem(f"{key[-1]} {size} does not divide {where}", config.path(*key))
    group = whole(config, "zero_optimization", _HPZ)
    if config.stage != 3 or group is None or group <= 1:
        return
    path = config.path("zero_optimization", _HPZ)
    inside = cluster.gpus_per_node
    fix = cure(f"Write {inside}", edits.replace(config.document, path, inside), safe=False) if inside > 1 else None
    if group > gpus:
        cut = f"{_HPZ} {group} is cut to {where}: a second copy over all of them"
        yield Problem(cut, path, fix=fix, severity="warning")
    elif gpus % group:
        yield Problem(f"{_HPZ} {group} does not divide {where}", path, fix=fix)


@rule("ZC309", "processes-against-gpus", severity="error")
def processes_against_gpus(accelerate: AccelerateConfig, cluster: Cluster) -> Iterator[Problem]:
    """num_processes is not the number of GPUs.

    num_processes counts the processes of all machines, one for each GPU (accelerate/utils/launch.py,
    prepare_deepspeed_cmd_env; accelerate#1317). More on a machine than it has GPUs end in "CUDA error: invalid device
    ordinal". With more machines than there are, or with GPUs that stand idle: a warning.

    Example:
        ```yaml hardware=8xA100-80GB
        distributed_type: DEEPSPEED
        num_machines: 1
        num_processes: 16
        deepspeed_config:
          zero_stage: 2
        ```

    Use instead:
        ```yaml hardware=8xA100-80GB
        distributed_type: DEEPSPEED
        num_machines: 1
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
        ```
    """
    processes = whole_number(accelerate.get("num_processes")) or 0
    machines = num_machines(accelerate)
    if not uses_deepspeed(accelerate) or processes <= 0 or processes == cluster.num_gpus:
        return
    per_machine = processes // machines
    if per_machine > cluster.gpus_per_node:
        yield Problem(
            f"num_processes {processes} on {machines} machines start {per_machine} on each, which has"
            f" {cluster.gpus_per_node} GPUs ({cluster.name}); the number of all GPUs is {cluster.num_gpus}",
            accelerate.path("num_processes"),
        )
    elif processes > cluster.num_gpus:
        yield Problem(
            f"num_processes {processes} on {machines} machines, but {cluster.name} has {cluster.num_gpus} GPUs in all",
            accelerate.path("num_processes"),
            severity="warning",
        )
    elif processes < cluster.num_gpus:
        yield Problem(
            f"num_processes {processes} leaves {cluster.num_gpus - processes} of the {cluster.num_gpus} GPUs of"
            f" {cluster.name} idle: it counts all machines together",
            accelerate.path("num_processes"),
            severity="warning",
        )


@rule("ZC314", "launch-against-gpus", severity="error")
def launch_against_gpus(launch: Launch, cluster: Cluster) -> Iterator[Problem]:
    """The launch line starts more processes on a node than it has GPUs, or leaves GPUs idle.

    One process takes one GPU (launcher/launch.py; torch/distributed/run.py; accelerate/utils/launch.py): beyond them
    they end in "CUDA error: invalid device ordinal". With more nodes than there are, or where training with DeepSpeed
    leaves GPUs idle: a warning.

    Example:
        ```shell hardware=4xA100-80GB
        deepspeed --num_gpus 8 train.py --deepspeed ds.json
        ```

    Use instead:
        ```shell hardware=4xA100-80GB
        deepspeed --num_gpus 4 train.py --deepspeed ds.json
        ```
    """
    if launch.launcher("--cpu"):
        return
    if launch.per_node and launch.per_node[0] > cluster.gpus_per_node:
        number, path = launch.per_node
        yield Problem(f"{number} processes on a node of {cluster.gpus_per_node} GPUs ({cluster.name})", path)
    elif launch.world and launch.world[0] > cluster.num_gpus:
        number, path = launch.world
        message = f"{number} processes, but {cluster.name} has {cluster.num_gpus} GPUs in all"
        yield Problem(message, path, severity="warning" if launch.per_node else None)
    elif launch.world and launch.world[0] < cluster.num_gpus and (launch.config or launch.accelerate):
        number, path = launch.world
        idle = cluster.num_gpus - number
        message = f"{number} processes leave {idle} of the {cluster.num_gpus} GPUs of {cluster.name} idle"
        yield Problem(message, path, severity="warning")


@rule("ZC310", "slots-against-gpus", severity="error")
def slots_against_gpus(hostfile: Document, cluster: Cluster) -> Iterator[Problem]:
    """A host of the hostfile has more slots than GPUs.

    The launcher starts one process for each slot (launcher/runner.py, fetch_hostfile): beyond the GPUs they end in
    "CUDA error: invalid device ordinal".

    Example:
        ```hostfile hardware=2x4xA100-80GB
        node-1 slots=8
        node-2 slots=8
        ```

    Use instead:
        ```hostfile hardware=2x4xA100-80GB
        node-1 slots=4
        node-2 slots=4
        ```
    """
    for member in hostfile.root.members if hostfile.root else []:
        slots = member.node.value
        if isinstance(slots, int) and slots > cluster.gpus_per_node:
            yield Problem(
                f"{slots} slots on {member.key}, but a node of {cluster.name} has {cluster.gpus_per_node} GPUs",
                (member.key,),
                fix=cure(
                    f"Write slots={cluster.gpus_per_node}",
                    edits.replace(hostfile, (member.key,), cluster.gpus_per_node),
                    safe=False,
                ),
            )
