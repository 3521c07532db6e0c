"""The commands and scripts that start a plan: ``accelerate``, ``deepspeed``, ``torchrun``, Slurm, a pod's."""

from __future__ import annotations

import re
import shlex
from string import Template
from typing import TYPE_CHECKING, Any

from zeroconf.emit.script import checkpointing_flags, loss_flags, optimizer_flags
from zeroconf.errors import InputError
from zeroconf.resources import data_path
from zeroconf.rules.trainer import arguments_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.choices import Scheduler
    from zeroconf.types import Cluster, Facts, Plan

_PORT = "29500"
_RANK_AND_PORT = {
    None: ('"$NODE_RANK"', _PORT),
    "slurm": ('"$SLURM_NODEID"', '"$MASTER_PORT"'),
    "kubernetes": ('"$JOB_COMPLETION_INDEX"', _PORT),
    "jobset": ('"$JOB_COMPLETION_INDEX"', _PORT),
}


def launch_commands(
    facts: Facts,
    plan: Plan,
    ds_config: Mapping[str, Any],
    *,
    ds_config_path: str,
    accelerate_path: str | None,
    script: str = "train.py",
) -> dict[str, str]:
    """One shell line a launcher.

    ``accelerate`` and ``torchrun`` run on every node, with ``NODE_RANK`` (0 on the first) and ``MASTER_ADDR``
    (the first node's address) set; ``deepspeed`` runs once and reaches the nodes of ``hostfile`` by ssh.
    ``accelerate`` is left out without ``accelerate_path``, ``deepspeed`` where the environment that Accelerate
    reads would not reach the other nodes.

    Raises:
        InputError: a path holds a line break or another control character.
    """
    cluster = facts.cluster
    config, program = shell_word(ds_config_path), shell_word(script)
    settings = [f"{name}={value}" for name, value in _environment(facts, ds_config_path).items()]
    arguments = [program, *_script_arguments(facts, plan, ds_config, config)]
    lines: dict[str, list[str]] = {}
    if accelerate_path is not None:
        tail = _script_arguments(facts, plan, ds_config, config, wired=True)
        launcher = [*_accelerate_launcher(cluster, *_RANK_AND_PORT[None]), "--config_file", shell_word(accelerate_path)]
        own = [f"{name}={value}" for name, value in _environment(facts, ds_config_path, wired=True).items()]
        lines["accelerate"] = [*own, *launcher, program, *tail]
    if cluster.num_nodes == 1 or not settings:
        lines["deepspeed"] = [*settings, *_deepspeed_launcher(facts), *arguments]
    lines["torchrun"] = [*settings, *_torchrun_launcher(cluster, *_RANK_AND_PORT[None]), *arguments]
    return {name: " ".join(words) for name, words in lines.items()}


def launch_script(
    facts: Facts,
    plan: Plan,
    ds_config: Mapping[str, Any],
    *,
    ds_config_path: str,
    accelerate_path: str | None,
    script: str = "train.py",
    scheduler: Scheduler | None = None,
) -> str:
    """A bash script for one node, or a Slurm batch script for several; its arguments go on to ``script``.

    ``scheduler`` says otherwise: Slurm also for one node, or for Kubernetes the bash script that each pod runs.
    The launcher is ``accelerate`` where its YAML is named, else ``torchrun``.

    Raises:
        InputError: a path holds a line break or another control character.
    """
    cluster = facts.cluster
    config, program = shell_word(ds_config_path), shell_word(script)
    wired = accelerate_path is not None and facts.reader != "deepspeed"
    tail = [program, *_script_arguments(facts, plan, ds_config, config, wired=wired)]
    scheduler = scheduler_of(facts, scheduler)
    rank, port = _RANK_AND_PORT[scheduler]
    launcher = _torchrun_launcher(cluster, rank, port)
    if accelerate_path is not None and wired:
        launcher = _accelerate_launcher(cluster, rank, port)
        tail = ["--config_file", shell_word(accelerate_path), *tail]
    environment = _environment(facts, ds_config_path, wired=wired)
    exports = "".join(f"export {name}={value}\n" for name, value in environment.items())
    template = "slurm.sh" if scheduler == "slurm" else "node.sh"
    text = data_path(f"templates/launch/{template}").read_text(encoding="utf-8")
    return Template(text).substitute(
        summary=summary(facts, plan),
        job_name=re.sub(r"[^A-Za-z0-9._-]+", "-", facts.model.name).strip("-") or "train",
        num_nodes=cluster.num_nodes,
        gpus_per_node=cluster.gpus_per_node,
        exports=exports,
        launcher=" ".join(launcher),
        arguments=" ".join(tail),
    )


