"""Inventory files: a cluster described in YAML. The published schema is written from these models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zeroconf.errors import InputError
from zeroconf.inputs.text import did_you_mean, parse_yaml, read_text, shown, shown_path

if TYPE_CHECKING:
    from pathlib import Path

_FILE_LIMIT_BYTES = 1_000_000

Count = Annotated[int, Field(ge=1, le=100_000)]
Teraflops = Annotated[float, Field(gt=0, le=1_000_000)]
Size = Annotated[str, Field(description="with its unit: 512GiB, 80GB", max_length=100)]
Rate = Annotated[str, Field(description="with its unit: 25Gbps, 3GB/s", max_length=100)]


class Strict(BaseModel):
    """Refuses unknown keys and silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class GpuEntry(Strict):
    """A GPU: a known name whose figures may be replaced, or a new one with its figures."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    memory: Size | None = Field(None, description="what PyTorch reports as total, with its unit: 79.1GiB")
    bf16_tflops: Teraflops | None = Field(None, description="dense peak; leave out on cards without bf16")
    fp16_tflops: Teraflops | None = Field(None, description="dense peak, for cards without bf16")
    fp32_tflops: Teraflops | None = Field(None, description="peak without TF32, which PyTorch leaves off")
    memory_bandwidth: Rate | None = None
    host_link: Rate | None = Field(None, description="GPU to host memory, one direction: 22GB/s")
    max_efficiency: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="share of the peak that a transformer's matrix products reach"
    )


class NvmeEntry(Strict):
    """A node's local NVMe."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    capacity: Size
    read: Rate | None = None
    write: Rate | None = None


class NetworkEntry(Strict):
    """A link between nodes, all of a node's ports together."""

    bandwidth: Rate
    measured: bool = Field(False, description="what an all-reduce reaches (busbw of nccl-tests), not the line rate")
    latency: Annotated[str, Field(description="one hop: 5us", max_length=100)] | None = None


class UnknownEntry(Strict):
    """A key that a probe could not know."""

    key: Annotated[str, Field(min_length=1, max_length=100)]
    why: Annotated[str, Field(max_length=2000)]


class Inventory(Strict):
    """A cluster of equal nodes with equal GPUs. The last keys are what ``zeroconf detect`` says about the others."""

    nodes: Count = 1
    gpus_per_node: Count
    gpu: Annotated[str, Field(min_length=1, max_length=100)] | GpuEntry
    host_memory: Size | None = Field(None, description="per node, with its unit: 512GiB")
    nvme: NvmeEntry | None = None
    intra_node: Annotated[str, Field(max_length=100)] | None = Field(None, description="nvlink, pcie4 or a rate")
    network: Annotated[str, Field(max_length=100)] | NetworkEntry | None = Field(
        None, description="a class (100gbe, ib-ndr), a rate (25Gbps), or bandwidth and latency"
    )
    written_as: Literal["zeroconf/detect/1"] | None = Field(None, alias="schema")
    sources: dict[str, str] = Field({}, description="where each value came from")
    unknown: list[UnknownEntry] = Field([], description="what could not be known, and the cure")
    notes: list[str] = []


def json_schema() -> dict[str, Any]:
    """The published schema of an inventory file."""
    schema = Inventory.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "zeroconf inventory"}


def detected_json_schema() -> dict[str, Any]:
    """The published schema of ``zeroconf detect --json``: an inventory, of a machine that may have no GPU."""
    required = ["schema", "nodes", "sources", "unknown", "notes"]
    return {**json_schema(), "$id": "zeroconf/detect/1", "title": "zeroconf detect --json", "required": required}


_MODELS = (Inventory, GpuEntry, NvmeEntry, NetworkEntry, UnknownEntry)
# what people write for them
_ALSO_CALLED = {
    "ram": "host_memory",
    "memory_per_node": "host_memory",
    "host_ram": "host_memory",
    "gpus": "gpus_per_node",
    "num_gpus": "gpus_per_node",
    "num_nodes": "nodes",
    "gpu_type": "gpu",
    "interconnect": "network",
    "disk": "nvme",
    "nvlink": "intra_node",
}
_EXAMPLES = {"gpu": "gpu: A100-80GB", "gpus_per_node": "gpus_per_node: 8"}
_KEYS = sorted({field.alias or name for model in _MODELS for name, field in model.model_fields.items()})


def _explain(error: ValidationError) -> str:
    """The first problem in words; of a union (a name or a mapping), the one that reaches deepest."""
    # an unknown key is the likeliest cause of a missing one
    errors = sorted(error.errors(include_url=False), key=lambda item: item["type"] == "missing")
    same_key = [item for item in errors if item["loc"][:1] == errors[0]["loc"][:1]]
    found = max(same_key, key=lambda item: len(item["loc"]))
    key = ".".join(str(part) for part in found["loc"] if part in _KEYS or isinstance(part, int)) or "the file"
    if found["type"] == "extra_forbidden":
        unknown = str(found["loc"][-1])
        meant = _ALSO_CALLED.get(unknown.lower())
        hint = f" (it is called {meant})" if meant else did_you_mean(unknown, _KEYS)
        return f"key '{shown(unknown)}' is not known{hint}"
    if found["type"] == "missing":
        missing = str(found["loc"][-1])
        example = _EXAMPLES.get(missing)
        return f"'{missing}' is missing" + (f"; write {example}" if example else "")
    return f"'{key}': {found['msg'].lower()}, not {shown(found['input'])}"


def read_inventory(path: Path) -> Inventory:
    """The inventory in a YAML (or JSON) file.

    Raises:
        InputError: unreadable, no YAML, unknown or missing keys, or a value of the wrong type.
    """
    where = shown_path(path)
    text = read_text(path, _FILE_LIMIT_BYTES)
    values = parse_yaml(text, where)
    if not isinstance(values, dict):
        msg = f"{where}: an inventory is a mapping with gpus_per_node and gpu"
        raise InputError(msg)
    try:
        return Inventory.model_validate(values)
    except ValidationError as error:
        msg = f"{where}: {_explain(error)}"
        raise InputError(msg) from error
