"""What a shell completes: the values of options, by what their help calls them. Loaded only when a shell asks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Word = tuple[str, str]  # what is completed, and what is said of it


def complete_values(group: click.Group) -> None:
    """Gives the commands' options and arguments the completion of what they take."""
    for command in group.commands.values():
        for param in command.params:
            if isinstance(param.type, click.types.StringParamType) and param.metavar in _WORDS:
                param.type = _Completed(_WORDS[param.metavar])


class _Completed(click.types.StringParamType):
    """Text of which some values have names; what begins none of them may be a file."""

    def __init__(self, words: Callable[[str, str], Iterator[Word]]) -> None:
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002  (click's signature)
        """The names that begin so, in any case."""
        start = incomplete.lower()
        words = self.words(param.name or "", incomplete)
        found = [CompletionItem(word, help=said) for word, said in words if word.lower().startswith(start)]
        return found or [CompletionItem(incomplete, type="file")]


def _models(_name: str, _incomplete: str) -> Iterator[Word]:
    from zeroconf.inputs import catalogue

    yield from ((name, "") for name in catalogue.names())


def _hardware(_name: str, incomplete: str) -> Iterator[Word]:
    """Behind a count, as in ``4x8x``, the names that can follow."""
    from zeroconf.inputs import gpus, instances

    count = re.match(r"(?:\d+x)*", incomplete)
    before = count[0] if count else ""
    yield from ((before + name, "") for name in (*gpus.spellings(), *instances.names()))
    if not before:
        yield "auto", "this machine or job"


def _links(name: str, _incomplete: str) -> Iterator[Word]:
    from zeroconf.inputs import links

    yield from ((link, "") for link in links.names("node" if name == "intra_node" else "network"))


def _rules(_name: str, incomplete: str) -> Iterator[Word]:
    """Codes with their names, the last of several."""
    from zeroconf.rules import RULES

    before = incomplete[: incomplete.rfind(",") + 1]
    yield from ((before + code, rule.name) for code, rule in sorted(RULES.items()))


def _schemas(_name: str, _incomplete: str) -> Iterator[Word]:
    from zeroconf.cli_schema import schema_files

    yield from ((name, "") for name in schema_files())


def _files(_name: str, _incomplete: str) -> Iterator[Word]:
    yield from ()


_WORDS: dict[Any, Callable[[str, str], Iterator[Word]]] = {
    "MODEL": _models,
    "HW": _hardware,
    "LINK": _links,
    "RULES": _rules,
    "[RULE]": _rules,
    "[SCHEMA]": _schemas,
    "FILE": _files,
    "PATH": _files,
}
