"""Options, completed by a project file, as the facts that a decision rests on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeroconf.detect.auto import read_hardware
from zeroconf.errors import InputError
from zeroconf.estimate.families import possible_attention
from zeroconf.inputs.base import base_options, with_nvme_path
from zeroconf.inputs.model import read_model
from zeroconf.inputs.project import beside, read_project
from zeroconf.inputs.versions import read_versions
from zeroconf.inputs.workload import make_workload
from zeroconf.types import Cluster, Facts, GpuType, Versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.choices import Reader
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import ModelSpec, Workload

WORKLOAD_OPTIONS: Final = (
    "seq_len",
    "micro_batch_size",
    "global_batch_size",
    "gradient_accumulation",
    "precision",
    "optimizer",
    "client_optimizer",
    "activation_checkpointing",
    "attention",
    "cross_entropy",
    "lora_rank",
    "quantize",
    "trainable_params",
    "frozen_params",
    "zero_stage",
    "offload",
    "headroom",
)
_LINKS_AND_STORAGE: Final = ("network", "intra_node", "host_memory", "nvme")


def load_facts(
    options: Mapping[str, Any], *, project: Path | None = None, base: ConfigFile | None = None
) -> tuple[Facts, bool]:
    """Facts from options, completed by the nearest project file; whether a number of GPUs was given.

    ``options`` holds the command line's names with underscores; None means not given. ``project`` is the
    folder to search from, None for no project file. ``base`` is a user's file: its precision, optimizer and global
    batch stand in for options. A GPU type without a count becomes a cluster of one.

    Raises:
        InputError: something is missing, unknown, or contradicts.
    """
    given = {key: value for key, value in options.items() if value is not None}
    settings = beside(read_project(project) if project else {}, given)
    _require(settings, "model", "a name like llama-3.1-8b, a size like 7B, or a config.json")
    model = model_of(settings)
    _require(settings, "hardware", "for example 8xA100-80GB or p4d.24xlarge")
    hardware = hardware_of(settings)
    versions = read_versions(*(settings.get(key) for key in ("deepspeed_version", "accelerate_version", "python")))
    return complete(model, hardware, settings, versions, base=base), isinstance(hardware, Cluster)


def model_of(settings: Mapping[str, Any]) -> ModelSpec:
    """The model that options, or a project file, name.

    Raises:
        InputError: it is not known.
    """
    return read_model(str(settings["model"]), _text(settings.get("params")))


def hardware_of(settings: Mapping[str, Any]) -> Cluster | GpuType:
    """The cluster, or the GPU type without a count, that options or a project file name.

    Raises:
        InputError: it is not understood.
    """
    return read_hardware(str(settings["hardware"]), **{key: settings.get(key) for key in _LINKS_AND_STORAGE})


def complete(
    model: ModelSpec,
    hardware: Cluster | GpuType,
    settings: Mapping[str, Any],
    versions: Versions,
    *,
    base: ConfigFile | None = None,
) -> Facts:
    """The facts with the workload that the options ask for.

    Raises:
        InputError: a value is out of range, or contradicts another.
    """
    reader: Reader = settings.get("reader", settings.get("for", "trainer"))
    wanted: dict[str, Any] = {key: settings.get(key) for key in WORKLOAD_OPTIONS}
    cluster = hardware if isinstance(hardware, Cluster) else hardware.one
    if base is not None:
        if isinstance(hardware, GpuType):
            msg = f"without a number of GPUs nothing of a base file is changed; give one, like 8x{cluster.gpu.name}"
            raise InputError(msg)
        wanted = base_options(base, wanted, cluster.num_gpus, reader)
    workload = _attended(model, make_workload(model, hardware, **wanted))
    given_plan = base.plan if base else None
    if base is not None and settings.get("nvme") is None:
        cluster = with_nvme_path(cluster, base)
    asked = frozenset(key for key, value in wanted.items() if value is not None and value is not False)
    facts = Facts(model=model, cluster=cluster, workload=workload, reader=reader, versions=versions)
    facts = replace(facts, given=given_plan, asked=asked)
    if not settings.get("calibrate"):
        return facts
    from zeroconf.plan.calibrate import calibrated  # noqa: PLC0415  (for this option only)

    return calibrated(facts, Path(str(settings["calibrate"])))


def _attended(model: ModelSpec, workload: Workload) -> Workload:
    """The workload with the attention that the model's class has, which is said where it is not the one asked for."""
    has = possible_attention(model, workload.attention)
    if has == workload.attention:
        return workload
    note = f"attention {has}: Transformers' {model.architecture} has no {workload.attention} attention"
    others = [text for text in workload.assumptions if not text.startswith("attention ")]
    return replace(workload, attention=has, assumptions=(*others, note))


def _require(settings: Mapping[str, Any], name: str, example: str) -> None:
    if not settings.get(name):
        msg = f"--{name} is missing; give {example}, or set {name} in zeroconf.toml"
        raise InputError(msg)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
