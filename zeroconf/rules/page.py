"""A rule's docstring as its page: what is wrong, why, and the two examples with the facts that they are read under."""

from __future__ import annotations

import re
import textwrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.keys import Releases, newest_releases
from zeroconf.rules.facts import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.rules.registry import Rule

# the name gives a doubtful text its syntax, as a file's name does
_FILE_NAMES = {"json": "example.json", "yaml": "example.yaml", "hostfile": "hostfile", "shell": "example.sh"}
_READERS = {
    "deepspeed": Reader("deepspeed", stated=True),
    "accelerate": Reader("accelerate", stated=True),
    "trainer": Reader("trainer", stated=True),
}
# a file that the example names, its text without blanks
_BESIDE = re.compile(r"(?:[\w.]+\.(?:json|yaml)|hosts)=")
# of the facts' options, those that an example states
_SETTINGS = ("model", "hardware", "network", "host-memory", "nvme", "seq-len", "micro-batch-size", "lora-rank")
_BLOCK = r"\n%s:\n+    ```(?P<info>[^\n]*)\n(?P<text>.*?)\n    ```[ ]*(?=\n|$)"


class Example(NamedTuple):
    """A file of a page: its text, the name that it is linted under, and the facts of its fence's info string.

    ``settings`` are the facts' options, ``beside`` the texts of files that it names.
    """

    syntax: str
    text: str
    reader: Reader
    releases: Releases
    facts: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})
    beside: Mapping[str, str] = MappingProxyType({})

    @property
    def file_name(self) -> str:
        """A name that fits the syntax."""
        return _FILE_NAMES[self.syntax]


class Page(NamedTuple):
    """``summary`` is one sentence, ``why`` paragraphs of Markdown, ``example`` draws the finding, ``instead`` not."""

    summary: str
    why: str
    example: Example
    instead: Example


def read_page(rule: Rule) -> Page:
    """The rule's page.

    Raises:
        ValueError: the docstring is not written as a page is; the message says what is missing.
    """
    first, _, rest = rule.page.strip().partition("\n")
    text = "\n" + textwrap.dedent(rest)
    example, instead = (_example(rule, text, heading) for heading in ("Example", "Use instead"))
    why = text.partition("\nExample:\n")[0].strip()
    if not why:
        msg = f"{rule.code}: the page does not say why"
        raise ValueError(msg)
    return Page(first.strip(), why, example, instead)


def _example(rule: Rule, text: str, heading: str) -> Example:
    found = re.search(_BLOCK % heading, text, re.DOTALL)
    if found is None:
        msg = f"{rule.code}: the page has no '{heading}:' with one fenced block, indented by four spaces"
        raise ValueError(msg)
    syntax, *facts = found["info"].split()
    if syntax not in _FILE_NAMES:
        msg = f"{rule.code}: '{syntax}' is not one of {', '.join(_FILE_NAMES)}"
        raise ValueError(msg)
    text = textwrap.dedent(found["text"]) + "\n"
    beside = {name: _beside(name, text) for name, text in (fact.split("=", 1) for fact in facts if _BESIDE.match(fact))}
    reader, releases, settings = _read_facts(rule, [fact for fact in facts if not _BESIDE.match(fact)])
    return Example(syntax, text, reader, releases, " ".join(facts), settings, beside)


def _beside(name: str, written: str) -> str:
    """A JSON as it is, ``node-1:4,node-2:4`` as a hostfile, ``zero_stage:2`` as an Accelerate YAML's inline field."""
    if name.endswith(".json"):
        return written
    if name.endswith(".yaml"):
        return f"distributed_type: DEEPSPEED\ndeepspeed_config:\n  {written.replace(':', ': ')}\n"
    return "".join("{} slots={}\n".format(*host.split(":")) for host in written.split(","))


def _read_facts(rule: Rule, facts: list[str]) -> tuple[Reader, Releases, dict[str, Any]]:
    """``for=trainer deepspeed=0.18.9 accelerate=1.2.0 model=7B hardware=8xA100-80GB seq-len=2048``, optional each."""
    reader, releases, settings = Reader(), newest_releases(), dict[str, Any]()
    for fact in facts:
        name, _, value = fact.partition("=")
        is_release = re.fullmatch(r"\d+(\.\d+)+", value)
        numbers = tuple(map(int, value.split("."))) if is_release else ()
        if name == "for" and value in _READERS:
            reader = _READERS[value]
        elif name == "deepspeed" and is_release:
            releases = releases._replace(deepspeed=numbers, stated=True)
        elif name == "accelerate" and is_release:
            releases = releases._replace(accelerate=numbers, stated=True)
        elif name in _SETTINGS and value:
            settings[name.replace("-", "_")] = int(value) if value.isdecimal() else value
        else:
            known = f"deepspeed=X.Y.Z, accelerate=X.Y.Z, or one of {', '.join(_SETTINGS)}"
            msg = f"{rule.code}: the example's fact '{fact}' is not for=READER, {known}"
            raise ValueError(msg)
    return reader, releases, settings
