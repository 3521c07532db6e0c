"""Writes the schemas of the ``--json`` outputs from the value types: ``python schemas/write_outputs.py``.

A test fails when the files are stale.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter

from zeroconf import choices, types
from zeroconf.rules.registry import Confidence, Severity

HERE = Path(__file__).parent
BYTES = {"type": "integer", "minimum": 0}
PARTS = tuple(types.MemoryParts.__dataclass_fields__)
MOMENTS = get_args(types.Moment)


def exact(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with all of these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items: dict[str, Any]) -> dict[str, Any]:
    """A list of one kind."""
    return {"type": "array", "items": items}


def of_type(value_type: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """A dataclass's schema as it is written, its parts added to ``definitions``."""
    schema = TypeAdapter(value_type).json_schema(mode="serialization", ref_template="#/$defs/{model}")
    for name, definition in schema.pop("$defs", {}).items():
        definitions[name] = closed(definition)
    return closed(schema)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The object schema without room for other keys, titles and defaults."""
    properties = {}
    for name, value in schema.get("properties", {}).items():
        properties[name] = {key: item for key, item in value.items() if key not in {"title", "default"}}
    return {**exact(properties), "description": schema.get("description", "")} if properties else schema


def estimate_definition(definitions: dict[str, Any]) -> dict[str, Any]:
    """One estimate; bytes per GPU (host and NVMe per node), seconds per optimizer step."""
    definitions["Collective"] = of_type(types.Collective, definitions)
    definitions["Transfer"] = of_type(types.Transfer, definitions)
    definitions["StepTime"] = of_type(types.StepTime, definitions)
    return {
        "gpu": exact(
            {
                **dict.fromkeys(PARTS, BYTES),
                "peak_allocated_bytes": BYTES,
                "peak_reserved_bytes": BYTES,
                "peak_moment": {"enum": list(MOMENTS)},
                "moments": exact(dict.fromkeys(MOMENTS, BYTES)),
                "textbook_bytes": BYTES,
            }
        ),
        "host": exact({"pinned_bytes": BYTES, "pageable_bytes": BYTES, "peak_bytes": BYTES}),
        "nvme": exact({"bytes": BYTES}),
        "disk": exact({"checkpoint_bytes": BYTES}),
        "traffic": exact(
            {
                "per_collective": array({"$ref": "#/$defs/Collective"}),
                "bytes_per_gpu_per_step": BYTES,
                "textbook_elements": BYTES,
                "transfers": array({"$ref": "#/$defs/Transfer"}),
            }
        ),
        "step": {"$ref": "#/$defs/StepTime"},
        "capacity_bytes": BYTES,
        "verdict": {"enum": list(get_args(types.Verdict))},
        "interval": exact({"low_bytes": BYTES, "high_bytes": BYTES}),
    }


def common() -> tuple[dict[str, Any], dict[str, Any]]:
    """Shared definitions, and the properties of one estimate."""
    definitions: dict[str, Any] = {}
    cluster = of_type(types.Cluster, definitions)
    cluster["properties"]["num_gpus"] = BYTES
    cluster["required"].append("num_gpus")
    definitions["Plan"] = of_type(types.Plan, definitions)
    versions = exact({key: {"type": "string"} for key in ("deepspeed", "accelerate", "source")})
    definitions["Facts"] = exact(
        {
            "model": of_type(types.ModelSpec, definitions),
            "cluster": cluster,
            "workload": of_type(types.Workload, definitions),
            "for": {"enum": list(get_args(choices.Reader))},
            "measured": {"type": ["string", "null"]},
            "versions": versions,
        }
    )
    estimate = estimate_definition(definitions)
    definitions["Estimate"] = exact(estimate)
    return definitions, estimate


def document(name: str, title: str, body: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A whole schema file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"zeroconf/{name}/1",
        "title": title,
        **body,
        "$defs": dict(sorted(definitions.items())),
    }


def nullable(reference: str) -> dict[str, Any]:
    """The definition or null."""
    return {"anyOf": [{"$ref": f"#/$defs/{reference}"}, {"type": "null"}]}


def schemas() -> dict[str, dict[str, Any]]:
    """File name to content."""
    definitions, estimate = common()
    facts, plan = {"$ref": "#/$defs/Facts"}, {"$ref": "#/$defs/Plan"}
    one = exact({"schema": {"const": "zeroconf/estimate/1"}, "facts": facts, "plan": plan, **estimate})
    stage = exact({"plan": plan, **estimate})
    table = exact({"schema": {"const": "zeroconf/estimate/1"}, "facts": facts, "stages": array(stage)})
    estimate_document = document("estimate", "zeroconf estimate --json", {"oneOf": [one, table]}, definitions)

    definitions, _ = common()
    limits = [*get_args(types.Limit), None]
    definitions["Candidate"] = exact(
        {
            "plan": plan,
            "estimate": {"$ref": "#/$defs/Estimate"},
            "rejected_by": {"enum": limits},
            "because": {"type": "string"},
        }
    )
    reason = of_type(types.Reason, definitions)
    decision = exact(
        {
            "schema": {"const": "zeroconf/generate/1"},
            "facts": facts,
            "plan": nullable("Plan"),
            "verdict": {"enum": list(get_args(types.Verdict))},
            "reasons": array(reason),
            "estimate": nullable("Estimate"),
            "candidates": array({"$ref": "#/$defs/Candidate"}),
            "faster_tight": nullable("Candidate"),
            "cures": array(of_type(types.Cure, definitions)),
            "notes": array({"type": "string"}),
            "files": {"type": "object", "additionalProperties": {"type": "string"}},
            "verified": {"type": ["string", "null"]},
            "changes": array(of_type(types.Change, definitions)),
        }
    )
    smallest = "the smallest of those tried that is comfortable, in nodes of up to 8 that have what the cluster has"
    needed = exact(
        {
            "schema": {"const": "zeroconf/gpus-needed/1"},
            "facts": facts,
            "stages": array(
                exact(
                    {
                        "stage": {"enum": [0, 1, 2, 3]},
                        "num_gpus": {"type": ["integer", "null"], "description": smallest},
                        "plan": nullable("Plan"),
                        "estimate": nullable("Estimate"),
                    }
                )
            ),
        }
    )
    generate_document = document("generate", "zeroconf generate --json", {"oneOf": [decision, needed]}, definitions)
    return {
        "estimate.schema.json": estimate_document,
        "generate.schema.json": generate_document,
        "lint.schema.json": lint_document(),
    }


def lint_document() -> dict[str, Any]:
    """The report of the linter: lines and columns from 1, columns in code points, ends exclusive."""
    string, whole = {"type": "string"}, {"type": "integer", "minimum": 1}
    place = dict.fromkeys(("line", "column", "end_line", "end_column"), whole)
    code = {"type": "string", "pattern": r"^ZC\d{3}$"}
    fix = exact({"title": string, "safe": {"type": "boolean"}, "edits": array(exact({**place, "text": string}))})
    finding = exact(
        {
            "path": string,
            **place,
            "pointer": {"type": "string", "description": "RFC 6901"},
            "code": code,
            "name": string,
            "severity": {"enum": list(get_args(Severity))},
            "confidence": {"enum": list(get_args(Confidence))},
            "message": string,
            "fix": nullable("Fix"),
            "help": {"type": "string", "description": "the command that prints the rule's page"},
        }
    )
    skipped = exact(
        {
            "path": string,
            "code": {"anyOf": [code, {"type": "null"}], "description": "null: the whole file"},
            "needs": string,
        }
    )
    report = exact(
        {
            "schema": {"const": "zeroconf/lint/1"},
            "findings": array({"$ref": "#/$defs/Finding"}),
            "skipped": array(skipped),
            "files": BYTES,
        }
    )
    return document("lint", "zeroconf lint --format json", report, {"Finding": finding, "Fix": fix})


def text(schema: dict[str, Any]) -> str:
    """The file's text."""
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    for file_name, content in schemas().items():
        (HERE / file_name).write_text(text(content), encoding="utf-8")
