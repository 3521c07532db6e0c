"""Writes the published JSON Schemas of configuration files from the key tables.

A schema names what an editor should underline: unknown keys (DeepSpeed passes over most of them without a word),
removed keys, values that the key does not take, and an "auto" that neither the Trainer nor Accelerate replaces.
"""

from __future__ import annotations

import json
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BOUNDS = {
    "minimum": "minimum",
    "exclusive_minimum": "exclusiveMinimum",
    "maximum": "maximum",
    "exclusive_maximum": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
COMMENTS = "^($|[^A-Za-z0-9]|[Cc][Oo][Mm][Mm][Ee][Nn][Tt])"
Schema = dict[str, Any]


def ds_config_schema(table: Schema) -> Schema:
    """The schema of a DeepSpeed configuration."""
    top = _block("", table["blocks"][""])
    top["properties"] |= {name: {"description": f"Read by {reader}."} for name, reader in table["elsewhere"].items()}
    return _head("DeepSpeed configuration", "ds_config.schema.json", table) | top | {"$defs": _definitions(table)}


def accelerate_schema(table: Schema) -> Schema:
    """The schema of an Accelerate configuration; one for SageMaker has keys of its own."""
    is_sagemaker = {"properties": {"compute_environment": {"const": "AMAZON_SAGEMAKER"}}}
    return _head("Accelerate configuration", "accelerate.schema.json", table) | {
        "if": is_sagemaker | {"required": ["compute_environment"]},
        "then": {"$ref": "#/$defs/sagemaker"},
        "else": {"$ref": "#/$defs/cluster"},
        "$defs": {"cluster": _block("cluster", table["blocks"][""])} | _definitions(table),
    }


def text(schema: Schema) -> str:
    """The schema as a file holds it."""
    return json.dumps(schema, indent=2) + "\n"


def _head(title: str, name: str, table: Schema) -> Schema:
    return {"$schema": DIALECT, "$id": name, "title": f"{title} ({table['releases'][-1]})", "type": "object"}


def _definitions(table: Schema) -> Schema:
    return {path: _block(path, block) for path, block in table["blocks"].items() if path}


def _block(path: str, block: Schema) -> Schema:
    """What a mapping must satisfy; the key that holds it says whether it may be something else."""
    required = [name for name, key in block["keys"].items() if key.get("required")]
    return {
        **({"title": path} if path else {}),
        "description": block["description"],
        "properties": {name: _key(key) for name, key in block["keys"].items()},
        **({"patternProperties": {COMMENTS: {}}} if block["unknown"] == "ignored" else {}),
        **({"required": required} if required else {}),
        "additionalProperties": block["unknown"] == "open",
    }


def _key(key: Schema) -> Schema:
    schema: Schema = {"description": _description(key)}
    if "default" in key:
        schema["default"] = key["default"]
    if "until" in key or "deprecated" in key or "dead" in key:
        schema["deprecated"] = True
    if "until" in key or "refused" in key:
        return schema | {"not": {}}
    given = _value(key)
    return schema | ({"anyOf": [given, {"const": "auto"}]} if key.get("auto") else given)


def _description(key: Schema) -> str:
    remarks = [key["description"]]
    if "alias_of" in key:
        remarks.append(f"Another name of {key['alias_of']}.")
    if "deprecated" in key:
        remarks.append(f"Use {key['deprecated']}." if key["deprecated"] != "nothing" else "Leave it out.")
    if "dead" in key:
        remarks.append(f"Without effect: {key['dead']}.")
    if "refused" in key:
        remarks.append(f"Always refused: {key['refused']}.")
    if "read_at" in key and len(key["read_at"]) < 3:
        remarks.append(f"Read at stage {' and '.join(map(str, key['read_at']))} only.")
    if "until" in key:
        remarks.append(f"Gone after {key['until']}.")
    elif "since" in key:
        remarks.append(f"Since {key['since']}.")
    return " ".join(remarks)


def _value(key: Schema) -> Schema:
    """What a value must be, "auto" aside."""
    types = key.get("type", [])
    schema: Schema = {"type": types[0] if len(types) == 1 else types} if types else {}
    schema |= {BOUNDS[name]: key[name] for name in BOUNDS if name in key}
    if "items" in key:
        schema["items"] = {"type": key["items"]}
    if "enum" in key:
        schema["enum"] = key["enum"] + [None] * ("null" in types)
    if "block" in key:
        schema["$ref"] = f"#/$defs/{key['block']}"
    return schema
