"""What a file is, told by what it holds, not by its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroconf.document.document import Kind, Mark
    from zeroconf.document.node import Node, Path

_DEEPSPEED_ONLY = {
    "zero_optimization",
    "train_micro_batch_size_per_gpu",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "wall_clock_breakdown",
}
_DEEPSPEED = _DEEPSPEED_ONLY | {
    "train_batch_size",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "steps_per_print",
    "prescale_gradients",
    "communication_data_type",
    "activation_checkpointing",
    "fp16",
    "bf16",
}
_ACCELERATE_ONLY = {"compute_environment", "distributed_type"}
_ACCELERATE = _ACCELERATE_ONLY | {
    "debug",
    "deepspeed_config",
    "downcast_bf16",
    "dynamo_config",
    "enable_cpu_affinity",
    "fp8_config",
    "fsdp_config",
    "gpu_ids",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "megatron_lm_config",
    "mixed_precision",
    "num_machines",
    "num_processes",
    "rdzv_backend",
    "same_network",
    "tpu_use_cluster",
    "use_cpu",
}
_GPT_NEOX = {"pipe_parallel_size", "model_parallel_size", "num_layers", "num_attention_heads", "vocab_file"}
_MODEL = {"architectures", "model_type", "auto_map"}
_SCHEMA = {"$defs", "definitions", "properties", "additionalProperties"}
_KUBERNETES = {"apiVersion", "kind", "metadata"}
_BLOCK_NAMES = {"deepspeed", "deepspeed_config", "ds_config"}
_NUMERIC = {"stage", "enabled", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
_PLACEHOLDER = re.compile(r"\$\w+,?$|.*(?:\$\{[^}]*\}|\{\{.*\}\}|\{%)|<[\w ]+>$", re.DOTALL)
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]{2,},?$")
_TEMPLATE_TEXT = re.compile(r"\{\{[^{}\n]*\}\}|\{%|\$\{\w+\}|:\s*(?:\{\w+\}|\$\w+|<[\w ]+>)")
# in YAML words in capitals are values, such as LOCAL_MACHINE
_CAPITALS_IN_JSON = re.compile(r":\s*[A-Z]+(?:_[A-Z0-9]+)+\s*[,}\n]")
_HOST_LINE = re.compile(r"^[ \t]*[^\s#{\"':]+[ \t]+slots=\d", re.MULTILINE)
_HOSTFILE_NAME = re.compile(r"host[_-]?(?:file|list)|^hosts?(?:\.txt)?$", re.IGNORECASE)
_MARKERS = re.compile(
    rb"zero_?[oO]ptimization|train_micro_batch_size_per_gpu|trainMicroBatchSizePerG(?:pu|PU)|train_batch_size"
    rb"|deepspeed_config|distributed_type"
    rb"|compute_environment|zero_stage|[\"']?(?:fp16|bf16)[\"']?\s*:\s*\{|^[ \t]*[^\s#{\"':]+[ \t]+slots=\d",
    re.MULTILINE,
)
_LAUNCH = re.compile(
    rb"^[^#\n]*(?<![\w./-])(?:[\w./~-]*/)?"
    rb"(?:deepspeed|torchrun|accelerate[ \t]+launch|srun"
    rb"|--deepspeed(?:_config)?|python3?[ \t]+-m[ \t]+torch\.dist)"
    rb"(?=[ \t\\\r\n.=]|$)",
    re.MULTILINE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_BLOCK_DEPTH = 6


class Recognised(NamedTuple):
    """The kind of a file, the paths of its DeepSpeed blocks, and why it is not linted (empty when it is)."""

    kind: Kind
    configs: tuple[Path, ...] = ()
    note: str = ""


def snake_case(word: str) -> str:
    """A key as DeepSpeed would write it: ``trainBatchSize`` and ``train-batch-size`` as ``train_batch_size``."""
    return _HUMP.sub("_", word).lower().replace("-", "_")


def sniff(content: bytes) -> bool:
    """Whether bytes may be a file for the linter: a cheap test, for hooks that see every file of a repository.

    A hostfile counts by a ``host slots=N`` line, a script by a launch line; an empty configuration (``{}``) does not.
    """
    return _MARKERS.search(content) is not None or may_launch(content)


def may_launch(content: bytes) -> bool:
    """Whether bytes have a line that could start a training: a cheap test."""
    return _LAUNCH.search(content) is not None


def is_hostfile(text: str, path: str) -> bool:
    """Whether the text has entries of a hostfile, or only its name says so."""
    if _HOST_LINE.search(text):
        return True
    name = path.replace("\\", "/").rpartition("/")[2]
    return bool(_HOSTFILE_NAME.search(name)) and ("." not in name.strip(".") or name.lower().endswith(".txt"))


def recognise(root: Node | None, marks: Iterable[Mark], text: str, *, is_json: bool) -> Recognised:
    """The kind of a JSON or YAML text."""
    if root is None:
        if _TEMPLATE_TEXT.search(text) or (is_json and _CAPITALS_IN_JSON.search(text)):
            return Recognised("template", note="a template: its placeholders are not filled in")
        is_ours = is_json or _MARKERS.search(text.encode(errors="replace"))
        return Recognised("ds_config") if is_ours else Recognised("unknown", note=_UNKNOWN)
    keys = {member.key for member in root.members}
    if _is_gpt_neox(root, keys):
        return Recognised("foreign", note="a gpt-neox configuration: its keys are a superset of DeepSpeed's")
    if _is_schema(root, keys):
        return Recognised("foreign", note="a JSON Schema, not a configuration")
    found = _ours(root, keys, is_json=is_json)
    if found.kind != "unknown" and (reason := _template(root, found, marks)):
        return Recognised("template", note=reason)
    return found


MANIFEST: Final = "a Kubernetes manifest that holds neither a configuration nor a launch line in a literal block (|)"
_UNKNOWN = "neither a DeepSpeed nor an Accelerate configuration: none of their keys is in it"


def _ours(root: Node, keys: set[str], *, is_json: bool) -> Recognised:
    is_accelerate = keys & _ACCELERATE_ONLY or (len(keys & _ACCELERATE) > 1 and 2 * len(keys & _ACCELERATE) > len(keys))
    if is_accelerate and not keys & _DEEPSPEED_ONLY:
        return Recognised("accelerate")
    if _holds_own_words(keys) or (is_json and keys & _DEEPSPEED):
        return Recognised("ds_config", ((),))
    if blocks := tuple(_blocks(root)):
        return Recognised("ds_config", blocks)
    if is_json and not keys & _MODEL:
        return Recognised("ds_config", (_wrapped(root),))
    return Recognised("unknown", note=MANIFEST if keys >= _KUBERNETES else _UNKNOWN)


def _holds_own_words(keys: set[str]) -> bool:
    """Whether a key is one that only DeepSpeed has, also in another program's spelling (``zeroOptimization``)."""
    return any(snake_case(key) in _DEEPSPEED_ONLY for key in keys)


