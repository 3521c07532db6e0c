"""The shipped output schemas are those of today's value types."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCHEMAS = Path(__file__).parent.parent / "schemas"


def test_output_schemas_are_fresh():
    spec = importlib.util.spec_from_file_location("write_outputs", SCHEMAS / "write_outputs.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    for name, schema in writer.schemas().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == writer.text(schema), "run schemas/write_outputs.py"