def scheduler_of(facts: Facts, asked: Scheduler | None) -> Scheduler | None:
    """What a launch script is for: what was asked for, else Slurm on several nodes, and on one nothing."""
    return asked or ("slurm" if facts.cluster.num_nodes > 1 else None)


def hostfile(cluster: Cluster, hosts: tuple[str, ...] = ()) -> str:
    """A hostfile for the ``deepspeed`` launcher; names that are not given become ``node-1``, ``node-2``..."""
    names = [*hosts, *(f"node-{index + 1}" for index in range(len(hosts), cluster.num_nodes))]
    return "".join(f"{name} slots={cluster.gpus_per_node}\n" for name in names)


def trainer_flags(facts: Facts, plan: Plan, ds_config: Mapping[str, Any]) -> list[str]:
    """The ``TrainingArguments`` that the Trainer compares with the file, and what no file can say."""
    flags = [f"--{name} {value}" for name, value in arguments_of(ds_config)]
    flags += [*optimizer_flags(facts.workload), *loss_flags(facts.workload)]
    if plan.activation_checkpointing:
        # DeepSpeed's activation_checkpointing block does nothing for Hugging Face models
        flags += checkpointing_flags(facts.workload, plan)
    return flags


def _script_arguments(
    facts: Facts, plan: Plan, ds_config: Mapping[str, Any], config: str, *, wired: bool = False
) -> list[str]:
    """The script's own arguments; ``wired`` when ``accelerate launch`` already hands over the JSON."""
    match facts.reader:
        case "trainer":
            return [*([] if wired else ["--deepspeed", config]), *trainer_flags(facts, plan, ds_config)]
        case "deepspeed":
            return ["--deepspeed", "--deepspeed_config", config]
        case "accelerate":
            return []


def _environment(facts: Facts, ds_config_path: str, *, wired: bool = False) -> dict[str, str]:
    """What the plan rests on, and unless ``wired`` what ``accelerate launch`` would set for a script of its own."""
    found = {}
    if facts.workload.precision == "fp16" and facts.cluster.gpu.deprecates_fp16:
        found["DS_ALLOW_DEPRECATED_FP16"] = "1"
    if facts.reader == "accelerate" and not wired:
        found |= {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_CONFIG_FILE": shell_word(ds_config_path)}
    return found


def _accelerate_launcher(cluster: Cluster, node_rank: str, port: str) -> list[str]:
    words = ["accelerate launch"]
    if cluster.num_nodes > 1:
        words += [f"--machine_rank {node_rank}", '--main_process_ip "$MASTER_ADDR"', f"--main_process_port {port}"]
    return words


def _torchrun_launcher(cluster: Cluster, node_rank: str, port: str) -> list[str]:
    if cluster.num_nodes == 1:
        return [f"torchrun --standalone --nproc_per_node {cluster.gpus_per_node}"]
    return [
        f"torchrun --nnodes {cluster.num_nodes} --nproc_per_node {cluster.gpus_per_node}",
        f'--node_rank {node_rank} --master_addr "$MASTER_ADDR" --master_port {port}',
    ]


def _deepspeed_launcher(facts: Facts) -> list[str]:
    cluster = facts.cluster
    words = ["deepspeed"]
    if cluster.num_nodes > 1:
        words.append(f"--hostfile hostfile --num_nodes {cluster.num_nodes}")
    words.append(f"--num_gpus {cluster.gpus_per_node}")
    if facts.reader == "accelerate":
        words.append("--no_local_rank")  # a script written for accelerate launch has no such option
    return words


def summary(facts: Facts, plan: Plan) -> str:
    """One line for a comment: model, GPUs, stage and offload."""
    cluster = facts.cluster
    offload = "" if plan.offload == "none" else f", offload {plan.offload}"
    line = f"{facts.model.name} on {cluster.num_nodes} x {cluster.gpus_per_node} GPUs: ZeRO stage {plan.stage}{offload}"
    if plan.activation_checkpointing and facts.reader != "trainer":
        line += "; the script calls model.gradient_checkpointing_enable()"
    return "".join(c if c.isprintable() else "?" for c in " ".join(line.split()))


def shell_word(path: str) -> str:
    """The path as one shell word.

    Raises:
        InputError: it holds a line break or another control character.
    """
    return shlex.quote(printable(path))


def printable(path: str) -> str:
    """The path itself.

    Raises:
        InputError: it holds a line break or another control character.
    """
    if not path.isprintable():
        msg = f"the path {path!r} holds a line break or control character; rename it"
        raise InputError(msg)
    return path
