"""Changes of the text itself: what the values no longer show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Edit = Callable[[random.Random, str], str]


def _lines_with(text: str, pattern: str) -> list[int]:
    return [number for number, line in enumerate(text.split("\n")) if re.search(pattern, line)]


def _at_line(rng: random.Random, text: str, pattern: str, change: Callable[[str], str]) -> str:
    """One of the lines that match, changed; the text as it is when none does."""
    numbers = _lines_with(text, pattern)
    if not numbers:
        return text
    lines = text.split("\n")
    number = rng.choice(numbers)
    lines[number] = change(lines[number])
    return "\n".join(lines)


def _line(pattern: str, change: Callable[[str], str]) -> Edit:
    return lambda rng, text: _at_line(rng, text, pattern, change)


def duplicate(rng: random.Random, text: str) -> tuple[str, str]:
    """A one-line member stands twice, with the same value or another."""
    found: list[str] = []

    def twice(line: str) -> str:
        other = rng.choice((line, re.sub(r"\d+", lambda digits: str(int(digits[0]) + 1), line, count=1)))
        found.append(line.strip())
        comma = line.rstrip().endswith(",")
        second = other if comma or ":" not in line or '"' not in line else other.rstrip() + ","
        return f"{second}\n{line}"

    member = r'^\s*"[^"]+": [^\[{]+$' if text.startswith("{") else r"^\s*\w+: \S+$|slots="
    changed = _at_line(rng, text, member, twice)
    return f"twice: {found[0] if found else ''}", changed


_VALUE = r'^\s*"[^"]+": [^\[{]+$'
_NUMBER = r": -?\d+,?$"

JSON_TEXT: dict[str, Edit] = {
    "// comment": _line(_VALUE, lambda line: f"{line}  // tuned"),
    "# comment": _line(_VALUE, lambda line: f"{line}  # tuned"),
    "/* comment */": _line(_VALUE, lambda line: f"  /* tuned */\n{line}"),
    "comment line": _line(_VALUE, lambda line: f"  // tuned\n{line}"),
    "# comment line": _line(_VALUE, lambda line: f"  # tuned\n{line}"),
    "trailing comma": _line(r"^\s*\}[,]?$", lambda line: re.sub(r"\}", "},", line, count=1)),
    "trailing comma in block": lambda _rng, text: re.sub(r"\n(\s*)\}", r",\n\1}", text, count=1),
    "missing comma": _line(r",$", lambda line: line.rstrip(",")),
    "byte order mark": lambda _rng, text: "﻿" + text,
    "CR LF": lambda _rng, text: text.replace("\n", "\r\n"),
    "single quotes": lambda _rng, text: text.replace('"', "'"),
    "unquoted key": _line(_VALUE, lambda line: re.sub(r'"([^"]+)":', r"\1:", line, count=1)),
    "unquoted word": _line(r': "[a-zA-Z]+",?$', lambda line: re.sub(r': "(\w+)"', r": \1", line)),
    "Python's True": _line(r": (true|false)", lambda line: line.replace("true", "True").replace("false", "False")),
    "Python's None": _line(_NUMBER, lambda line: re.sub(r": -?\d+", ": None", line)),
    "power of ten": _line(r": \d+00000,?$", lambda line: re.sub(r": (\d)0+", r": \g<1>e8", line)),
    "underscores": _line(r": \d{4,},?$", lambda line: re.sub(r": (\d+)(\d{3})", r": \1_\2", line)),
    "plus sign": _line(_NUMBER, lambda line: line.replace(": ", ": +")),
    "leading zero": _line(_NUMBER, lambda line: line.replace(": ", ": 0")),
    "leading point": _line(r": 0\.\d", lambda line: line.replace(": 0.", ": .")),
    "NaN": _line(_NUMBER, lambda line: re.sub(r": -?\d+", ": NaN", line)),
    "Infinity": _line(_NUMBER, lambda line: re.sub(r": -?\d+", ": Infinity", line)),
    "equals sign": _line(_NUMBER, lambda line: line.replace('": ', '" = ')),
    "open brace": lambda _rng, text: text.rstrip().removesuffix("}"),
    "one brace more": lambda _rng, text: text + "}\n",
    "two documents": lambda _rng, text: text + text,
    "a list around": lambda _rng, text: f"[{text}]",
    "empty": lambda _rng, _text: "",
    "blank lines": lambda _rng, text: text.replace("\n", "\n\n"),
    "tabs": lambda _rng, text: text.replace("  ", "\t"),
    "one line": lambda _rng, text: " ".join(text.split()) + "\n",
    "a non-breaking space": _line(_VALUE, lambda line: line.replace(": ", ":\u00a0")),
    "curly quotes": _line(_VALUE, lambda line: line.replace('"', "\u201d", 1)),
}

YAML_TEXT: dict[str, Edit] = {
    "comment": _line(r": \S+$", lambda line: f"{line}  # tuned"),
    "byte order mark": lambda _rng, text: "﻿" + text,
    "CR LF": lambda _rng, text: text.replace("\n", "\r\n"),
    "tab": _line(r"^  \w+:", lambda line: "\t" + line.lstrip()),
    "indent lost": _line(r"^  \w+:", str.lstrip),
    "indent grown": _line(r"^\w+: \S+$", lambda line: "  " + line),
    "no space": _line(r": \S+$", lambda line: line.replace(": ", ":")),
    "unquoted no": lambda _rng, text: re.sub(r"mixed_precision: \S+", "mixed_precision: no", text),
    "quoted no": lambda _rng, text: re.sub(r"mixed_precision: \S+", "mixed_precision: 'no'", text),
    "quoted number": _line(r": \d+$", lambda line: re.sub(r": (\d+)", r": '\1'", line)),
    "power of ten": _line(r": \d+$", lambda line: re.sub(r": \d+", ": 5e8", line)),
    "power of ten with point": _line(r": \d+$", lambda line: re.sub(r": \d+", ": 5.0e+8", line)),
    "underscores": _line(r": \d+$", lambda line: re.sub(r": (\d)", r": \1_0", line)),
    "off": _line(r": (true|false)$", lambda line: re.sub(r": \w+", ": off", line)),
    "yes": _line(r": (true|false)$", lambda line: re.sub(r": \w+", ": yes", line)),
    "quoted true": _line(r": (true|false)$", lambda line: re.sub(r": (\w+)", r": '\1'", line)),
    "Python's True": _line(r": (true|false)$", lambda line: line.replace("true", "True").replace("false", "False")),
    "null": _line(r": \S+$", lambda line: re.sub(r": \S+", ": null", line)),
    "nothing": _line(r": \S+$", lambda line: re.sub(r": \S+", ":", line)),
    "tilde": _line(r": \S+$", lambda line: re.sub(r": \S+", ": ~", line)),
    "none": _line(r": \S+$", lambda line: re.sub(r": \S+", ": none", line)),
    "None": _line(r": \S+$", lambda line: re.sub(r": \S+", ": None", line)),
    "document marks": lambda _rng, text: f"---\n{text}...\n",
    "two documents": lambda _rng, text: f"{text}---\n{text}",
    "open quote": _line(r": \S+$", lambda line: line.replace(": ", ": '")),
    "flow": lambda _rng, text: text.replace("use_cpu: false", "use_cpu: {a: 1"),
    "an anchor": _line(r": \d+$", lambda line: line.replace(": ", ": &n ")),
    "an unknown tag": _line(r": \d+$", lambda line: line.replace(": ", ": !mine ")),
    "empty": lambda _rng, _text: "",
}

_HOST = r"^\w\S* slots"
HOSTFILE_TEXT: dict[str, Edit] = {
    "comment": _line(_HOST, lambda line: f"{line}  # tuned"),
    "CR LF": lambda _rng, text: text.replace("\n", "\r\n"),
    "byte order mark": lambda _rng, text: "\ufeff" + text,
    "no slots": _line(_HOST, lambda line: line.split()[0]),
    "slot": _line(_HOST, lambda line: line.replace("slots", "slot")),
    "SLOTS": _line(_HOST, lambda line: line.replace("slots", "SLOTS")),
    "spaces around the sign": _line(_HOST, lambda line: line.replace("=", " = ")),
    "no sign": _line(_HOST, lambda line: line.replace("=", " ")),
    "a colon": _line(_HOST, lambda line: line.replace(" slots=", ":")),
    "a comma": _line(_HOST, lambda line: line.replace(" ", ",", 1)),
    "a tab": _line(_HOST, lambda line: line.replace(" ", "\t", 1)),
    "leading spaces": _line(_HOST, lambda line: "  " + line),
    "trailing spaces": _line(_HOST, lambda line: line + "  "),
    "no slots in it": _line(_HOST, lambda line: re.sub(r"=\d+", "=0", line)),
    "negative": _line(_HOST, lambda line: line.replace("=", "=-")),
    "fractional": _line(_HOST, lambda line: re.sub(r"=\d+", "=1.5", line)),
    "word": _line(_HOST, lambda line: re.sub(r"=\d+", "=all", line)),
    "max_slots": _line(_HOST, lambda line: line + " max_slots=8"),
    "a user": _line(_HOST, lambda line: "me@" + line),
    "a port": _line(_HOST, lambda line: line.replace(" ", ":22 ", 1)),
    "the same host twice": _line(_HOST, lambda line: f"{line}\n{line}"),
    "hosts of other sizes": _line(_HOST, lambda line: re.sub(r"=\d+", "=3", line)),
    "one line": lambda _rng, text: text.replace("\n", " "),
    "comments only": lambda _rng, text: "".join(f"# {line}\n" for line in text.splitlines()),
    "empty": lambda _rng, _text: "",
}

TEXT = {"json": JSON_TEXT, "yaml": YAML_TEXT, "hostfile": HOSTFILE_TEXT}
