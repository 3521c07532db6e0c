"""The library's face: facts in, decisions and measurements out. The command line is a thin reader of it."""

from __future__ import annotations

import itertools
import os
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.errors import InputError, NoPlanFits
from zeroconf.types import Cluster, Facts, Gpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from zeroconf.choices import Reader
    from zeroconf.detect.findings import Findings
    from zeroconf.detect.measured import Measured
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.keys import Releases
    from zeroconf.lint.run import Fixing, Report
    from zeroconf.lint.settings import Options
    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.rules.facts import Reader as ReadBy
    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Change, Cure, Decision, Estimate, Plan, Reason

STDOUT: Final = "-"


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
    from zeroconf.inputs.base import base_options
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
    wanted = {key: settings.get(key) for key in WORKLOAD_OPTIONS}
    if base is not None:
        wanted = base_options(base, wanted, hardware.num_gpus if isinstance(hardware, Cluster) else 1)
    workload = make_workload(model, hardware, **wanted)
    versions = read_versions(*(settings.get(key) for key in ("deepspeed_version", "accelerate_version", "python")))
    reader: Reader = settings.get("reader", settings.get("for", "trainer"))
    counted = isinstance(hardware, Cluster)
    cluster = hardware if isinstance(hardware, Cluster) else single_gpu(hardware)
    facts = Facts(model=model, cluster=cluster, workload=workload, reader=reader, versions=versions)
    return replace(facts, given=base.plan if base else None), counted


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A decision, the files' contents by path, launch commands by launcher, and the commands that try them.

    ``changes`` are those to a base file.
    """

    decision: Decision
    files: dict[str, str]
    commands: dict[str, str]
    smoke_test: str = ""
    dry_run: str = ""
    changes: tuple[Change, ...] = ()


def decide(facts: Facts) -> Decision:
    """The search's outcome, with cures when nothing fits."""
    from zeroconf.plan import choose, cures

    decision = choose.decide(facts)
    if decision.chosen is None:
        return replace(decision, cures=cures.find_cures(decision))
    return replace(decision, notes=(*decision.notes, *choose.cost_of_pins(decision)))


def generate(
    facts: Facts,
    *,
    output: str = "ds_config.json",
    accelerate: str | None = None,
    launch: str | None = None,
    explain: bool = False,
    model: str | None = None,
    params: str | None = None,
    hardware: str | None = None,
    base: ConfigFile | None = None,
) -> Generated:
    """Chooses a plan and writes its files' contents (not the files).

    ``base`` is a user's file, of which only what the plan decides is changed (the same as in ``load_facts``).
    ``model``, ``params`` and ``hardware`` are what the user called them, for the commands that try the file; None takes
    the model's name, and leaves the others to the project file.

    Raises:
        NoPlanFits: nothing fits; the exception carries the candidates and cures.
        InputError: the batch cannot be split over the GPUs.
        OutputError: a file would fail the schema or the linter, which is a fault in zeroconf.
    """
    from zeroconf.emit.accelerate import accelerate_yaml
    from zeroconf.emit.base import changes
    from zeroconf.emit.ds_config import to_json
    from zeroconf.emit.launch import hostfile, launch_commands, launch_script
    from zeroconf.emit.notes import key_notes, leaves
    from zeroconf.emit.script import script_notes
    from zeroconf.lint.generated import check_generated

    named = [os.path.abspath(path) for path in (output, accelerate, launch) if path not in (None, STDOUT)]  # noqa: PTH100
    if len(set(named)) < len(named):
        msg = "two outputs have the same name; give each file its own"
        raise InputError(msg)
    decision = decide(facts)
    if decision.chosen is None:
        msg = f"{facts.model.name} does not fit {facts.cluster.name} with any stage and offload that may be used"
        raise NoPlanFits(msg, decision)
    plan = decision.chosen.plan
    explained = {reason.key for reason in decision.reasons}
    others = (note for note in key_notes(facts, plan) if note.key not in explained)
    notes = (*decision.notes, *script_notes(facts, plan))
    if facts.cluster.num_nodes > 1:
        line = hostfile(facts.cluster).splitlines()[0]
        notes = (*notes, f"the deepspeed launcher reads a hostfile with one line per node, like: {line}")
    decision = replace(decision, reasons=(*decision.reasons, *others), notes=notes)
    written = _ds_config(facts, plan, decision.reasons, base, explain=explain)
    if base is not None:
        own = leaves(written)
        kept_out = [reason for reason in decision.reasons if own.get(reason.key, reason.value) == reason.value]
        decision = replace(decision, reasons=tuple(kept_out))
    files = {output: to_json(written)}
    config = "ds_config.json" if output == STDOUT else output
    if accelerate is not None:
        files[accelerate] = accelerate_yaml(facts, plan, config)
    kept = base.path if base else None
    warnings = [check_generated(path, text, *_as_read(facts), base=kept) for path, text in files.items()]
    decision = replace(decision, notes=(*decision.notes, *itertools.chain(*warnings)))
    if launch is not None:
        files[launch] = launch_script(facts, plan, ds_config_path=config, accelerate_path=accelerate)
    commands = launch_commands(facts, plan, ds_config_path=config, accelerate_path=accelerate)
    trial = _smoke_test_command(facts, plan, config, model or facts.model.name, params)
    dry_run = f"{trial} --dry-run" + (f" --hardware {shlex.quote(hardware)}" if hardware else "") if trial else ""
    return Generated(
        decision=decision,
        files=files,
        commands=commands,
        smoke_test=trial,
        dry_run=dry_run,
        changes=changes(base.content, written) if base else (),
    )


