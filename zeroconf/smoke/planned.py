"""A chosen plan tried before it is written: on fake tensors anywhere, or for real where its hardware is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from zeroconf.detect.auto import read_hardware
from zeroconf.errors import InputError
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.model import model_source
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.predict import processors
from zeroconf.smoke.trial import DEFAULT_STEPS, check_positions, run_beside
from zeroconf.types import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Facts, Plan

Verification = Literal["dry-run", "smoke"]
_NAMES = {"dry-run": "a dry run", "smoke": "a smoke test"}


def try_plan(
    facts: Facts, plan: Plan, ds_config: Mapping[str, Any], model: str, *, how: Verification, **run_options: Any
) -> SmokeResult:
    """A plan's configuration run on its own cluster; ``model`` is what the user called the model.

    ``run_options`` are those of ``zeroconf.smoke.launch.run_smoke_test``.

    Raises:
        InputError: the workload has something that no run shows, or its hardware is not here.
        SmokeTestError: it could not start: a package or launcher is missing.
    """
    _check_shown(facts, ds_config, how)
    mode: Literal["dry-run", "real"] = "dry-run" if how == "dry-run" else "real"
    if mode == "real":
        run_options["device"] = device_here(facts.cluster)
    workload, cluster = facts.workload, facts.cluster
    check_positions(facts.model, workload.sequence_length)
    file = parse_config(dict(ds_config), "the chosen configuration")
    job = SmokeJob(
        ds_config=file.content,
        architecture=asdict(facts.model) | {"config": model_source(model)},
        sequence_length=workload.sequence_length,
        steps=DEFAULT_STEPS[mode],
        micro_batch_size=plan.micro_batch_size,
        gradient_accumulation_steps=plan.gradient_accumulation_steps,
        activation_checkpointing=plan.activation_checkpointing,
        attention="eager" if workload.attention == "eager" else "sdpa",
        lora_rank=workload.lora_rank or 0,
        zero_init=plan.zero_init,
        bf16=cluster.gpu.bf16,
        gpus_per_node=cluster.gpus_per_node,
        mode=mode,
        world_size=cluster.num_gpus,
    )
    return run_beside(job, file, facts.model, cluster, **run_options)


def _check_shown(facts: Facts, ds_config: Mapping[str, Any], how: Verification) -> None:
    """Refuses what the run would leave out.

    Raises:
        InputError: the workload has something of that.
    """
    workload = facts.workload
    unknown = {
        f"--optimizer {workload.optimizer} of the script": "optimizer" not in ds_config
        and workload.optimizer not in ("adamw", "adam"),
        f"--quantize {workload.quantize}": workload.quantize is not None,
        f"--cross-entropy {workload.cross_entropy}": workload.cross_entropy != "torch",
        "--frozen-params": workload.frozen_parameters > 0,
        "--trainable-params": workload.trainable_parameters is not None and workload.lora_rank is None,
    }
    for option, given in unknown.items():
        if given:
            msg = f"{_NAMES[how]} does not show {option}; leave out --verify"
            raise InputError(msg)


def device_here(cluster: Cluster) -> Literal["cpu", "cuda"]:
    """What the plan's ranks run on, on this machine: its GPUs, or its processors where the cluster's card is ``cpu``.

    Raises:
        InputError: this machine is not the plan's hardware.
    """
    cure = "run it there, or take --verify=dry-run, which needs no hardware"
    if cluster.num_nodes > 1:
        msg = f"--verify=smoke starts the ranks on this machine, and {cluster.name} has {cluster.num_nodes} nodes; "
        msg += "take --verify=dry-run here, and zeroconf smoke-test --hostfile (or --launcher srun) there"
        raise InputError(msg)
    if cluster.gpu.name == processors(1).gpu.name:
        return "cpu"
    try:
        here = read_hardware("auto")
    except InputError as error:
        msg = f"--verify=smoke runs on this machine, which shows no GPU, and the plan is for {cluster.name}; {cure}"
        raise InputError(msg) from error
    machine = here if isinstance(here, Cluster) else here.one
    local, card = machine.gpus_per_node, machine.gpu.name
    if card != cluster.gpu.name or local < cluster.num_gpus:
        has = f"which has {local}x{card}"
        msg = f"--verify=smoke runs on this machine, {has}, and the plan is for {cluster.name}; {cure}"
        raise InputError(msg)
    return "cuda"
