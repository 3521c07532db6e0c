"""ZC506 to ZC509, ZC511 and ZC513 to ZC515: launch lines of scripts against the files that they name, and their job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.accelerate.reading import whole_number
from zeroconf.rules.batch_equation import TRAIN, mismatch
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import count, is_off, whole, world_size
from zeroconf.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.document.slurm import Asked
    from zeroconf.rules.launch import Launch
    from zeroconf.rules.named import Named

_HPZ = "zero_hpz_partition_size"


@rule("ZC506", "launch-against-batch", severity="error")
def launch_against_batch(launch: Launch, named: Named) -> Iterator[Problem]:
    """The launch line starts another number of processes than the batch sizes of its file are for.

    DeepSpeed stops with "Check batch related parameters" unless train_batch_size = train_micro_batch_size_per_gpu x
    gradient_accumulation_steps x processes (runtime/config.py, _batch_assertion; DeepSpeed#6914); the Trainer refuses a
    train_batch_size that is not its own product (transformers/integrations/deepspeed.py, trainer_config_process).

    Example:
        ```shell ds.json={"train_batch_size":32,"train_micro_batch_size_per_gpu":4,"gradient_accumulation_steps":1}
        deepspeed --num_gpus 4 train.py --deepspeed_config ds.json
        ```

    Use instead:
        ```shell ds.json={"train_batch_size":32,"train_micro_batch_size_per_gpu":4,"gradient_accumulation_steps":1}
        deepspeed --num_gpus 8 train.py --deepspeed_config ds.json
        ```
    """
    if launch.world is None:
        return
    processes, path = launch.world
    wrong = mismatch(named.config, processes)
    if wrong is not None:
        yield Problem(
            f"{TRAIN} {named.config.get(TRAIN)} in {named.path} {wrong.relation}: {processes} processes want"
            f" {wrong.right} there, or no {TRAIN} at all",
            path,
        )
        return
    own = [launch.program(f"--{name}") for name in ("per_device_train_batch_size", "gradient_accumulation_steps")]
    micro, steps = (whole_number(one.text) if one else None for one in own)
    train = count(named.config, TRAIN)
    if launch.is_for_trainer and train and micro and steps and train != micro * steps * processes:
        yield Problem(
            f"{TRAIN} {train} in {named.path} is not the Trainer's --per_device_train_batch_size {micro} x"
            f" --gradient_accumulation_steps {steps} x {processes} processes = {micro * steps * processes}; write"
            ' "auto" in the file',
            path,
        )


@rule("ZC507", "launch-without-launcher", severity="warning")
def launch_without_launcher(launch: Launch, named: Named) -> Iterator[Problem]:
    """DeepSpeed is started with plain python.

    One process has no ranks and no rendezvous: the world size is 1 whatever the number of GPUs, and DeepSpeed looks for
    MPI to find others (deepspeed/comm/comm.py, init_distributed; DeepSpeed#6914, starcoder#77). An error where the
    batch sizes of the file are for several processes.

    Example:
        ```shell ds.json={"train_batch_size":32,"train_micro_batch_size_per_gpu":4,"gradient_accumulation_steps":1}
        python train.py --deepspeed --deepspeed_config ds.json
        ```

    Use instead:
        ```shell ds.json={"train_batch_size":32,"train_micro_batch_size_per_gpu":4,"gradient_accumulation_steps":1}
        deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config ds.json
        ```
    """
    if launch.command != "python" or launch.gives_ranks:
        return
    ranks = world_size(named.config)
    is_for_several = ranks is not None and ranks > 1
    meant = f"; the batch sizes of {named.path} are for {ranks}" if is_for_several else ""
    yield Problem(
        f"plain python starts one process without ranks{meant}; start it with deepspeed, accelerate launch or torchrun",
        launch.config.path if launch.config else launch.path("command"),
        severity="error" if is_for_several else None,
    )


@rule("ZC508", "launch-against-hostfile", severity="error")
def launch_against_hostfile(launch: Launch, hosts: Document) -> Iterator[Problem]:
    """The launch line asks for more than its hostfile has.

    --num_gpus takes that many GPUs of each host, without a look at its slots (launcher/runner.py,
    apply_num_nodes_and_gpus): processes beyond the GPUs end in "CUDA error: invalid device ordinal". --num_nodes beyond
    the hosts takes those that are there, without a word: a warning.

    Example:
        ```shell hosts=node-1:4,node-2:4
        deepspeed --hostfile hosts --num_gpus 8 train.py --deepspeed_config ds.json
        ```

    Use instead:
        ```shell hosts=node-1:4,node-2:4
        deepspeed --hostfile hosts --num_gpus 4 train.py --deepspeed_config ds.json
        ```
    """
    members = hosts.root.members if hosts.root else []
    if launch.per_node is not None:
        asked, path = launch.per_node
        few = [one for one in members if isinstance(one.node.value, int) and one.node.value < asked]
        if few:
            yield Problem(f"{asked} GPUs of each host, but {few[0].key} has {few[0].node.value} slots", path)
    nodes = launch.launcher("--num_nodes")
    number = whole_number(nodes.text) if nodes else None
    if nodes and number and members and number > len(members):
        yield Problem(f"{number} nodes of a hostfile with {len(members)} hosts", nodes.path, severity="warning")


@rule("ZC509", "mixed-precision-against-config", severity="error")
def mixed_precision_against_config(launch: Launch, named: Named) -> Iterator[Problem]:
    r"""--mixed_precision of accelerate launch says otherwise than the ds_config.json.

    bf16 with fp16 on in the file, or the other way round: "`--mixed_precision` arg cannot be set to `bf16` when `fp16`
    is set in the DeepSpeed config file". With the file's own block off, nothing is said and training is in fp32: a
    warning (accelerate/utils/dataclasses.py, DeepSpeedPlugin.set_mixed_precision).

    Example:
        ```shell ds.json={"train_batch_size":32,"fp16":{"enabled":true},"zero_optimization":{"stage":2}}
        accelerate launch --num_processes 8 --use_deepspeed --deepspeed_config_file ds.json \
          --mixed_precision bf16 train.py
        ```

    Use instead:
        ```shell ds.json={"train_batch_size":32,"bf16":{"enabled":true},"zero_optimization":{"stage":2}}
        accelerate launch --num_processes 8 --use_deepspeed --deepspeed_config_file ds.json \
          --mixed_precision bf16 train.py
        ```
    """
    given = launch.launcher("--mixed_precision") if launch.command == "accelerate" else None
    if given is None or given.text not in {"bf16", "fp16"}:
        return
    other = "fp16" if given.text == "bf16" else "bf16"
    if named.config.enabled(other):
        yield Problem(f"--mixed_precision {given.text}, but {named.path} has {other} on: Accelerate stops", given.path)
    elif named.config.has(given.text) and is_off(named.config, given.text, "enabled"):
        yield Problem(
            f"--mixed_precision {given.text}, but {named.path} has {given.text} off, which wins: training is in fp32",
            given.path,
            severity="warning",
        )


@rule("ZC511", "launch-against-partition", severity="error")
def launch_against_partition(launch: Launch, named: Named) -> Iterator[Problem]:
    """zero_hpz_partition_size of the file does not divide the processes that the line starts.

    "12 is not divisible by 8" (utils/groups.py, _create_zero_param_parallel_group). Where it does not divide the
    processes of a node, groups gather over the network after all: a warning (DeepSpeed#4386).

    Example:
        ```shell ds.json={"train_batch_size":48,"zero_optimization":{"stage":3,"zero_hpz_partition_size":8}}
        torchrun --nnodes 3 --nproc_per_node 4 train.py --deepspeed_config ds.json
        ```

    Use instead:
        ```shell ds.json={"train_batch_size":48,"zero_optimization":{"stage":3,"zero_hpz_partition_size":4}}
        torchrun --nnodes 3 --nproc_per_node 4 train.py --deepspeed_config ds.json
        ```
    """
    size = whole(named.config, "zero_optimization", _HPZ)
    if launch.world is None or named.config.stage != 3 or size is None or size <= 1:
        return
    processes, path = launch.world
    where = f"{_HPZ} {size} in {named.path}"
    if processes % min(size, processes):
        yield Problem(f"{where} does not divide {processes} processes", path)
    elif launch.per_node and launch.per_node[0] < processes and launch.per_node[0] % size:
        each = launch.per_node[0]
        message = f"{where} reaches over nodes of {each} processes; {each} keeps gathers inside"
        yield Problem(message, path, severity="warning")


@rule("ZC513", "visible-devices-ignored", severity="warning")
def visible_devices_ignored(launch: Launch) -> Iterator[Problem]:
    """CUDA_VISIBLE_DEVICES has no effect beside --num_gpus or --exclude.

    "Detected VISIBLE_DEVICES=2,3 but ignoring it because one or several of --include/--exclude/--num_gpus/--num_nodes
    cl args were used", and the variable is removed: --num_gpus 2 takes GPUs 0 and 1 (launcher/runner.py, main;
    DeepSpeed#662, accelerate#663).

    Example:
        ```shell
        CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 train.py --deepspeed ds.json
        ```

    Use instead:
        ```shell
        deepspeed --include localhost:2,3 train.py --deepspeed ds.json
        ```
    """
    if launch.command != "deepspeed" or launch.launcher("--hostfile"):
        return
    names = str(launch.get("environment", default="")).split()
    # --include names the GPUs itself
    beside = None if launch.launcher("--include") else launch.launcher("--num_gpus", "--num_accelerators", "--exclude")
    if "CUDA_VISIBLE_DEVICES" in names and beside is not None:
        yield Problem(
            f"the launcher ignores CUDA_VISIBLE_DEVICES because of {beside.name}; name the variable's"
            " GPUs in --include localhost:..., or leave the option out",
            beside.path,
        )


@rule("ZC514", "parallelism-config-flag-refused", severity="error")
def parallelism_config_flag_refused(launch: Launch) -> Iterator[Problem]:
    """--use_parallelism_config is refused without FSDP.

    "You cannot use `--use_parallelism_config` without `--use_fsdp` and `--fsdp_version=2`"
    (accelerate/commands/launch.py, _validate_launch_command), before the YAML is read. With DeepSpeed the
    parallelism_config of the YAML does the same.

    Example:
        ```shell
        accelerate launch --use_deepspeed --use_parallelism_config --num_processes 8 train.py
        ```

    Use instead:
        ```shell
        accelerate launch --use_deepspeed --config_file accelerate.yaml --num_processes 8 train.py
        ```
    """
    flag = launch.launcher("--use_parallelism_config") if launch.command == "accelerate" else None
    if flag is not None and launch.launcher("--use_fsdp") is None:
        message = (
            "accelerate launch refuses --use_parallelism_config without --use_fsdp: put parallelism_config into the"
        )
        yield Problem(f"{message} YAML", flag.path)


@rule("ZC515", "launch-against-job", severity="error")
def launch_against_job(launch: Launch) -> Iterator[Problem]:
    """The launch line does not go with what the script asks of Slurm.

    Processes beyond the GPUs of --gres or --gpus-per-node end in "CUDA error: invalid device ordinal": a job sees no
    others (sbatch(1)). With more nodes than --nodes the rendezvous of torchrun and accelerate launch waits for those
    that never come, until RendezvousTimeoutError (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py). srun
    starts the line in each task of the job (srun(1)): with several on a node, of a launcher that itself starts a
    process for each GPU, several launchers share the GPUs; and with fewer nodes than --nodes those beyond are left
    over, or without --nnodes every node trains alone: a warning. Nothing is said where a condition on SLURM_LOCALID or
    SLURM_PROCID chooses the tasks that start it.

    Example:
        ```shell
        #SBATCH --nodes=2 --gres=gpu:8
        srun torchrun --nnodes 4 --nproc_per_node 4 train.py --deepspeed ds.json
        ```

    Use instead:
        ```shell
        #SBATCH --nodes=2 --gres=gpu:8
        srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 train.py --deepspeed ds.json
        ```
    """
    job = launch.job
    if launch.get("hidden") or launch.get("condition") or launch.launcher("--cpu"):
        return
    tasks = job.tasks_per_node.number if job.tasks_per_node and launch.is_for_each_task else 1
    if launch.num_nodes and job.nodes and launch.num_nodes[0] > tasks * job.nodes.number and not launch.joins_others:
        number, path = launch.num_nodes
        yield Problem(f"{number} nodes, but the script asks Slurm for {_of(launch, job.nodes)}", path)
    yield from _against_tasks(launch)
    if launch.per_node and job.gpus_per_node and launch.per_node[0] > job.gpus_per_node.number:
        number, path = launch.per_node
        message = f"{number} processes on a node, but the script asks Slurm for {_of(launch, job.gpus_per_node)} there"
        yield Problem(message, path)


def _against_tasks(launch: Launch) -> Iterator[Problem]:
    """What srun starts in each task."""
    job, nodes = launch.job, launch.num_nodes
    if not launch.is_for_each_task or launch.joins_others:
        return
    if nodes and job.nodes and nodes[0] < job.nodes.number:
        message = f"the launch is for {counted(nodes[0], 'node')}, but srun starts it on all {_of(launch, job.nodes)}"
        cure = f"{launch.nodes_option} $SLURM_NNODES takes them all"
        yield Problem(f"{message}; {cure}", nodes[1], severity="warning")
    tasks, gpus, each = job.tasks_per_node, job.gpus_per_node, launch.per_node
    if tasks and gpus and each and tasks.number > 1 and tasks.number * each[0] > gpus.number >= each[0]:
        yield Problem(
            f"srun starts {launch.command} in each of {_of(launch, tasks)} tasks on a node, with {each[0]} processes"
            f" each, on {gpus.number} GPUs; ask for one task on a node, --ntasks-per-node=1",
            launch.path("command"),
        )


def _of(launch: Launch, asked: Asked) -> str:
    line, _ = launch.document.position(asked.start)
    return f"{asked.number} (line {line})"