def _wrapped(root: Node) -> Path:
    """The way to the configuration in an object that holds nothing else; the empty one where that is not so."""
    inner = [member for member in root.members if not member.key.startswith(("_", "$"))]
    is_wrapper = len(inner) == 1 and any(member.key in _DEEPSPEED for member in inner[0].node.members)
    return (inner[0].key,) if is_wrapper else ()


def _is_gpt_neox(root: Node, keys: set[str]) -> bool:
    half = root.child("fp16")
    if half is not None and half.child("fp16") is not None:
        return True
    return bool(_GPT_NEOX & {key.replace("-", "_") for key in keys})


def _is_schema(root: Node, keys: set[str]) -> bool:
    named = root.child("$schema")
    is_meta = named is not None and isinstance(named.value, str) and "json-schema.org" in named.value
    return bool(keys & _SCHEMA) and (is_meta or {"type", "properties"} <= keys)


def _blocks(root: Node) -> Iterable[Path]:
    """The outermost mappings below the root that hold DeepSpeed's keys."""
    found: list[Path] = []
    for path, holder, node in root.walk():
        if len(path) > _MAX_BLOCK_DEPTH or node.kind != "mapping" or not path:
            continue
        if found and path[: len(found[-1])] == found[-1]:
            continue
        keys = {member.key for member in node.members}
        named = holder is not None and holder.key in _BLOCK_NAMES
        if _holds_own_words(keys) or (named and keys & _DEEPSPEED):
            found.append(path)
    return found


def _template(root: Node, found: Recognised, marks: Iterable[Mark]) -> str:
    """Why the file is a template; empty when it is none."""
    for mark in marks:
        if mark.what == "unquoted-string" and _CAPITALS.match(mark.detail):
            return f"a template: {mark.detail.rstrip(',')} is not filled in"
    for start in found.configs or ((),):
        block = root.at(start)
        for _, holder, node in block.walk() if block else ():
            key = holder.key if holder else ""
            if key == "stage" and node.kind == "sequence":
                return "an autotuning template: the stage is a list"
            if isinstance(node.value, str) and _is_placeholder(key, node.value):
                return f"a template: {node.value.rstrip(',')} is not filled in"
    return ""


def _is_placeholder(key: str, value: str) -> bool:
    return bool(_PLACEHOLDER.match(value)) or (key in _NUMERIC and bool(_CAPITALS.match(value)))
