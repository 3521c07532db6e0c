"""A place in a shell script and the expansions there: variables with one literal value, and what only a shell knows."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z_]\w*")
# a default counts only where there is no value
_IN_BRACES = re.compile(r"([A-Za-z_]\w*)(?::?-.*)?", re.DOTALL)
_PRODUCT = re.compile(r"\s*\(([^()]*)\)\s*")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_FACTOR = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?|\d{1,9}")


class Value(NamedTuple):
    """A variable's text, and where the words stand that it is split into when it is used without quotes.

    A text that the script does not write out, like a Slurm job's number of nodes, stands nowhere. Not ``is_known``
    where an unknown expansion is in it.
    """

    text: str
    start: int = 0
    end: int = 0
    is_known: bool = True

    @property
    def is_written(self) -> bool:
        """Whether its words stand in the script."""
        return self.end > self.start or not self.text


def quoted_part(text: str, start: int, end: int) -> tuple[int, int] | None:
    """What stands between the quotes that all of a word is in; None for any other word."""
    quote = text[start : start + 1]
    if quote not in {"'", '"'} or end - start < 2 or text[end - 1] != quote:
        return None
    inside = (
        re.sub(r"\\.", "", text[start + 1 : end - 1], flags=re.DOTALL) if quote == '"' else text[start + 1 : end - 1]
    )
    return None if quote in inside else (start + 1, end - 1)


class Cursor:
    """A place in ``text[start:end]``; ``values`` are the variables that are known so far, ``used`` all names used."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self.at = start
        self.end = len(text) if end is None else end
        self.values: dict[str, Value] = {}
        self.used: set[str] = set()
        # where the last expansion began, and its text
        self.last_dollar = -1
        self.last_expansion = ""

    def expansion(self) -> Value | None:
        """Passes over the expansion that starts here; its value where the script gives it one."""
        start = self.at
        value = self._expanded()
        self.at = min(self.at, self.end)
        self.last_dollar, self.last_expansion = start, self.text[start : self.at]
        return value

    def _expanded(self) -> Value | None:
        text, at = self.text, self.at
        if text[at] == "`":
            closing = text.find("`", at + 1, self.end)
            self.at = self.end if closing < 0 else closing + 1
            return None
        following = text[at + 1 : at + 2]
        if following == "(":
            self.at = self.closing(at + 2, "(", ")")
            return self._product(text[at + 2 : self.at - 1])
        if following == "{":
            self.at = self.closing(at + 2, "{", "}")
            inside = text[at + 2 : self.at - 1].removesuffix("[@]").removesuffix("[*]")
            found = _IN_BRACES.fullmatch(inside)
            return self._value(found[1]) if found else None
        if name := _NAME.match(text, at + 1, self.end):
            self.at = name.end()
            return self._value(name[0])
        if following and (following in "@*#?$!-" or following.isdigit()):
            self.at = at + 2
            return None
        self.at = at + 1
        return Value("$", at, at)

    def _product(self, inside: str) -> Value | None:
        """``$((NODES * 8))`` where all factors are known."""
        found = _PRODUCT.fullmatch(inside)
        total = 1
        for written in found[1].split("*") if found else []:
            factor = _FACTOR.fullmatch(written.strip())
            value = self._value(factor[1]) if factor and factor[1] else None
            text = value.text if value and value.is_known else written.strip()
            if not text.isdecimal():
                return None
            total *= int(text)
        return Value(str(total)) if found else None

    def _value(self, name: str) -> Value | None:
        self.used.add(name)
        return self.values.get(name)

    def closing(self, at: int, opening: str, closing: str) -> int:
        """Behind the bracket that closes the one before ``at``; quotes hide brackets."""
        depth = 1
        while at < self.end:
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char in "'\"":
                quote = self.text.find(char, at + 1, self.end)
                at = self.end if quote < 0 else quote
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return self.end
