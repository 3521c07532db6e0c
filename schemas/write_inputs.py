"""Writes the schemas of inventory and project files, and of a detected inventory, from the code that reads them.

    python schemas/write_inputs.py

A test fails when the shipped files are stale.
"""

from __future__ import annotations

import json
from pathlib import Path

from zeroconf.inputs import inventory, project

HERE = Path(__file__).parent
SCHEMAS = {
    "inventory.schema.json": inventory.json_schema,
    "detect.schema.json": inventory.detected_json_schema,
    "project.schema.json": project.json_schema,
}


def text(name: str) -> str:
    """What a schema file should hold."""
    return json.dumps(SCHEMAS[name](), indent=2) + "\n"


if __name__ == "__main__":
    for name in SCHEMAS:
        (HERE / name).write_text(text(name), encoding="utf-8")
