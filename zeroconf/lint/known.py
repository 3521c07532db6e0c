"""What the options and the project file say beside the files: model, hardware, and the work of a step."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.errors import InputError, UnavailableError
from zeroconf.keys import newest_releases
from zeroconf.rules.accelerate.reading import config_file, uses_deepspeed
from zeroconf.rules.facts import AccelerateConfig, DsConfig
from zeroconf.rules.launch import Launch
from zeroconf.rules.planned import Planned
from zeroconf.rules.values.settings import is_for_inference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import Reader
    from zeroconf.rules.named import Named
    from zeroconf.types import Facts, ModelSpec

# the options that a fact needs
NEEDED: Final = {
    "model": "--model",
    "gpu": "--hardware",
    "cluster": "--hardware",
    "planned": "--model and --hardware",
    "timed": "--model and --hardware",
}
_ABOUT_PLANS: Final = ("planned", "timed")


class Known:
    """The facts that rules can name beside the file's own, and why the others are missing.

    With ``lenient`` a value that only another machine can read is missing, with the reason: a project file must not
    stop the linter on a machine without GPUs or hub.
    """

    def __init__(self, settings: Mapping[str, Any], releases: Releases, *, lenient: bool = False) -> None:
        """Reads ``settings``: options by name with underscores.

        Raises:
            InputError: a value cannot be used.
        """
        self.found: dict[str, object] = {}
        self.missing: dict[str, str] = dict(NEEDED)
        self.facts: Facts | None = None
        self.options: Mapping[str, object] = settings
        self._lenient = lenient
        self._read(settings, releases)

    @classmethod
    def of(cls, facts: Facts) -> Known:
        """What facts that were read already say."""
        known = cls({}, newest_releases())
        known.found = {"model": facts.model, "gpu": facts.cluster.gpu, "cluster": facts.cluster}
        known.facts = facts
        return known

    def _read(self, settings: Mapping[str, Any], releases: Releases) -> None:
        from zeroconf.plan import facts  # noqa: PLC0415  (start-up: most files are linted without facts)
        from zeroconf.types import Cluster, GpuType, Versions  # noqa: PLC0415  (as above)

        model: ModelSpec | None = None
        hardware: Cluster | GpuType | None = None
        if settings.get("model"):
            with self._unless_elsewhere("model", *_ABOUT_PLANS):
                self.found["model"] = model = facts.model_of(settings)
        if settings.get("hardware"):
            with self._unless_elsewhere("gpu", "cluster", *_ABOUT_PLANS):
                hardware = facts.hardware_of(settings)
                self.found["gpu"] = (hardware if isinstance(hardware, Cluster) else hardware.one).gpu
        if isinstance(hardware, Cluster):
            self.found["cluster"] = hardware
            if model is not None:
                versions = Versions(deepspeed=releases.deepspeed, accelerate=releases.accelerate)
                self.facts = facts.complete(model, hardware, settings, versions)
                self.found["cluster"] = self.facts.cluster
        elif hardware is not None:
            self.missing |= dict.fromkeys(("cluster", *_ABOUT_PLANS), "--hardware with a number of GPUs")

    @contextlib.contextmanager
    def _unless_elsewhere(self, *needs: str) -> Iterator[None]:
        try:
            yield
        except UnavailableError as error:
            if not self._lenient:
                raise
            self.missing |= dict.fromkeys(needs, str(error))


def facts_of(
    known: Known | None, view: DsConfig | AccelerateConfig | Launch | None, named: Named | None, reader: Reader
) -> tuple[Mapping[str, object], Mapping[str, str]]:
    """What is known about one configuration of a file, and why the other facts that could be are not.

    ``named`` is the ds_config.json that a launch line names. A fact that is in neither does not apply here.
    """
    found, missing = (known.found, known.missing) if known else ({}, NEEDED)
    content = None if view is None else _plan_in(view, named)
    if view is None or content is None:
        return found, {need: why for need, why in missing.items() if need not in _ABOUT_PLANS}
    if known is None or known.facts is None:
        return found, missing
    facts = replace(known.facts, reader=reader.name or known.facts.reader)
    try:
        planned = _planned(view, content, facts)
    except InputError as error:
        return found, {**missing, **dict.fromkeys(_ABOUT_PLANS, str(error))}
    # memory is known of any batch that fits the file, seconds of the one that runs alone
    if options := planned.of_file.open_batch:
        needed = " and ".join(f"--{option.replace('_', '-')}" for option in options)
        return {**found, "planned": planned}, {**missing, "timed": needed}
    return {**found, "planned": planned, "timed": planned}, missing


def _plan_in(view: DsConfig | AccelerateConfig | Launch, named: Named | None) -> Mapping[str, Any] | None:
    """The values that describe a training plan; None where the file only names another, which has its own findings."""
    if isinstance(view, DsConfig):
        return None if is_for_inference(view) else dict(view.root.plain())
    if isinstance(view, AccelerateConfig):
        return dict(view.root.plain()) if uses_deepspeed(view) and config_file(view) is None else None
    return view.filled(named.config.root.plain()) if named else None


def _planned(view: DsConfig | AccelerateConfig | Launch, content: Mapping[str, Any], facts: Facts) -> Planned:
    from zeroconf.config_file import inline_content  # noqa: PLC0415  (as above)
    from zeroconf.inputs.ds_config import parse_config  # noqa: PLC0415  (as above)
    from zeroconf.plan.of_file import FilePlan  # noqa: PLC0415  (as above)

    path, zero_init = view.document.path, True
    if isinstance(view, AccelerateConfig):
        content, zero_init = inline_content(content, path)
    if isinstance(view, Launch):
        facts = _of_line(view, facts)
    file = parse_config(dict(content), path, zero_init=zero_init)
    if file.not_modelled:
        msg = f"not modelled: {', '.join(file.not_modelled)}"
        raise InputError(msg)
    return Planned(FilePlan(facts, file), view)


def _of_line(launch: Launch, facts: Facts) -> Facts:
    """The facts with what the line says of the workload.

    Raises:
        InputError: it starts another number of processes than the cluster has GPUs.
    """
    if launch.world and launch.world[0] != facts.cluster.num_gpus:
        msg = f"the line starts {launch.world[0]} processes, not one for each of {facts.cluster.num_gpus} GPUs"
        raise InputError(msg)
    recompute = launch.flag("--gradient_checkpointing")
    if recompute and facts.workload.activation_checkpointing == "auto":
        return replace(facts, workload=replace(facts.workload, activation_checkpointing="full"))
    return facts
