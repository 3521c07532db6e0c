"""The library's face: facts in, decisions and measurements out. The command line is a thin reader of it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.errors import InputError
from zeroconf.types import Cluster, Facts, Gpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from zeroconf.choices import Reader
    from zeroconf.detect.findings import Findings
    from zeroconf.detect.measured import Measured
    from zeroconf.generated import Generated
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.lint.run import Fixing, Report
    from zeroconf.lint.settings import Options
    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Cure, Decision, Estimate, Plan


def read_base(path: Path) -> ConfigFile:
    """A user's ds_config.json for ``load_facts`` and ``generate``.

    Raises:
        InputError: it cannot be read, or is another kind of file.
    """
    from zeroconf.config_file import read_base as read

    return read(path)


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
    from zeroconf.detect.auto import read_hardware
    from zeroconf.inputs.base import base_options, with_nvme_path
    from zeroconf.inputs.model import read_model
    from zeroconf.inputs.project import read_project
    from zeroconf.inputs.versions import read_versions
    from zeroconf.inputs.workload import make_workload

    given = {key: value for key, value in options.items() if value is not None}
    settings = {**(read_project(project) if project else {}), **given}
    named = _required(settings, "model", "a name like llama-3.1-8b, a size like 7B, or a config.json")
    model = read_model(named, _text(settings.get("params")))
    hardware = read_hardware(
        _required(settings, "hardware", "for example 8xA100-80GB or p4d.24xlarge"),
        **{key: settings.get(key) for key in ("network", "intra_node", "host_memory", "nvme")},
    )
    reader: Reader = settings.get("reader", settings.get("for", "trainer"))
    wanted: dict[str, Any] = {key: settings.get(key) for key in WORKLOAD_OPTIONS}
    if base is not None:
        wanted = base_options(base, wanted, hardware.num_gpus if isinstance(hardware, Cluster) else 1, reader)
    workload = make_workload(model, hardware, **wanted)
    versions = read_versions(*(settings.get(key) for key in ("deepspeed_version", "accelerate_version", "python")))
    counted = isinstance(hardware, Cluster)
    cluster = hardware if isinstance(hardware, Cluster) else single_gpu(hardware)
    given_plan = base.plan if base else None
    if base is not None and settings.get("nvme") is None:
        cluster = with_nvme_path(cluster, base)
    asked = frozenset(key for key, value in wanted.items() if value is not None and value is not False)
    facts = Facts(model=model, cluster=cluster, workload=workload, reader=reader, versions=versions)
    return replace(facts, given=given_plan, asked=asked), counted


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


def _required(settings: Mapping[str, Any], name: str, example: str) -> str:
    value = settings.get(name)
    if not value:
        msg = f"--{name} is missing; give {example}, or set {name} in zeroconf.toml"
        raise InputError(msg)
    return str(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def single_gpu(gpu: Gpu) -> Cluster:
    """A cluster of one GPU."""
    return Cluster(name=gpu.name, num_nodes=1, gpus_per_node=1, gpu=gpu, intra_node=gpu.intra_node)


def decide(facts: Facts) -> Decision:
    """The search's outcome, with cures when nothing fits."""
    from zeroconf.plan.cures import decide_with_cures

    return decide_with_cures(facts)


def generate(facts: Facts, **options: Any) -> Generated:
    """Chooses a plan and makes its files' contents (not the files).

    ``options`` and errors are those of ``zeroconf.generated.generate``.
    """
    from zeroconf.generated import generate as make

    return make(facts, **options)


def verify(facts: Facts, made: Generated, **options: Any) -> Generated:
    """The same with the configuration tried in a dry run; ``options`` are those of ``zeroconf.generated.verify``.

    Raises:
        VerificationError: it does not fit, or does not run.
        SmokeTestError: the dry run could not start.
    """
    from zeroconf.generated import verify as dry_run

    return dry_run(facts, made, **options)


def gpus_needed(facts: Facts, network: str | None = None) -> tuple[GpusNeeded, ...]:
    """Per stage the smallest number of GPUs that fits comfortably; ``facts.cluster`` is one GPU.

    ``network`` joins nodes of 8; None assumes what ``--hardware`` with several nodes assumes.
    """
    from zeroconf.inputs.links import ASSUMED_NETWORK, read_network
    from zeroconf.plan import needed

    link, _ = read_network(network or ASSUMED_NETWORK)
    return needed.gpus_needed(facts, link)


