"""A shell script as commands of words with their places: enough of the language to read launch lines, nothing is run.

Quotes, escapes, continued lines, comments, redirections and here-documents are read as a POSIX shell does (XCU 2.2 to
2.7). A variable counts where the script gives it one value, outside of conditions, loops and functions, or Slurm does
(document/slurm.py); any other expansion leaves its word unknown.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document.expansions import Cursor, Value, quoted_part
from zeroconf.document.slurm import job_variables
from zeroconf.document.surroundings import ASSIGNMENT, Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANY_ASSIGNMENT = re.compile(r"(?<![\w$.-])([A-Za-z_]\w*)\+?=|\b(?:for|read|mapfile -t)[ \t]+([A-Za-z_]\w*)")
_REDIRECTION = re.compile(r"&?[<>]+[|&]?\d*-?")
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*([\"']?)([\w.-]+)\1")
_OPENING = {"if", "case", "for", "while", "until", "select", "function", "{"}
_CLOSING = {"fi", "esac", "done", "}"}
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}
_DEEPEST = 8
_MOST_NAMES = 1000
_MOST_WORDS = 10_000


class Word(NamedTuple):
    """``text`` is without its quotes, at ``start`` to ``end``; not ``is_known`` where an unknown expansion is in it.

    ``inside`` is where a command stands that is in quotes, be they around the variable that holds it.
    """

    text: str
    start: int
    end: int
    is_known: bool = True
    inside: tuple[int, int] | None = None


class Command(NamedTuple):
    """The words of one simple command; ``assigned`` are the variables that it gets beside its environment.

    ``values`` are the variables of the script. ``folder`` is where it runs, from the script's start: None if unknown.
    """

    words: tuple[Word, ...]
    assigned: frozenset[str] = frozenset()
    values: Mapping[str, Value] = MappingProxyType({})
    folder: str | None = ""


def read_commands(text: str) -> list[Command]:
    """Every simple command of a script, in the order of the text; those of conditions and loops too.

    Never fails: what is no shell gives words that mean nothing.
    """
    return _Reader(text).commands()


def inner_commands(text: str, word: Word, arguments: tuple[Word, ...], values: Mapping[str, Value]) -> list[Command]:
    """The commands in the word behind ``bash -c``, whose ``"$@"`` are the arguments behind it.

    The outer shell puts ``values`` into the word, unless it is in single quotes.
    """
    start, end = word.inside or (word.start, word.end)
    reader = _Reader(text, start, max(start, end))
    if text[word.start : word.start + 1] != "'":
        reader.values = dict(values)
    found = reader.commands()
    return [
        command._replace(words=tuple(one for each in command.words for one in _with(text, each, arguments)))
        for command in found
    ]


def _with(text: str, word: Word, arguments: tuple[Word, ...]) -> tuple[Word, ...]:
    is_all = text[word.start : word.end].strip("\"'\\") in {"$@", "${@}"}
    return arguments if is_all else (word,)


class _Reader(Cursor):
    """One pass over ``text[start:end]``."""

    def __init__(self, text: str, start: int = 0, end: int | None = None, depth: int = 0) -> None:
        super().__init__(text, start, end)
        # words that expansions may still give: arrays of arrays grow without end
        self.budget = [_MOST_WORDS]
        self.depth = depth
        self.nesting = 0
        names = [found[1] or found[2] for found in _ANY_ASSIGNMENT.finditer(text)] if depth == 0 else []
        self.assigned_once = {name for name in names if names.count(name) == 1} if len(names) < _MOST_NAMES else set()
        self.bodies: list[str] = []
        self.around = Surroundings(text)
        if depth == 0:
            self.values |= {name: Value(value) for name, value in job_variables(text).items() if name not in names}

    def commands(self) -> list[Command]:
        found: list[Command] = []
        words: list[Word] = []
        while self.at < self.end:
            step = self._separator()
            if step:
                found += self._finished(words)
                words = []
                self._enter_or_leave()
                self.at += step
                if self.text[self.at - 1] == "\n":
                    self._skip_bodies()
            elif self._skip_blank():
                continue
            else:
                read = self._word()
                is_number = len(read) == 1 and read[0].text.isdigit() and self.at < self.end
                # a stream's number, as in 2>
                words += [] if is_number and self.text[self.at] in "<>" else read
        return [*found, *self._finished(words)]

    # --- between words ---

    def _enter_or_leave(self) -> None:
        char = self.text[self.at]
        if char == "(" and self.text[self.at + 1 : self.at + 2] != ")":
            self.around.enter()
        elif char == ")":
            self.around.leave()

    def _separator(self) -> int:
        """How long the end of a command is, here."""
        char = self.text[self.at]
        if char == "&" and self.text[self.at + 1 : self.at + 2] == ">":
            return 0
        return 1 if char in "\n;&|()" else 0

    def _skip_blank(self) -> bool:
        """Passes over blanks, a continued line, a comment or a redirection."""
        text, at = self.text, self.at
        char = text[at]
        if char in " \t\r\f\v":
            self.at += 1
        elif char == "\\" and text[at + 1 : at + 3] == "\r\n":
            self.at += 3
        elif char == "\\" and text[at + 1 : at + 2] == "\n":
            self.at += 2
        elif char == "#":
            line_end = text.find("\n", at, self.end)
            self.at = self.end if line_end < 0 else line_end
        elif here := _HERE_DOCUMENT.match(text, at, self.end):
            self.bodies.append(here[2])
            self.at = here.end()
        elif arrow := _REDIRECTION.match(text, at, self.end):
            self.at = arrow.end()
            self._skip_target(arrow[0])
        else:
            return False
        return True

    def _skip_target(self, arrow: str) -> None:
        if arrow[-1].isdigit() or arrow.endswith("-"):
            return
        while self.at < self.end and self.text[self.at] in " \t":
            self.at += 1
        if self.at < self.end and self.text[self.at] == "(":
            self.at = self.closing(self.at + 1, "(", ")")
        elif self.at < self.end and self.text[self.at] not in "\n;&|)<>":
            self._word()

    def _skip_bodies(self) -> None:
        """Passes over the here-documents that the line before began."""
        for name in self.bodies:
            # a script in a manifest is indented with blanks
            closing = re.compile(rf"^[ \t]*{re.escape(name)}[ \t\r]*$", re.MULTILINE).search(
                self.text, self.at, self.end
            )
            self.at = closing.end() if closing else self.end
        self.bodies = []

    # --- words ---

    def _word(self) -> list[Word]:
        """The word that starts here; several where it is a variable without quotes, or an array."""
        start, parts, is_known, splits = self.at, list[str](), True, False
        lone: Value | None = None
        while self.at < self.end and not self._ends_word():
            char = self.text[self.at]
            if char == "'":
                closing = self.text.find("'", self.at + 1, self.end)
                closing = self.end if closing < 0 else closing
                parts.append(self.text[self.at + 1 : closing])
                self.at = min(closing + 1, self.end)
            elif char == '"':
                known, lone_inside = self._double_quoted(parts)
                is_known, lone = is_known and known, lone_inside
            elif char == "\\":
                self._escaped(parts)
            elif char in "$`":
                value = self._expand(parts)
                is_known = is_known and value is not None and value.is_known
                lone = value if value and start == self.last_dollar else None
                splits = splits or bool(value and any(blank in value.text for blank in " \t\n"))
            elif char == "(" and parts and parts[-1].endswith("=") and ASSIGNMENT.fullmatch("".join(parts)):
                inside = self.at + 1
                self.at = self.closing(inside, "(", ")")
                self._assign("".join(parts), Value("", inside, max(inside, self.at - 1)))
                return [Word("".join(parts), start, self.at)]
            else:
                parts.append(char)
                self.at += 1
        if self.at == start:  # never stand still
            self.at += 1
        return self._read_word("".join(parts), start, lone, is_known=is_known, splits=splits)

    def _expand(self, parts: list[str]) -> Value | None:
        value = self.expansion()
        parts.append(value.text if value and value.is_known else self.last_expansion)
        return value

    def _read_word(self, text: str, start: int, lone: Value | None, *, is_known: bool, splits: bool) -> list[Word]:
        """The word from ``start`` to here; where it is one expansion without quotes, or an array, the words in it."""
        written = self.text[start : self.at]
        whole = written.strip('"')
        is_quoted, is_lone = written.startswith('"'), whole.startswith("$") and whole == self.last_expansion
        if lone is not None and lone.is_written and is_lone and self.depth < _DEEPEST and self.budget[0] > 0:
            if not is_quoted or whole.endswith(("[@]}", "[*]}")):
                return self._split(lone)
            return [Word(text, start, self.at, is_known, (lone.start, lone.end))]
        quotes = quoted_part(self.text, start, self.at)
        # a value with blanks that is glued to other text is several words, which this is not
        return [Word(text, start, self.at, is_known and not splits, quotes)]

    def _ends_word(self) -> bool:
        char = self.text[self.at]
        if char == "(":
            before = self.text[self.at - 1] if self.at else ""
            return before != "="
        return char in " \t\r\f\v\n;&|)<>"

    def _split(self, value: Value) -> list[Word]:
        inner = _Reader(self.text, value.start, value.end, self.depth + 1)
        inner.values, inner.budget = self.values, self.budget
        found = [word for command in inner.commands() for word in command.words]
        self.budget[0] -= len(found)
        return found

    def _escaped(self, parts: list[str]) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "\r" and self.text[self.at + 2 : self.at + 3] == "\n":
            self.at += 3
            return
        if following != "\n":
            parts.append("\\$" if following == "$" else following)
        self.at += 2

    def _double_quoted(self, parts: list[str]) -> tuple[bool, Value | None]:
        """Reads to the closing quote; whether all of it is known, and the value if it is one expansion."""
        self.at += 1
        inside, is_known, lone = self.at, True, None
        while self.at < self.end and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                parts.append("" if following == "\n" else following if following in '$`"\\' else char + following)
                self.at += 2
            elif char in "$`":
                value = self._expand(parts)
                is_known = is_known and value is not None and value.is_known
                lone = value if self.last_dollar == inside else None
            else:
                parts.append(char)
                self.at += 1
        self.at = min(self.at + 1, self.end)
        return is_known, lone

    # --- commands ---

    def _finished(self, words: list[Word]) -> list[Command]:
        """The command that the words make: assignments are remembered, and the words of a condition passed over."""
        assigned: set[str] = set()
        emptied: set[str] = set()
        while words:
            head = words[0]
            if head.text in _OPENING or (len(words) == 1 and head.text.endswith("()")):
                self.nesting += 1
            elif head.text in _CLOSING:
                self.nesting = max(0, self.nesting - 1)
            elif found := ASSIGNMENT.match(head.text):
                (emptied if head.text == found[0] else assigned).add(found[1])
                if len(words) == 1:
                    self._remember(head)
            elif head.text not in {"then", "else", "elif", "do", "!", "time"}:
                break
            words = words[1:]
        if not words:
            return []
        self.around.take(words, is_certain=self.nesting == 0)
        if words[0].text in _DECLARING:
            for word in words[1:]:
                self._remember(word)
            return []
        around = self.around
        return [Command(tuple(words), around.exported - emptied | assigned, self.values, around.folder)]

    def _remember(self, word: Word) -> None:
        found = ASSIGNMENT.match(word.text)
        if found is None or found[1] in self.values:
            return
        begins = word.start + self.text[word.start : word.end].find("=") + 1
        begins, ends = quoted_part(self.text, begins, word.end) or (begins, word.end)
        self._assign(found[0], Value(word.text[found.end() :], begins, max(begins, ends), word.is_known))

    def _assign(self, written: str, value: Value) -> None:
        found = ASSIGNMENT.match(written)
        is_certain = found is not None and not found[2] and self.nesting == 0 and self.depth == 0
        if found and is_certain and found[1] in self.assigned_once and found[1] not in self.used:
            self.values[found[1]] = value
