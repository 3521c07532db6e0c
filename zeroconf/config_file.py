"""A configuration file as DeepSpeed or Accelerate reads it: what the estimate and the smoke test start from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroconf.document.read import parse_document
from zeroconf.errors import InputError
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.text import read_text, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.document.document import Document
    from zeroconf.inputs.ds_config import ConfigFile

_LARGEST_FILE_BYTES = 10_000_000
# accelerate/utils/environment.py: str_to_bool
_FALSE = {"n", "no", "f", "false", "off", "0"}
_UNREADABLE = {"syntax", "empty", "too-deep", "python-dict", "python-literal", "second-document"}


def read_config(path: Path) -> ConfigFile:
    """Reads what DeepSpeed takes (JSON, and its superset HJSON), a DeepSpeed block in a YAML, or an Accelerate YAML.

    An Accelerate YAML names a file, or holds its few inline fields.

    Raises:
        InputError: unreadable, malformed, or values of the wrong kind, NaN and Infinity among them.
    """
    content, zero_init = _content(path)
    read = parse_config(content, str(path), zero_init=zero_init)  # names the keys that it knows
    _check_finite(content, path)
    return read


def read_base(path: Path) -> ConfigFile:
    """A ds_config.json to start from.

    Raises:
        InputError: as ``read_config``, or it is no ds_config.json of its own.
    """
    document = _document(path)
    if document.root is None or document.configs != ((),):
        msg = f"{shown_path(path)}: a base is a ds_config.json; {document.note or 'this is another kind of file'}"
        raise InputError(msg)
    content = dict(document.root.plain())
    _check_finite(content, path)
    read = parse_config(content, str(path))
    return replace(read, has_comments=any(mark.what == "comment" for mark in document.marks))


def inline_content(content: Mapping[str, Any], path: str) -> tuple[dict[str, Any], bool]:
    """The ds_config that an Accelerate YAML's inline fields make, and whether stage 3's model is built partitioned.

    Raises:
        InputError: it has none.
    """
    inline = content.get("deepspeed_config")
    if not isinstance(inline, dict):
        msg = f"{path}: no deepspeed_config in this YAML; give a ds_config.json or an Accelerate YAML for DeepSpeed"
        raise InputError(msg)
    return _inline_config(inline, content), _zero_init(content)


def _content(path: Path) -> tuple[dict[str, Any], bool]:
    """The ds_config, and whether stage 3's model is built partitioned.

    Transformers does so unless an Accelerate YAML says otherwise (accelerate/utils/dataclasses.py: DeepSpeedPlugin).
    """
    document = _document(path)
    root = document.root
    inline = root.child("deepspeed_config") if root else None
    is_inline = inline is not None and inline.kind == "mapping" and inline.child("zero_optimization") is None
    if root and (document.kind == "accelerate" or is_inline):
        content = root.plain()
        return _from_accelerate(content, path), _zero_init(content)
    blocks = [block for block in (root.at(start) for start in document.configs) if block] if root else []
    if len(blocks) == 1:
        return dict(blocks[0].plain()), True
    why = document.note or (f"{len(blocks)} DeepSpeed blocks" if blocks else "no DeepSpeed configuration")
    msg = f"{shown_path(path)}: {why}; give a ds_config.json or an Accelerate YAML for DeepSpeed"
    raise InputError(msg)


def _document(path: Path) -> Document:
    """The file's values.

    Raises:
        InputError: it cannot be read, with the place.
    """
    document = parse_document(read_text(path, _LARGEST_FILE_BYTES).encode(), str(path))
    stops = [mark for mark in document.marks if mark.what in _UNREADABLE]
    for mark in stops if document.root is None else [mark for mark in stops if mark.what == "second-document"]:
        line, column = document.position(mark.start)
        problem = mark.detail or "a second YAML document"
        msg = f"{shown_path(path)}:{line}:{column}: not {document.syntax.upper()}: {problem}"
        raise InputError(msg)
    ours = document.root.child("schema") if document.root else None
    if ours is not None and str(ours.plain()).startswith("zeroconf/"):
        msg = f"{shown_path(path)}: this is what zeroconf --json prints, no configuration; generate's is under files"
        raise InputError(msg)
    return document


def _check_finite(content: Mapping[str, Any], path: Path) -> None:
    try:
        json.dumps(content, allow_nan=False, default=str)
    except ValueError:
        msg = f"{shown_path(path)}: NaN or Infinity, which are no numbers of JSON; write a number"
        raise InputError(msg) from None


def _zero_init(content: Mapping[str, Any]) -> bool:
    """``zero3_init_flag``, true when absent: ``accelerate launch`` passes it on as text."""
    inline = content.get("deepspeed_config")
    said = inline.get("zero3_init_flag") if isinstance(inline, dict) else None
    return str(said).lower() not in _FALSE


def _from_accelerate(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The JSON that the YAML names, or a ds_config built from its inline fields as DeepSpeedPlugin does."""
    made, _ = inline_content(content, str(path))
    named = content["deepspeed_config"].get("deepspeed_config_file")
    if not isinstance(named, str):
        return made
    target = Path(named) if Path(named).exists() else path.parent / named
    document = _document(target)
    if document.root is None or document.configs != ((),):
        msg = f"{path}: {named} is no ds_config.json"
        raise InputError(msg)
    return dict(document.root.plain())


def _inline_config(inline: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    precision = str(content.get("mixed_precision", "no")).lower()
    zero: dict[str, Any] = {"stage": inline.get("zero_stage", 2)}
    for ours, theirs in (("offload_optimizer", "offload_optimizer_device"), ("offload_param", "offload_param_device")):
        if theirs in inline:
            zero[ours] = {"device": str(inline[theirs]).lower()}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": inline.get("gradient_accumulation_steps", 1),
        "gradient_clipping": inline.get("gradient_clipping", 1.0),
        "zero_optimization": zero,
    }
    if precision in {"bf16", "fp16"}:
        config[precision] = {"enabled": True}
    return config
