"""Work grows with the file, not with its square: counted in Python's instructions, which no busy machine changes."""

from __future__ import annotations

import json
import sys

import pytest

from zeroconf.document.read import parse_document
from zeroconf.lint.check import Checked
from zeroconf.lint.document import lint_document
from zeroconf.lint.fix import Fixed, fix_document

ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n"


def _object(members):
    return '{"train_batch_size": 8, ' + ", ".join(members) + "}"


SHAPES = {
    "one key many times": lambda n: ("x.json", _object(['"steps_per_print": 1'] * n)),
    "one key many times in YAML": lambda n: ("x.yaml", ACCELERATE + "num_processes: 8\n" * n),
    "unknown keys": lambda n: ("x.json", _object(f'"own_key_{i}": 1' for i in range(n))),
    "refused keys": lambda n: (
        "x.json",
        _object(['"zero_optimization": {"stage": 2'] + [f'"a{i}": 1' for i in range(n)]) + "}",
    ),
    "mistyped keys": lambda n: ("x.json", _object(['"gradient_cliping": 1'] * n)),
    "misplaced keys": lambda n: ("x.json", _object(f'"own_{i}": {{"steps_per_print": 1}}' for i in range(n))),
    "autos": lambda n: (
        "x.json",
        json.dumps({"zero_optimization": {"stage": 2}, **{f"k{i}": "auto" for i in range(n)}}),
    ),
    "HJSON": lambda n: ("x.json", "{train_batch_size: 8\n" + "".join(f"k{i}: 'a' // b\n" for i in range(n)) + "}"),
    "keys of Accelerate": lambda n: ("x.yaml", ACCELERATE + "".join(f"own_key_{i}: 1\n" for i in range(n))),
    "fields of Accelerate": lambda n: (
        "x.yaml",
        ACCELERATE + "deepspeed_config:\n" + "".join(f"  own_key_{i}: 1\n" for i in range(n)),
    ),
    "keys in YAML": lambda n: ("x.yaml", "zero_optimization:\n  stage: 2\n" + "".join(f"k{i}: 1\n" for i in range(n))),
    "anchors": lambda n: ("x.yaml", ACCELERATE + "".join(f"k{i}: &a{i} {{x: 1}}\n" for i in range(n))),
    "ignores": lambda n: (
        "x.yaml",
        "zero_optimization:\n  stage: 2\n" + "".join(f"k{i}: 1 # zeroconf: ignore[ZC104] mine\n" for i in range(n)),
    ),
    "hosts": lambda n: ("hostfile", "node-1 slots=8\n" * n),
    "quotes": lambda n: ("x.json", "''" * n),
}
SIZE = 100


def _document(shape, size):
    path, text = SHAPES[shape](size)
    return parse_document(text.encode(), path)


def _instructions(shape, size):
    """How many of Python's instructions reading and linting take."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        lint_document(_document(shape, size))
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_linting_four_times_the_file_is_four_times_the_work(shape):
    _instructions(shape, 3)  # tables are read once, and Python 3.12 counts from the second time on
    small, large = (_instructions(shape, size) for size in (SIZE, 4 * SIZE))
    assert large < 5 * small


def test_what_is_no_dict_is_not_taken_apart_as_one():
    _instructions("quotes", 3)
    assert _instructions("quotes", 5000) == _instructions("quotes", 100)


@pytest.mark.parametrize("shape", ["one key many times", "unknown keys", "mistyped keys", "hosts", "HJSON"])
def test_fixes_go_together_in_few_rounds(shape):
    rounds = 0

    def counted(document):
        nonlocal rounds
        rounds += 1
        linted = lint_document(document)
        return Checked(linted, 0, linted.findings)

    document = _document(shape, 3000)
    fixed = fix_document(Fixed(document, counted(document)), counted, unsafe=True)
    assert len(fixed.cured) >= 2999
    assert rounds < 20
