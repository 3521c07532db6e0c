"""What a linted file names: the ds_config.json of an Accelerate YAML or a launch line, its YAML, its hostfile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.rules.accelerate.reading import config_file
from zeroconf.rules.facts import AccelerateConfig, DsConfig
from zeroconf.rules.launch import Launch
from zeroconf.rules.named import Named

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.document.document import Document
    from zeroconf.document.node import Node
    from zeroconf.lint.siblings import Siblings

    Errors = Callable[[DsConfig], tuple[str, ...]]


_MAKES_A_FILE = r"(?:>|\b(?:tee|cp|mv|ln|wget|curl)\b)[^\n]*"


def launch_of(document: Document, root: Node, index: int, siblings: Siblings | None) -> Launch:
    """One launch line of a script, with the Accelerate YAML and the hostfile that it names."""
    launch = Launch(document, root, (index,))
    if siblings is None:
        return launch
    settings = launch.launcher("--config_file") if launch.command == "accelerate" else None
    read = _read(launch, siblings, settings.text) if settings else None
    if read is not None and read.kind == "accelerate" and read.root is not None:
        launch.accelerate = AccelerateConfig(read, read.root)
    hosts = launch.launcher("--hostfile") if launch.command == "deepspeed" else None
    found = _read(launch, siblings, hosts.text) if hosts else None
    launch.hosts = found if found is not None and found.kind == "hostfile" else None
    return launch


def hosts_of(launch: Launch, siblings: Siblings | None) -> tuple[dict[str, Document], dict[str, str]]:
    """The hostfile that a launch line names, or why it is not known; neither where none is named."""
    given = launch.launcher("--hostfile") if launch.command == "deepspeed" else None
    if launch.hosts is not None or siblings is None or given is None or not given.text:
        return ({"hosts": launch.hosts} if launch.hosts else {}), {}
    is_there = _read(launch, siblings, given.text) is not None
    why = f"{given.text}, which is named, is no hostfile" if is_there else _absent(launch, given.text)
    return {}, {"hosts": why} if why else {}


def named_by(view: AccelerateConfig | Launch, siblings: Siblings | None, errors: Errors) -> tuple[Named | None, str]:
    """The ds_config.json that a file names, or why it is not known; neither where none is named.

    ``errors`` gives the linter's errors about it, as Accelerate reads it.
    """
    name = _name(view)
    if name is None:
        return None, _without_settings(view, siblings) if isinstance(view, Launch) else ""
    document = _read(view, siblings, name)
    if document is None:
        return None, _absent(view, name)
    if document.configs != ((),) or document.root is None:
        return None, f"{name}, which is named, {document.note or 'cannot be read'}"
    config = DsConfig(document, document.root)
    return Named(name, config, errors(config)), ""


def _without_settings(launch: Launch, siblings: Siblings | None) -> str:
    """Why the Accelerate YAML, which would name the file, is not known; nothing where there is none to know."""
    given = launch.launcher("--config_file") if launch.command == "accelerate" else None
    is_missing = given and given.text and siblings and _read(launch, siblings, given.text) is None
    return _absent(launch, given.text) if given and is_missing else ""


def _read(view: AccelerateConfig | Launch, siblings: Siblings | None, name: str) -> Document | None:
    """The named file, from the folder that a script is in by then."""
    place = view.from_start(name) if isinstance(view, Launch) else name
    return siblings(place) if siblings and place else None


def _absent(view: AccelerateConfig | Launch, name: str) -> str:
    """Nothing where a script goes to another folder, which it may have made, or makes the file."""
    if isinstance(view, Launch):
        makes_it = re.search(_MAKES_A_FILE + re.escape(name), view.document.text)
        if makes_it or view.from_start(name) != name:
            return ""
    return f"{name}, which is named, is not there"


def _name(view: AccelerateConfig | Launch) -> str | None:
    if isinstance(view, AccelerateConfig):
        return config_file(view)
    if view.config is not None:
        text = view.config.text
        return text if text.endswith((".json", ".hjson")) else None
    return config_file(view.accelerate) if view.accelerate else None
