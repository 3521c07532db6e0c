"""Writes the published JSON Schemas of configuration files from the key tables.

A schema names what an editor should underline: unknown keys (DeepSpeed passes over most of them without a word),
removed keys, values that the key does not take, and an "auto" that neither the Trainer nor Accelerate replaces.

No ``anyOf``: a validator then says only that none of the forms fits. Ranges apply to numbers only and properties to
objects only, so one schema with all the types names the fault itself.
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
    # beside a pattern, validators report additionalProperties as "does not match any of the regexes"
    comments: Schema = {"patternProperties": {COMMENTS: {}}, "unevaluatedProperties": False}
    return {
        **({"title": path} if path else {}),
        "description": block["description"],
        "properties": {name: _key(key) for name, key in block["keys"].items()},
        **({"required": required} if required else {}),
        **(comments if block["unknown"] == "ignored" else {"additionalProperties": block["unknown"] == "open"}),
    }


def _key(key: Schema) -> Schema:
    schema: Schema = {"description": _description(key)}
    if "default" in key:
        schema["default"] = key["default"]
    if "until" in key or "deprecated" in key or "dead" in key:
        schema["deprecated"] = True
    if "until" in key or "refused" in key:
        return schema | {"not": {"description": _refusal(key)}}  # validators quote it
    return schema | (_or_auto(_value(key)) if key.get("auto") else _value(key))


def _refusal(key: Schema) -> str:
    """Why no value is taken, and what to write instead."""
    reason = f"Removed after {key['until']}." if "until" in key else f"Always refused: {key['refused']}."
    successor = key.get("deprecated") or key.get("instead")
    return f"{reason} Use {successor}." if successor else reason


def _description(key: Schema) -> str:
    remarks = [key["description"]]
    if "alias_of" in key:
        remarks.append(f"Another name of {key['alias_of']}.")
    if "until" in key or "refused" in key:
        return f"{key['description']} {_refusal(key)}"
    if "deprecated" in key:
        remarks.append(f"Use {key['deprecated']}." if key["deprecated"] != "nothing" else "Leave it out.")
    if "dead" in key:
        remarks.append(f"Without effect: {key['dead']}.")
    if "read_at" in key and len(key["read_at"]) < 3:
        remarks.append(f"Read at stage {' and '.join(map(str, key['read_at']))} only.")
    if "since" in key:
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
    if "words" in key:
        schema |= {"if": {"type": "string"}, "then": {"enum": key["words"]}}
    if "not_zero" in key:
        schema["not"] = {"const": 0}
    if "block" in key:
        schema["$ref"] = f"#/$defs/{key['block']}"
    return schema


def _or_auto(schema: Schema) -> Schema:
    """The same, or the word "auto"."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if types == ["boolean"]:
        return {"enum": [True, False, "auto"]}
    taken = {"type": list(dict.fromkeys([*types, "string"]))}
    if "enum" in schema:
        return schema | taken | {"enum": [*schema["enum"], "auto"]}
    if "string" in types:
        return schema
    return schema | taken | {"if": {"type": "string"}, "then": {"enum": ["auto"]}}
