"""The library's face: facts in, decisions and measurements out. The command line is a thin reader of it."""

from __future__ import annotations

import itertools
import os
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zeroconf.errors import InputError, NoPlanFits
from zeroconf.types import Cluster, Facts, Gpu, ModelSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.choices import Attention, Reader
    from zeroconf.lint.run import Fixing, Report
    from zeroconf.lint.settings import Options
    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.types import Decision, Estimate, Plan, SmokeMode, SmokeResult

STDOUT: Final = "-"


def load_facts(options: Mapping[str, Any], *, project: Path | None = None) -> tuple[Facts, bool]:
    """Facts from options, completed by the nearest project file; whether a number of GPUs was given.

    ``options`` holds the command line's names with underscores; None means not given. ``project`` is the
    folder to search from, None for no project file. A GPU type without a count becomes a cluster of one.

    Raises:
        InputError: something is missing, unknown, or contradicts.
    """
    from zeroconf.inputs.cluster import read_cluster
    from zeroconf.inputs.model import read_model
    from zeroconf.inputs.project import read_project
    from zeroconf.inputs.versions import read_versions
    from zeroconf.inputs.workload import make_workload

    given = {key: value for key, value in options.items() if value is not None}
    settings = {**(read_project(project) if project else {}), **given}
    model = read_model(_required(settings, "model", "a name like llama-3.1-8b, a size like 7B, or a config.json"))
    hardware = read_cluster(
        _required(settings, "hardware", "for example 8xA100-80GB or p4d.24xlarge"),
        **{key: settings.get(key) for key in ("network", "intra_node", "host_memory", "nvme")},
    )
    wanted = {key: settings.get(key) for key in WORKLOAD_OPTIONS}
    workload = make_workload(model, hardware, **wanted)
    versions = read_versions(*(settings.get(key) for key in ("deepspeed_version", "accelerate_version", "python")))
    reader: Reader = settings.get("reader", settings.get("for", "trainer"))
    counted = isinstance(hardware, Cluster)
    cluster = hardware if isinstance(hardware, Cluster) else single_gpu(hardware)
    return Facts(model=model, cluster=cluster, workload=workload, reader=reader, versions=versions), counted


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
    "lora_rank",
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


def single_gpu(gpu: Gpu) -> Cluster:
    """A cluster of one GPU."""
    return Cluster(name=gpu.name, num_nodes=1, gpus_per_node=1, gpu=gpu, intra_node=gpu.intra_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A decision, the files' contents by path, launch commands by launcher, and the smoke test that fits them."""

    decision: Decision
    files: dict[str, str]
    commands: dict[str, str]
    smoke_test: str = ""


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
) -> Generated:
    """Chooses a plan and writes its files' contents (not the files).

    ``model`` is what the user called the model, for the command that tries the file; None takes its name.

    Raises:
        NoPlanFits: nothing fits; the exception carries the candidates and cures.
        InputError: the batch cannot be split over the GPUs.
        OutputError: a file would fail the schema or the linter, which is a fault in zeroconf.
    """
    from zeroconf.emit.accelerate import accelerate_yaml
    from zeroconf.emit.ds_config import ds_config, to_json
    from zeroconf.emit.launch import hostfile, launch_commands, launch_script
    from zeroconf.emit.notes import key_notes

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
    notes = decision.notes
    if facts.cluster.num_nodes > 1:
        line = hostfile(facts.cluster).splitlines()[0]
        notes = (*notes, f"the deepspeed launcher reads a hostfile with one line per node, like: {line}")
    decision = replace(decision, reasons=(*decision.reasons, *others), notes=notes)
    files = {output: to_json(ds_config(facts, plan, decision.reasons, explain=explain))}
    config = "ds_config.json" if output == STDOUT else output
    if accelerate is not None:
        files[accelerate] = accelerate_yaml(facts, plan, config)
    warnings = (_check_output(facts, path, text) for path, text in files.items())
    decision = replace(decision, notes=(*decision.notes, *itertools.chain(*warnings)))
    if launch is not None:
        files[launch] = launch_script(facts, plan, ds_config_path=config, accelerate_path=accelerate)
    commands = launch_commands(facts, plan, ds_config_path=config, accelerate_path=accelerate)
    trial = _smoke_test_command(facts, plan, config, model or facts.model.name)
    return Generated(decision=decision, files=files, commands=commands, smoke_test=trial)


def _check_output(facts: Facts, path: str, text: str) -> tuple[str, ...]:
    from zeroconf.keys import Releases
    from zeroconf.lint.generated import check_generated
    from zeroconf.rules.facts import Reader

    releases = Releases(facts.versions.deepspeed, facts.versions.accelerate, stated=True)
    return check_generated(path, text, Reader(facts.reader, stated=True), releases)


def _smoke_test_command(facts: Facts, plan: Plan, config: str, model: str) -> str:
    """The command that runs the file with the plan's shapes; what no file can say stands in its options."""
    words = ["zeroconf", "smoke-test", config, "--model", model]
    words += ["--seq-len", str(facts.workload.sequence_length)]
    words += ["--activation-checkpointing", "full"] if plan.activation_checkpointing else []
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


def _cost(facts: Facts, plan: Plan) -> Estimate:
    from zeroconf.estimate.estimate import estimate as cost_of

    return cost_of(facts.model, facts.cluster, facts.workload, plan)


def _facts_of_file(facts: Facts, config: Path) -> tuple[Facts, Plan]:
    """The file's plan, and the facts with what the file says in the place of options."""
    from zeroconf.inputs.ds_config import read_config

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