def estimate(facts: Facts, config: Path | None = None) -> tuple[Facts, list[Estimate]]:
    """What a configuration costs, or without one the best plan of each stage (no offload, unless pinned).

    The facts come back as they were used: a file's precision, optimizer and batch take the place of the options.

    Raises:
        InputError: the file cannot be read, contradicts itself at this number of GPUs, or an option contradicts it.
    """
    if config is not None:
        from zeroconf.plan.choose import beyond_node

        facts, plan = _facts_of_file(facts, config)
        cost = _cost(facts, plan)
        if beyond := beyond_node(facts, cost):
            notes = (f"the card holds the plan, its node does not: it {beyond}", *facts.workload.assumptions)
            facts = replace(facts, workload=replace(facts.workload, assumptions=notes))
        return facts, [cost]
    from zeroconf.plan import choose
    from zeroconf.plan.candidates import offloads

    workload = replace(facts.workload, offload=facts.workload.offload or "none")
    stages = [stage for stage in range(4) if workload.zero_stage in (None, stage)]
    stages = [stage for stage in stages if offloads(facts.cluster, workload, stage)]
    pinned = (replace(facts, workload=replace(workload, zero_stage=stage)) for stage in stages)
    return facts, [choose.decide(one).candidates[0].estimate for one in pinned]


def estimate_cures(facts: Facts, estimates: Sequence[Estimate], *, one: bool) -> tuple[Cure, ...]:
    """What would help when none of the estimates fits: ``one`` plan as given, or the search over all."""
    from zeroconf.plan import cures

    if any(cost.verdict != "does-not-fit" for cost in estimates):
        return ()
    return cures.cures_of_plan(facts, estimates[0]) if one else decide(facts).cures


def _cost(facts: Facts, plan: Plan) -> Estimate:
    from zeroconf.estimate.estimate import estimate as cost_of

    return cost_of(facts.model, facts.cluster, facts.workload, plan, facts.versions)


def _facts_of_file(facts: Facts, config: Path) -> tuple[Facts, Plan]:
    """The file's plan, and the facts with what the file says in the place of options."""
    from zeroconf.config_file import read_config
    from zeroconf.inputs.agreed import BATCH_OPTIONS, workload_of_file
    from zeroconf.inputs.workload import check_bitsandbytes

    file = read_config(config)
    num_gpus = facts.cluster.num_gpus
    if num_gpus % file.plan.zero_hpz_partition_size:
        msg = f"{config}: zero_hpz_partition_size {file.plan.zero_hpz_partition_size} does not divide {num_gpus} GPUs"
        raise InputError(msg)
    workload, plan = workload_of_file(file, facts.workload, facts.asked, num_gpus, facts.reader)
    facts = replace(facts, workload=workload)
    notes = [f"not modelled, so not in these figures: {', '.join(file.not_modelled)}"] if file.not_modelled else []
    if None in (file.micro_batch_size, file.gradient_accumulation_steps) and not BATCH_OPTIONS & facts.asked:
        split = f"micro batch {plan.micro_batch_size} x accumulation {plan.gradient_accumulation_steps}"
        notes.append(f"{split}, where the file leaves it open; --micro-batch-size and --gradient-accumulation say it")
    check_bitsandbytes(facts.workload, plan.offload, f"{config}")
    recompute = workload.activation_checkpointing == "full"
    if workload.activation_checkpointing == "auto" and _cost(facts, plan).verdict != "comfortable":
        recompute = True
        notes.append(
            "activation checkpointing is assumed, since without it the plan is not comfortable; the file cannot say: "
            "--activation-checkpointing none or full does"
        )
    facts = replace(facts, workload=replace(facts.workload, assumptions=tuple(notes)))
    return facts, replace(plan, activation_checkpointing=recompute)


def lint(paths: Sequence[str | Path], options: Options | None = None, *, fixing: Fixing = "none") -> Report:
    """Lints files and folders; ``options`` are the command line's, over those of the nearest project file.

    With ``fixing`` "safe" or "unsafe" the report's findings are those that would remain, and its ``changes`` hold the
    fixed texts; no file is written.

    Raises:
        InputError: an option, a project file or the baseline cannot be used.
    """
    from zeroconf.lint.run import lint_files
    from zeroconf.lint.settings import Options

    return lint_files([os.fspath(path) for path in paths], options or Options(), fixing=fixing)


def smoke_test(config: Path, **options: Any) -> SmokeResult:
    """Trains a configuration for a few steps with random weights, or on fake tensors; measured beside predicted.

    ``options`` and errors are those of ``zeroconf.smoke.trial.smoke_test``.
    """
    from zeroconf.smoke import trial

    return trial.smoke_test(config, **options)


def detect(*, hostfile: str | None = None, measured: Measured | None = None) -> Findings:
    """What hardware and network is here: an inventory with the source of each value, and what is not known.

    ``measured`` is what ``zeroconf.detect.measure.measure`` gave.

    Raises:
        InputError: the hostfile cannot be read.
    """
    from zeroconf.detect.inventory import detect as probe
    from zeroconf.detect.machine import this_machine

    return probe(this_machine(), hostfile=hostfile, measured=measured)
