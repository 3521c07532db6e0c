"""The library's face: facts in, decisions and measurements out. The command line is a thin reader of it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeroconf.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from zeroconf.detect.findings import Findings
    from zeroconf.detect.measured import Measured
    from zeroconf.generated import Generated
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.lint.run import Fixing, Report
    from zeroconf.lint.settings import Options
    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Cure, Decision, Estimate, Facts
    from zeroconf.until_fits import Proven


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
    """Facts from options and the nearest project file; as ``zeroconf.plan.facts.load_facts``."""
    from zeroconf.plan.facts import load_facts as load

    return load(options, project=project, base=base)


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
    """The same with the configuration tried; ``options`` are those of ``zeroconf.generated.verify``.

    Raises:
        VerificationError: it does not fit, or does not run.
        SmokeTestError: the run could not start.
    """
    from zeroconf.generated import verify as verify_plan

    return verify_plan(facts, made, **options)


def gpus_needed(facts: Facts) -> tuple[GpusNeeded, ...]:
    """Per stage the smallest number of GPUs that fits comfortably, for the facts of a GPU type without a count."""
    from zeroconf.plan import needed

    return needed.gpus_needed(facts)


def estimate(facts: Facts, config: Path | None = None) -> tuple[Facts, list[Estimate]]:
    """What a configuration costs, or without one the best plan of each stage (no offload, unless pinned).

    The facts come back as they were used: a file's precision, optimizer and batch take the place of the options.

    Raises:
        InputError: the file cannot be read, contradicts itself at this number of GPUs, or an option contradicts it.
    """
    if config is not None:
        from zeroconf.config_file import read_config
        from zeroconf.plan.choose import beyond_node
        from zeroconf.plan.of_file import FilePlan

        of_file = FilePlan(facts, read_config(config))
        facts, cost = of_file.facts, of_file.candidate.estimate
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


def report(
    facts: Facts,
    config: Path | None = None,
    *,
    given: Mapping[str, str | None] | None = None,
    on_progress: Callable[[float, str], None] | None = None,
) -> str:
    """The page of ``zeroconf report``: the decision, and what it would be for other numbers of GPUs and networks.

    With ``config`` the plan of that file stands beside, and its batch, precision and optimizer in the place of the
    options. ``given`` are options of the facts with their values, which commands in the page repeat; ``on_progress``
    takes the share that is done, and what comes next.

    Raises:
        InputError: the batch cannot be split over the GPUs, or as ``estimate``.
    """
    from zeroconf.plan import choose
    from zeroconf.plan.scenarios import scenarios
    from zeroconf.render.report.data import Own
    from zeroconf.render.report.page import report_html

    own = None
    if config is not None:
        from zeroconf.config_file import read_config
        from zeroconf.plan.of_file import FilePlan

        of_file = FilePlan(facts, read_config(config))
        own = Own(config.name, of_file.candidate, of_file.facts)
        facts = of_file.free_facts
    decision, others = decide(facts), scenarios(facts)
    decisions = []
    for index, other in enumerate(others):
        if on_progress:
            on_progress(index / len(others), counted(other.cluster.num_gpus, "GPU"))
        decisions.append(decision if other == facts else choose.decide(other))
    return report_html(decision, decisions, own, given or {})


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


def until_fits(config: Path, **options: Any) -> Proven:
    """Smoke tests of a configuration and of the next ones, until one fits; bounded.

    ``options`` and errors are those of ``zeroconf.until_fits.until_fits``.
    """
    from zeroconf import until_fits as tries

    return tries.until_fits(config, **options)


def smoke_test_program(script: Path, arguments: Sequence[str] = (), **options: Any) -> SmokeResult:
    """Runs a user's own program until DeepSpeed has done a few optimizer steps, measured from outside.

    ``options`` and errors are those of ``zeroconf.smoke.program.smoke_test_program``.
    """
    from zeroconf.smoke import program

    return program.smoke_test_program(script, arguments, **options)


def detect(*, hostfile: str | None = None, measured: Measured | None = None) -> Findings:
    """What hardware and network is here: an inventory with the source of each value, and what is not known.

    ``measured`` is what ``zeroconf.detect.measure.measure`` gave.

    Raises:
        InputError: the hostfile cannot be read.
    """
    from zeroconf.detect.inventory import detect as probe
    from zeroconf.detect.machine import this_machine

    return probe(this_machine(), hostfile=hostfile, measured=measured)
