"""Published runs as the estimate's facts: ``data/measured.csv``, and why ``data/measured_unused.csv`` is left out.

A row holds what its public source says; ``note`` names what was inferred. Runs of other engines than DeepSpeed are read
as the plan that does most nearly the same, by one rule for each engine (``_buffers``), never row by row.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.lora import with_lora
from zeroconf.types import Cluster, Estimate, ModelSpec, Plan, Workload
from zeroconf.units import GIB

DATA = Path(__file__).parent / "data"
# where a source does not say what joins its nodes: what these GPUs' nodes have most often
_ASSUMED_NETWORK = {"A100": "roce-1600", "H100": "roce-3200", "V100": "100gbe"}
Row = dict[str, str]


def rows(name: str = "measured") -> list[Row]:
    """The rows of ``data/NAME.csv``, as text."""
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def model(row: Row) -> ModelSpec:
    """The row's shape."""
    heads, hidden = int(row["heads"]), int(row["hidden"])
    return ModelSpec(
        name=row["model"],
        architecture=_architecture(row),
        num_parameters=int(row["num_parameters"]),
        num_active_parameters=int(row["num_parameters"]),
        num_layers=int(row["layers"]),
        hidden_size=hidden,
        intermediate_size=int(row["intermediate"]),
        num_attention_heads=heads,
        num_key_value_heads=int(row["key_value_heads"]),
        head_dim=hidden // heads,
        vocab_size=int(row["vocabulary"]),
        tied_embeddings=row["tied"] == "yes",
        max_sequence_length=None,
        gated_mlp=row["gated"] == "yes",
        source=row["source"],
    )


def _architecture(row: Row) -> str:
    if row["gated"] == "yes":
        return "llama"
    return "mpt" if row["model"].startswith("MPT") else "gpt2"


def cluster(row: Row) -> Cluster:
    """The row's GPUs."""
    per_node = int(row["gpus_per_node"])
    nodes = int(row["gpus"]) // per_node
    written = f"{nodes}x{per_node}x{row['gpu']}" if nodes > 1 else f"{per_node}x{row['gpu']}"
    network = row["network"] or None
    read = read_cluster(written, network=_ASSUMED_NETWORK[row["gpu"][:4]] if network == "unknown" else network)
    if not isinstance(read, Cluster):
        msg = f"{row['id']}: no number of GPUs"
        raise TypeError(msg)
    return read


def workload(row: Row, spec: ModelSpec) -> Workload:
    """The row's batch, precision and attention; adapters on every linear layer where it trains adapters."""
    lora_rank = int(row["lora_rank"]) if row["lora_rank"] else None
    return Workload(
        sequence_length=int(row["sequence_length"]),
        global_batch_size=int(row["micro_batch"]) * int(row["accumulation"]) * int(row["gpus"]),
        precision=row["precision"],  # type: ignore[arg-type]
        attention=row["attention"],  # type: ignore[arg-type]
        cross_entropy="fused" if row["loss"] == "fused" else "torch",
        lora_rank=lora_rank,
        quantize="nf4" if row.get("quantize") else None,
        trainable_parameters=with_lora(spec, lora_rank) if lora_rank else None,
    )


def plan(row: Row, spec: ModelSpec) -> Plan:
    """The row's stage, offload, batch and buffers."""
    chosen = Plan(
        stage=int(row["stage"]),
        offload_optimizer=row["offload_optimizer"],  # type: ignore[arg-type]
        offload_param=row["offload_param"],  # type: ignore[arg-type]
        micro_batch_size=int(row["micro_batch"]),
        gradient_accumulation_steps=int(row["accumulation"]),
        activation_checkpointing=row["checkpointing"] == "full",
    )
    return replace(chosen, **_buffers(row, spec))


def _buffers(row: Row, spec: ModelSpec) -> dict[str, Any]:
    """DeepSpeed's as the source sets them; FSDP gathers one block and the next, and reduces block by block."""
    if "FSDP" in row["framework"]:
        block = spec.layer_parameters
        return {
            "reduce_bucket_size": block,
            "prefetch_bucket_size": block,
            "max_live_parameters": block,
            "max_reuse_distance": 0,
            "param_persistence_threshold": 0,
        }
    fields = {
        "reduce_bucket_size": row["reduce_bucket"],
        "prefetch_bucket_size": row["prefetch_bucket"],
        "param_persistence_threshold": row["persistence_threshold"],
        "max_live_parameters": row["max_live"],
    }
    if row["framework"] == "nanotron":
        return {"fp32_gradients": True}
    return {key: int(value) for key, value in fields.items() if value} | {"overlap_comm": row["overlap_comm"] == "yes"}


def predicted(row: Row) -> Estimate:
    """The estimate of a row."""
    spec = model(row)
    return estimate(spec, cluster(row), workload(row, spec), plan(row, spec))


def comparable_bytes(row: Row, cost: Estimate) -> int:
    """What the source measured, as the estimate has it.

    nvidia-smi shows all of it; ``max_memory_allocated`` and ``max_memory_reserved`` leave context and NCCL out. Where
    the source does not say, it is read as reserved: what training scripts log most.
    """
    gpu = cost.gpu
    if row["memory_kind"] == "nvidia-smi":
        return gpu.peak_reserved_bytes
    peak = gpu.peak_allocated_bytes if row["memory_kind"] == "allocated" else gpu.peak_reserved_bytes
    return peak - gpu.peak.overhead


def measured_bytes(row: Row) -> int:
    """The published peak per GPU."""
    return int(float(row["measured_gib"]) * GIB)