def _ds_config(
    facts: Facts, plan: Plan, reasons: Sequence[Reason], base: ConfigFile | None, *, explain: bool
) -> dict[str, Any]:
    """The configuration of a plan, put into a base file where there is one."""
    from zeroconf.emit.answers import answers
    from zeroconf.emit.base import merged
    from zeroconf.emit.ds_config import ds_config, to_json
    from zeroconf.lint.generated import rules_broken

    plain = ds_config(facts, plan)
    draws = rules_broken(to_json(merged(base.content, plain) if base else plain), *_as_read(facts))
    ignore = {code: reason for code, reason in answers(facts).items() if code in draws}
    ours = ds_config(facts, plan, reasons, explain=explain, ignore=ignore)
    return merged(base.content, ours) if base else ours


def _as_read(facts: Facts) -> tuple[ReadBy, Releases]:
    """Who reads the files, and with which releases."""
    from zeroconf.keys import Releases
    from zeroconf.rules.facts import Reader as ReadBy

    releases = Releases(facts.versions.deepspeed, facts.versions.accelerate, stated=True)
    return ReadBy(facts.reader, stated=True), releases


def _smoke_test_command(facts: Facts, plan: Plan, config: str, model: str, params: str | None) -> str:
    """The command that runs the file with the plan's shapes; what no file can say stands in its options.

    Empty for packed weights, which the smoke test does not build.
    """
    if facts.workload.quantize:
        return ""
    words = ["zeroconf", "smoke-test", config, "--model", model]
    words += ["--params", params] if params else []
    words += ["--seq-len", str(facts.workload.sequence_length)]
    words += ["--activation-checkpointing", "full"] if plan.activation_checkpointing else []
    words += ["--attention", "eager"] if facts.workload.attention == "eager" else []
    words += ["--lora-rank", str(facts.workload.lora_rank)] if facts.workload.lora_rank else []
    return shlex.join(words)


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
        facts, plan = _facts_of_file(facts, config)
        return facts, [_cost(facts, plan)]
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
    from zeroconf.inputs.workload import check_bitsandbytes

    file = read_config(config)
    workload, num_gpus = facts.workload, facts.cluster.num_gpus
    micro, steps = file.batch_split(num_gpus, workload.micro_batch_size, workload.gradient_accumulation_steps)
    plan = replace(file.plan, micro_batch_size=micro, gradient_accumulation_steps=steps)
    if num_gpus % plan.zero_hpz_partition_size:
        msg = f"{config}: zero_hpz_partition_size {plan.zero_hpz_partition_size} does not divide {num_gpus} GPUs"
        raise InputError(msg)
    for option, asked, said in (
        ("--zero-stage", workload.zero_stage, plan.stage),
        ("--offload", workload.offload, plan.offload),
    ):
        if asked not in (None, said):
            msg = f"{option} {asked} contradicts {config}, which says {said}; leave the option out"
            raise InputError(msg)
    notes = [f"not modelled, so not in these figures: {', '.join(file.not_modelled)}"] if file.not_modelled else []
    facts = replace(
        facts,
        workload=replace(
            workload,
            global_batch_size=micro * steps * num_gpus,
            precision=file.precision or workload.precision,
            optimizer=file.optimizer or workload.optimizer,
        ),
    )
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
