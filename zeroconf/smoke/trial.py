"""A smoke test from a file and the user's options to its verdict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeroconf.config_file import read_config
from zeroconf.detect.auto import read_hardware
from zeroconf.errors import InputError
from zeroconf.estimate.families import family_of
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.model import TINY, model_source, read_model
from zeroconf.inputs.project import beside, read_project
from zeroconf.smoke.hosts import find_hosts
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.launch import run_smoke_test
from zeroconf.smoke.predict import against_card, fall_back, processor_bytes, processors, with_prediction
from zeroconf.types import Cluster, ModelSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.choices import Attention
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.smoke.command import Launcher
    from zeroconf.smoke.measured import SmokeMode, SmokeResult

_LONGEST_DEFAULT: Final = 4096
_TINY_DEFAULT: Final = 128
# GPUs in a node, where only their type and the number of ranks is given
_NODE: Final = 8


def smoke_test(
    config: Path | ConfigFile,
    *,
    model: str | None = None,
    params: str | None = None,
    hardware: str | None = None,
    sequence_length: int | None = None,
    steps: int | None = None,
    num_processes: int | None = None,
    launcher: Launcher = "torchrun",
    hostfile: Path | None = None,
    world_size: int | None = None,
    dry_run: bool = False,
    project: Path | None = None,
    activation_checkpointing: bool | None = None,
    attention: Attention | None = None,
    lora_rank: int | None = None,
    zero_init: bool = True,
    **run_options: Any,
) -> SmokeResult:
    """Trains a configuration for a few steps with random weights; measured beside predicted.

    ``model`` and ``params`` are what ``generate`` takes, or ``tiny``. None takes the project file's, whose workload is
    the job's and not ``tiny``'s; without one, ``sequence_length`` is the model's maximum, at most 4096 (128 for
    ``tiny``). ``num_processes`` None is one per GPU of this machine, one without any. ``world_size`` beyond them makes
    one process stand for rank 0 of so many; with ``dry_run`` on fake tensors, on one GPU of ``hardware``, whose number
    of GPUs is the world size where none is given.
    ``run_options`` are those of ``zeroconf.smoke.launch.run_smoke_test``.

    Raises:
        InputError: the configuration, the model or the hardware cannot be read, or they contradict each other.
        SmokeTestError: it could not start: a package or launcher is missing.
    """
    file = read_config(config) if isinstance(config, Path) else config
    settings: Mapping[str, Any] = read_project(project) if project else {}
    if settings.get("quantize"):
        msg = f"smoke-test builds no packed weights (quantize = {settings['quantize']}); zeroconf estimate counts them"
        raise InputError(msg)
    spec, model = model_of_job(model, params, project)
    of_job = {} if spec is TINY else settings
    if activation_checkpointing is None:
        activation_checkpointing = of_job.get("activation_checkpointing") == "full"
    lora_rank = (of_job.get("lora_rank") or 0) if lora_rank is None else lora_rank
    target = target_of(hardware or settings.get("hardware"), world_size) if dry_run else None
    has_card = target is not None and target.gpu.name != processors(1).gpu.name
    hosts = None if dry_run else find_hosts(launcher, hostfile, num_processes)
    if hosts and world_size is not None:
        msg = "--world-size has no effect here: each rank of the hosts is started; leave it out, or the hosts"
        raise InputError(msg)
    if num_processes and world_size and world_size < num_processes and not dry_run:
        msg = f"--world-size {world_size} contradicts --num-gpus {num_processes}, which is the ranks to start; "
        msg += "a larger one is simulated; leave out one"
        raise InputError(msg)
    local = hosts.num_ranks if hosts else num_processes or num_local_gpus() or 1
    ranks = target.num_gpus if target else world_size or local
    mode: SmokeMode = "dry-run" if dry_run else "simulated" if ranks > local else "real"
    micro, accumulation = file.batch_split(file.data_parallel_size(ranks))
    job = SmokeJob(
        ds_config=file.content,
        architecture=asdict(spec) | {"config": model_source(model)},
        sequence_length=_smoke_sequence_length(spec, sequence_length or of_job.get("seq_len")),
        steps=steps or DEFAULT_STEPS[mode],
        micro_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        activation_checkpointing=activation_checkpointing,
        attention=attention or of_job.get("attention") or "sdpa",
        lora_rank=lora_rank,
        zero_init=zero_init and file.plan.zero_init,
        bf16=target is None or target.gpu.bf16,
        gpus_per_node=target.gpus_per_node if target and has_card else _NODE if ranks % _NODE == 0 else ranks,
        mode=mode,
        world_size=ranks,
    )
    run_options |= {"launcher": launcher, "hosts": hosts}
    return run_beside(job, file, spec, target or processors(ranks), **run_options)


def run_beside(job: SmokeJob, file: ConfigFile, spec: ModelSpec, cluster: Cluster, **run_options: Any) -> SmokeResult:
    """The job's run beside its prediction; a dry run's also beside the card, where one was named."""
    trainable = with_lora(spec, job.lora_rank) if job.lora_rank else None
    if job.mode != "dry-run" and not run_options.get("hosts"):
        run_options["processor_bytes"] = processor_bytes(job, file, spec, trainable)
    result = run_smoke_test(job, **run_options)
    ran = result.environment.get("ds_config")
    if isinstance(ran, dict):
        # every "auto" filled: what was really run
        file = parse_config(ran, file.path)
    result = fall_back(with_prediction(result, job, file, spec, cluster, trainable))
    if job.mode != "dry-run":
        return result
    return against_card(result, cluster if result.named_hardware else None)


def model_of_job(model: str | None, params: str | None, project: Path | None) -> tuple[ModelSpec, str]:
    """The model that the options, else the project file, name, and the name.

    Raises:
        InputError: none is named, it is not known, or its size is, and is not the one given.
    """
    given = {key: value for key, value in (("model", model), ("params", params)) if value is not None}
    settings: Mapping[str, Any] = beside(read_project(project) if project else {}, given)
    name = settings.get("model")
    if not name:
        msg = "--model is missing; give tiny, or the job's model, or set model in zeroconf.toml"
        raise InputError(msg)
    size = settings.get("params")
    return read_model(name, None if size is None else str(size)), name


# two steps show all there is: optimizer states live from the second on, and stage 3 prefetches in it
DEFAULT_STEPS: Final[dict[str, int]] = {"real": 3, "simulated": 3, "dry-run": 2}


def _smoke_sequence_length(spec: ModelSpec, asked: int | None) -> int:
    longest = _TINY_DEFAULT if spec is TINY else _LONGEST_DEFAULT
    length = asked or min(longest, spec.max_sequence_length or longest)
    check_positions(spec, length)
    return length


def check_positions(spec: ModelSpec, length: int) -> None:
    """Whether the model has so many positions; those that rotate, or are relative, end nowhere.

    Raises:
        InputError: it has an embedding for each, and not so many.
    """
    family = family_of(spec)
    if family.rotary or family.bias or spec.max_sequence_length is None or length <= spec.max_sequence_length:
        return
    positions = f"the {spec.max_sequence_length} positions of {spec.name}"
    msg = f"sequence length {length} is beyond {positions}; shorten --seq-len"
    raise InputError(msg)


def target_of(hardware: str | None, world_size: int | None) -> Cluster:
    """What a dry run is for: the cluster, or ranks without a card to compare with."""
    if hardware is None:
        if world_size is None:
            msg = "a dry run needs the number of ranks; give --world-size 8, or --hardware 8xA100-80GB"
            raise InputError(msg)
        return processors(world_size)
    read = read_hardware(hardware)
    if isinstance(read, Cluster):
        if world_size not in (None, read.num_gpus):
            msg = f"--world-size {world_size} contradicts {hardware}, which has {read.num_gpus} GPUs; leave out one"
            raise InputError(msg)
        return read
    if world_size is None:
        gpu = read.one.gpu.name
        msg = f"{gpu} has no count; give one, like 8x{gpu}, or --world-size"
        raise InputError(msg)
    nodes = f"{world_size // _NODE}x{_NODE}" if world_size % _NODE == 0 and world_size > _NODE else f"{world_size}"
    counted = read_hardware(f"{nodes}x{hardware}")
    return counted if isinstance(counted, Cluster) else processors(world_size)


def num_local_gpus() -> int:
    """NVIDIA devices that this machine shows under /dev."""
    return sum(1 for _ in Path("/dev").glob("nvidia[0-9]*"))
