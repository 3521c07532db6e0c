"""``smoke-test --until-fits``: after one that did not fit, the next configuration, until one does.

Where the card is known the next one is what ``generate`` would choose among what needs less than the last; else a rung
of the ladder (smoke/ladder.py). Nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeroconf.config_file import read_config
from zeroconf.detect.auto import read_hardware
from zeroconf.emit.ds_config import to_json
from zeroconf.errors import InputError
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.project import read_project
from zeroconf.on_base import config_of_plan
from zeroconf.plan.choose import first_choice
from zeroconf.plan.facts import complete
from zeroconf.plan.of_file import FilePlan, Words
from zeroconf.plan.search import search
from zeroconf.smoke import ladder, trial
from zeroconf.smoke.measured import Try
from zeroconf.smoke.predict import peak_bytes, versions_of
from zeroconf.smoke.words import verified_words
from zeroconf.types import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Estimate, Facts

MOST_TRIES: Final = 5
_TOO_MUCH: Final = frozenset({"does-not-fit", "oom", "host-oom"})
# less than this is the same plan, as far as a prediction can tell
_LIGHTER: Final = 0.99


class Proven(NamedTuple):
    """The last run with all that were tried, and the file that it ran, with what was seen; empty if it failed."""

    result: SmokeResult
    text: str


def until_fits(config: Path, *, on_progress: Callable[[str], None] | None = None, **options: Any) -> Proven:
    """Runs smoke tests, at most ``MOST_TRIES``, until one fits. ``options`` are those of ``trial.smoke_test``.

    Raises:
        InputError: as ``trial.smoke_test``; or a dry run without a card that it could fit.
        SmokeTestError: as ``trial.smoke_test``.
    """
    progress = on_progress or (lambda _line: None)
    file = read_config(config)
    result = trial.smoke_test(file, on_progress=on_progress, **options)
    if result.outcome == "ran":
        msg = "--until-fits needs to know the card; give --hardware, like 8xA100-80GB"
        raise InputError(msg)
    tried = [_try(result, "as given")]
    steps = _Steps(file, result, options)
    while result.outcome in _TOO_MUCH and len(tried) < MOST_TRIES and (step := steps.next(result)):
        progress(f"{result.outcome}; try {len(tried) + 1} of at most {MOST_TRIES}: {step.title}")
        file = parse_config(step.content, str(config))
        changed = options | {"activation_checkpointing": step.activation_checkpointing}
        result = trial.smoke_test(file, on_progress=on_progress, **changed)
        tried.append(_try(result, step.title))
    result = replace(result, tries=tuple(tried))
    if result.outcome in _TOO_MUCH:
        what = f"{len(tried)} configurations were tried" if len(tried) > 1 else "there is no smaller configuration"
        cure = f"{what}; zeroconf generate with the same model and hardware says what would make it fit"
        return Proven(replace(result, cure=cure), "")
    return Proven(result, _with_words(file, result) if result.outcome == "fits" else "")


def _with_words(file: ConfigFile, result: SmokeResult) -> str:
    ours = file.content.get("_zeroconf")
    kept = ours if isinstance(ours, dict) else {}
    return to_json({**file.content, "_zeroconf": kept | {"verified": verified_words(result)}})


def _try(result: SmokeResult, title: str) -> Try:
    return Try(
        title=title,
        outcome=result.outcome,
        explanation=result.explanation,
        peak_allocated_bytes=peak_bytes(result),
        activation_checkpointing=bool(result.facts.get("activation_checkpointing")),
    )


class _Step(NamedTuple):
    content: dict[str, Any]
    activation_checkpointing: bool
    title: str


@dataclass
class _Steps:
    """What follows a file that does not fit."""

    file: ConfigFile
    first: SmokeResult
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Reads the facts, where the card is known, or stands on the ladder's top rung."""
        ranks = int(self.first.facts["world_size"])
        micro, steps = self.file.batch_split(self.file.data_parallel_size(ranks))
        recompute = bool(self.first.facts["activation_checkpointing"])
        self._rung: ladder.Rung | None = ladder.Rung(self.file.content, micro, steps, recompute)
        cluster = _cluster(self.first, self.options, ranks)
        self._facts = None if cluster is None else _facts(self.file, self.first, self.options, cluster)

    def next(self, failed: SmokeResult) -> _Step | None:
        """What to try after it; None where nothing is left."""
        full = failed.outcome == "host-oom" or "host memory" in failed.explanation
        if self._facts is not None and failed.predicted is not None:
            return _next_plan(self._facts, self.file, failed.predicted, host_is_full=full)
        self._rung = self._rung and ladder.down(self._rung, host_is_full=full)
        if self._rung is None:
            return None
        return _Step(self._rung.content, self._rung.activation_checkpointing, self._rung.title)


def _cluster(result: SmokeResult, options: Mapping[str, Any], ranks: int) -> Cluster | None:
    """What the run is for: a dry run's hardware, this machine's GPUs; None where that is not known."""
    if result.mode == "dry-run":
        project = options.get("project")
        named = options.get("hardware") or (read_project(project) if project else {}).get("hardware")
        return trial.target_of(None if named is None else str(named), options.get("world_size"))
    if result.mode == "simulated" or result.environment.get("device") != "cuda" or result.environment.get("hosts"):
        return None
    try:
        here = read_hardware("auto")
    except InputError:
        return None
    return replace(here, num_nodes=1, gpus_per_node=ranks) if isinstance(here, Cluster) else None


def _facts(file: ConfigFile, result: SmokeResult, options: Mapping[str, Any], cluster: Cluster) -> Facts:
    """The facts of the file with a free choice of plan: its batch, precision and optimizer, the run's shapes.

    Raises:
        InputError: the file contradicts itself on this cluster.
    """
    ran, pinned = result.facts, options.get("activation_checkpointing")
    spec, _ = trial.model_of_job(options.get("model"), options.get("params"), options.get("project"))
    asked = {
        "seq_len": ran["sequence_length"],
        "attention": ran["attention"],
        "lora_rank": ran["lora_rank"] or None,
        "activation_checkpointing": None if pinned is None else "full" if pinned else "none",
    }
    facts = FilePlan(complete(spec, cluster, asked, versions_of(result)), file).facts
    free = replace(
        facts.workload,
        micro_batch_size=None,
        gradient_accumulation_steps=None,
        assumptions=(),
    )
    return replace(facts, workload=free, given=file.plan)


def _next_plan(facts: Facts, file: ConfigFile, failed: Estimate, *, host_is_full: bool) -> _Step | None:
    """The best plan that is predicted to fit and to need less than the one that failed, put into the file."""

    def takes(cost: Estimate) -> int:
        return cost.host.peak_bytes if host_is_full else cost.gpu.peak_allocated_bytes

    limit = _LIGHTER * takes(failed)
    fitting = [one for one in search(facts) if one.rejected_by is None and takes(one.estimate) < limit]
    chosen = first_choice(fitting)
    if chosen is None:
        return None
    content = config_of_plan(facts, chosen.plan, file)
    return _Step(content, chosen.plan.activation_checkpointing, Words.choice(chosen))