_LONGEST_DEFAULT: Final = 4096
_TINY_DEFAULT: Final = 128
# the smallest Llama that still shows every part: for trying a launcher, not a job
TINY: Final = ModelSpec(
    name="tiny",
    architecture="llama",
    num_parameters=1_066_112,
    num_active_parameters=1_066_112,
    num_layers=4,
    hidden_size=128,
    intermediate_size=352,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=32,
    vocab_size=1024,
    tied_embeddings=False,
    max_sequence_length=4096,
    source="zeroconf's own test shape",
)


def smoke_test(
    config: Path,
    *,
    model: str | None = None,
    hardware: str | None = None,
    sequence_length: int | None = None,
    steps: int | None = None,
    num_processes: int | None = None,
    world_size: int | None = None,
    dry_run: bool = False,
    project: Path | None = None,
    activation_checkpointing: bool = False,
    attention: Attention = "sdpa",
    lora_rank: int = 0,
    zero_init: bool = True,
    **run_options: Any,
) -> SmokeResult:
    """Trains a configuration for a few steps with random weights; measured beside predicted.

    ``model`` is what ``generate`` takes, or ``tiny``; None takes the project file's. ``sequence_length`` None is
    the model's maximum, at most 4096 (128 for ``tiny``); ``num_processes`` None is one per GPU of this machine, one
    without any. ``world_size`` beyond them makes one process stand for rank 0 of so many; with ``dry_run`` on fake
    tensors, on one GPU of ``hardware``, whose number of GPUs is the world size where none is given.
    ``run_options`` are those of ``zeroconf.smoke.launch.run_smoke_test``.

    Raises:
        InputError: the configuration, the model or the hardware cannot be read, or they contradict each other.
        SmokeTestError: it could not start: a package or launcher is missing.
    """
    from zeroconf.inputs.ds_config import parse_config, read_config
    from zeroconf.inputs.lora import with_lora
    from zeroconf.inputs.model import model_path, read_model
    from zeroconf.inputs.project import read_project
    from zeroconf.smoke.job import SmokeJob
    from zeroconf.smoke.launch import run_smoke_test
    from zeroconf.smoke.predict import against_card, fall_back, processors, with_prediction

    file = read_config(config)
    settings: Mapping[str, Any] = read_project(project) if project else {}
    model = model or _required(settings, "model", "tiny, or the job's model")
    spec = TINY if model == TINY.name else read_model(model)
    target = _target(hardware or settings.get("hardware"), world_size) if dry_run else None
    local = num_processes or num_local_gpus() or 1
    ranks = target.num_gpus if target else world_size or local
    mode: SmokeMode = "dry-run" if dry_run else "simulated" if ranks > local else "real"
    micro, accumulation = file.batch_split(ranks)
    job = SmokeJob(
        ds_config=file.content,
        architecture=(None if spec is TINY else model_path(model)) or asdict(spec),
        sequence_length=_smoke_sequence_length(spec, sequence_length),
        steps=steps or _DEFAULT_STEPS[mode],
        micro_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        activation_checkpointing=activation_checkpointing,
        attention=attention,
        lora_rank=lora_rank,
        zero_init=zero_init,
        mode=mode,
        world_size=ranks,
    )
    trainable = with_lora(spec, lora_rank) if lora_rank else None
    result = run_smoke_test(job, **run_options)
    ran = result.environment.get("ds_config")
    if isinstance(ran, dict):
        # every "auto" filled: what was really run
        file = parse_config(ran, file.path)
    result = fall_back(with_prediction(result, job, file, spec, target or processors(ranks), trainable))
    return against_card(result, target.gpu) if target and target.gpu.name != processors(1).gpu.name else result


# two steps show all there is: optimizer states live from the second on, and stage 3 prefetches in it
_DEFAULT_STEPS: Final[dict[str, int]] = {"real": 3, "simulated": 3, "dry-run": 2}


def _smoke_sequence_length(spec: ModelSpec, asked: int | None) -> int:
    longest = _TINY_DEFAULT if spec is TINY else _LONGEST_DEFAULT
    length = asked or min(longest, spec.max_sequence_length or longest)
    if spec.max_sequence_length is not None and length > spec.max_sequence_length:
        positions = f"the {spec.max_sequence_length} positions of {spec.name}"
        msg = f"sequence length {length} is beyond {positions}; shorten --seq-len"
        raise InputError(msg)
    return length


def _target(hardware: str | None, world_size: int | None) -> Cluster:
    """What a dry run is for: the cluster, or ranks without a card to compare with."""
    from zeroconf.inputs.cluster import read_cluster
    from zeroconf.smoke.predict import processors

    if hardware is None:
        if world_size is None:
            msg = "a dry run needs the number of ranks; give --world-size 8, or --hardware 8xA100-80GB"
            raise InputError(msg)
        return processors(world_size)
    read = read_cluster(hardware)
    if isinstance(read, Cluster):
        if world_size not in (None, read.num_gpus):
            msg = f"--world-size {world_size} contradicts {hardware}, which has {read.num_gpus} GPUs; leave out one"
            raise InputError(msg)
        return read
    if world_size is None:
        msg = f"{read.name} has no count; give one, like 8x{read.name}, or --world-size"
        raise InputError(msg)
    return replace(single_gpu(read), gpus_per_node=world_size)


def num_local_gpus() -> int:
    """NVIDIA devices that this machine shows under /dev."""
    return sum(1 for _ in Path("/dev").glob("nvidia[0-9]*"))
