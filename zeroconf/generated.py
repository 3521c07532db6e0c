"""What ``generate`` makes: the files of a decision, checked, and tried where that was asked for."""

from __future__ import annotations

import itertools
import json
import os
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.emit.accelerate import accelerate_yaml
from zeroconf.emit.base import changes
from zeroconf.emit.ds_config import to_json
from zeroconf.emit.kubernetes import ACCELERATE, DS_CONFIG, kubernetes_manifest
from zeroconf.emit.launch import hostfile, launch_commands, launch_script, scheduler_of, shell_word
from zeroconf.emit.notes import key_notes
from zeroconf.emit.script import script_notes
from zeroconf.errors import InputError, NoPlanFits, VerificationError
from zeroconf.inputs.project import read_project
from zeroconf.lint.generated import check_generated
from zeroconf.on_base import as_read, config_of_plan, settled, true_of
from zeroconf.plan.cures import decide_with_cures

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zeroconf.choices import Scheduler
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.smoke.planned import Verification
    from zeroconf.types import Candidate, Change, Decision, Facts, Plan

STDOUT: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A decision, the files' contents by path, launch commands by launcher, and the commands that try them.

    ``changes`` are those to a base file, ``verified`` what trying the configuration showed.
    """

    decision: Decision
    files: dict[str, str]
    commands: dict[str, str]
    smoke_test: str = ""
    dry_run: str = ""
    changes: tuple[Change, ...] = ()
    verified: str = ""


def generate(
    facts: Facts,
    *,
    output: str = "ds_config.json",
    accelerate: str | None = None,
    launch: str | None = None,
    scheduler: Scheduler | None = None,
    explain: bool = False,
    model: str | None = None,
    params: str | None = None,
    hardware: str | None = None,
    python: str | None = None,
    base: ConfigFile | None = None,
) -> Generated:
    """Chooses a plan and writes its files' contents (not the files).

    ``scheduler`` is what ``launch`` is for; None means Slurm on several nodes, and bash on one.
    ``base`` is a user's file, of which only what the plan decides is changed (the same as in ``load_facts``).
    ``model``, ``params``, ``hardware`` and ``python`` are what the user called them, for the commands that try the
    file; None takes the model's name, and leaves the others to the project file.

    Raises:
        NoPlanFits: nothing fits; the exception carries the candidates and cures.
        InputError: the batch cannot be split over the GPUs, or a path cannot be written into the files.
        OutputError: a file would fail the schema or the linter, which is a fault in zeroconf.
    """
    named = [os.path.abspath(path) for path in (output, accelerate, launch) if path not in (None, STDOUT)]  # noqa: PTH100
    if len(set(named)) < len(named):
        msg = "two outputs have the same name; give each file its own"
        raise InputError(msg)
    facts, as_kept, decision = settled(facts, base) if base else (facts, None, decide_with_cures(facts))
    if decision.chosen is None:
        msg = f"{facts.model.name} does not fit {facts.cluster.name} with any stage and offload that may be used"
        raise NoPlanFits(msg, decision)
    chosen = decision.chosen
    plan = chosen.plan
    explained = {reason.key for reason in decision.reasons}
    others = (note for note in key_notes(facts, plan) if note.key not in explained)
    notes = (*decision.notes, *script_notes(facts, plan))
    if facts.cluster.num_nodes > 1:
        line = hostfile(facts.cluster).splitlines()[0]
        notes = (*notes, f"the deepspeed launcher reads a hostfile with one line per node, like: {line}")
    if base is not None and facts.workload.precision == "fp32" and base.leaves_precision_open("trainer"):
        notes = (*notes, f"{base.path} has no precision block, which is fp32 to DeepSpeed; --precision bf16 adds one")
    if base is not None and base.has_comments:
        notes = (*notes, f"{base.path} has comments: what is written is JSON, without them")
    decision = replace(decision, reasons=(*decision.reasons, *others), notes=notes)
    written = config_of_plan(facts, plan, as_kept, decision.reasons, explain=explain)
    if base is not None:
        decision = replace(decision, reasons=true_of(written, facts, plan, decision.reasons))
    files = {output: to_json(written)}
    config = "ds_config.json" if output == STDOUT else output
    yaml_name = "accelerate.yaml" if accelerate == STDOUT else accelerate
    if accelerate is not None:
        files[accelerate] = accelerate_yaml(facts, plan, config)
    mounted: dict[str, str] = {}
    if launch is not None:
        files[launch], mounted = _launch_file(facts, chosen, written, launch, config, yaml_name, scheduler)
    kept = base.path if base else None
    warnings = [check_generated(path, files | mounted, *as_read(facts), base=kept) for path in files]
    saved_as = {output: config, accelerate: yaml_name}.get(STDOUT)
    unsaved = _unsaved_notes(saved_as, files, accelerate, None if mounted else launch) if saved_as else ()
    decision = replace(decision, notes=(*decision.notes, *itertools.chain(*warnings), *unsaved))
    commands = launch_commands(facts, plan, written, ds_config_path=config, accelerate_path=yaml_name)
    if launch not in (None, STDOUT):
        starter = {None: "bash", "slurm": "sbatch"}.get(scheduler_of(facts, scheduler), "kubectl apply -f")
        commands = {"script": f"{starter} {shell_word(str(launch))}", **commands}
    trial = _smoke_test_command(facts, plan, config, model or facts.model.name, params, python)
    fake = f"{trial} --dry-run" + (f" --hardware {shlex.quote(hardware)}" if hardware else "") if trial else ""
    return Generated(
        decision=decision,
        files=files,
        commands=commands,
        smoke_test=trial,
        dry_run=fake,
        changes=changes(base.content, written) if base else (),
    )


def _unsaved_notes(name: str, files: Mapping[str, str], *others: str | None) -> tuple[str, ...]:
    """What to do where other files name what went to standard output."""
    naming = [path for path in others if path not in (None, STDOUT) and name in files[path]]
    return (f"save standard output as {name}, the name in {' and '.join(naming) or 'the launch commands'}",)


def _launch_file(
    facts: Facts,
    chosen: Candidate,
    written: Mapping[str, Any],
    path: str,
    config: str,
    accelerate: str | None,
    scheduler: Scheduler | None,
) -> tuple[str, dict[str, str]]:
    """The launch script, or a manifest with what its pods mount: the configurations, and their script as ``path``."""
    plan = chosen.plan
    in_pods = scheduler in ("kubernetes", "jobset")
    if in_pods:
        config, accelerate = DS_CONFIG, ACCELERATE if accelerate else None
    script = launch_script(facts, plan, written, ds_config_path=config, accelerate_path=accelerate, scheduler=scheduler)
    if not in_pods:
        return script, {}
    mounted = {path: script, config: to_json(written)}
    if accelerate is not None:
        mounted[accelerate] = accelerate_yaml(facts, plan, config)
    manifest = kubernetes_manifest(
        facts,
        plan,
        chosen.estimate,
        launch=script,
        ds_config=mounted[config],
        accelerate=mounted.get(ACCELERATE),
        as_jobset=scheduler == "jobset",
    )
    return manifest, mounted


def verify(
    facts: Facts,
    made: Generated,
    *,
    output: str,
    how: Verification = "dry-run",
    model: str | None = None,
    project: Path | None = None,
    **run_options: Any,
) -> Generated:
    """The same with what a run of its configuration showed, which the file keeps under ``_zeroconf``.

    ``output`` is the configuration's name among the files, ``model`` what the user called the model, None for the
    nearest project file's from ``project`` upwards; ``run_options`` are those of
    ``zeroconf.smoke.launch.run_smoke_test``.

    Raises:
        VerificationError: it does not fit, or does not run.
        InputError: the workload has something that the run does not show, or its hardware is not here.
        SmokeTestError: the run could not start: a package is missing.
    """
    from zeroconf.smoke import planned  # noqa: PLC0415  (start-up: most plans are not tried)
    from zeroconf.smoke.words import verified_words  # noqa: PLC0415

    chosen = made.decision.chosen
    if chosen is None:
        msg = "nothing was chosen that could be verified"
        raise InputError(msg)
    content = json.loads(made.files[output])
    name = model or (read_project(project) if project else {}).get("model") or facts.model.name
    result = planned.try_plan(facts, chosen.plan, content, str(name), how=how, **run_options)
    if result.outcome != "fits":
        cure = f"; {result.cure}" if result.cure else ""
        what = "dry run" if how == "dry-run" else "smoke test"
        msg = f"the {what} of the chosen plan ends as {result.outcome}: {result.explanation}{cure}"
        raise VerificationError(msg)
    verified = verified_words(result)
    ours = content.get("_zeroconf", {}) | {"verified": verified}
    return replace(made, verified=verified, files=made.files | {output: to_json({**content, "_zeroconf": ours})})


def _smoke_test_command(
    facts: Facts, plan: Plan, config: str, model: str, params: str | None, python: str | None
) -> str:
    """The command that runs the file with the plan's shapes; what no file can say stands in its options.

    Empty for packed weights, which the smoke test does not build, and for a loss that it does not compute.
    """
    if facts.workload.quantize or facts.workload.cross_entropy != "torch":
        return ""
    words = ["zeroconf", "smoke-test", config, "--model", model]
    words += ["--params", params] if params else []
    words += ["--seq-len", str(facts.workload.sequence_length)]
    words += ["--activation-checkpointing", "full"] if plan.activation_checkpointing else []
    words += ["--attention", "eager"] if facts.workload.attention == "eager" else []
    words += ["--lora-rank", str(facts.workload.lora_rank)] if facts.workload.lora_rank else []
    words += ["--python", python] if python else []
    return shlex.join(words)
