"""What a linted file names: the ds_config.json of an Accelerate YAML or a launch line, its YAML, its hostfile."""

from __future__ import annotations

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


def launch_of(document: Document, root: Node, index: int, siblings: Siblings | None) -> Launch:
    """One launch line of a script, with the Accelerate YAML and the hostfile that it names."""
    launch = Launch(document, root, (index,))
    if siblings is None:
        return launch
    settings = launch.launcher("--config_file") if launch.command == "accelerate" else None
    read = siblings(settings.text) if settings and settings.text else None
    if read is not None and read.kind == "accelerate" and read.root is not None:
        launch.accelerate = AccelerateConfig(read, read.root)
    hosts = launch.launcher("--hostfile") if launch.command == "deepspeed" else None
    found = siblings(hosts.text) if hosts and hosts.text else None
    launch.hosts = found if found is not None and found.kind == "hostfile" else None
    return launch


def named_by(view: AccelerateConfig | Launch, siblings: Siblings | None, errors: Errors) -> tuple[Named | None, str]:
    """The ds_config.json that a file names, or why it is not known; neither where none is named.

    ``errors`` gives the linter's errors about it, as Accelerate reads it.
    """
    name = _name(view)
    if name is None:
        return None, ""
    document = siblings(name) if siblings else None
    if document is None:
        return None, f"{name}, which is named, is not there"
    if document.configs != ((),) or document.root is None:
        return None, f"{name}, which is named, {document.note or 'cannot be read'}"
    config = DsConfig(document, document.root)
    return Named(name, config, errors(config)), ""


def _name(view: AccelerateConfig | Launch) -> str | None:
    if isinstance(view, AccelerateConfig):
        return config_file(view)
    if view.config is not None:
        text = view.config.text
        return text if text.endswith((".json", ".hjson")) else None
    return config_file(view.accelerate) if view.accelerate else None
