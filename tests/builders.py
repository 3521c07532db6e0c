"""Models, clusters and workloads that tests share, written out so that no table is needed."""

from __future__ import annotations

from typing import Any

from zeroconf.types import Cluster, Gpu, Link, ModelSpec, Plan, Workload
from zeroconf.units import GIB

LLAMA_3_8B = ModelSpec(
    name="llama-3-8b",
    architecture="llama",
    num_parameters=8_030_261_248,
    num_active_parameters=8_030_261_248,
    num_layers=32,
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=128256,
    tied_embeddings=False,
    max_sequence_length=8192,
    source="test",
)
# the model and stage 3's limits of benchmarks/memory_oracle
ORACLE_LLAMA = ModelSpec(
    name="llama-7.5m",
    architecture="llama",
    num_parameters=7_475_456,
    num_active_parameters=7_475_456,
    num_layers=8,
    hidden_size=256,
    intermediate_size=704,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=64,
    vocab_size=2048,
    tied_embeddings=False,
    max_sequence_length=256,
    source="test",
)
ORACLE_LIMITS = {
    "max_live_parameters": 1_000_000,
    "max_reuse_distance": 0,
    "prefetch_bucket_size": 500_000,
    "param_persistence_threshold": 10_000,
}
NVLINK3 = Link(
    name="nvlink3",
    kind="nvlink",
    bandwidth_bytes_per_second=235e9,
    low_bandwidth_bytes_per_second=200e9,
    latency_seconds=3.4e-6,
    source="test",
)
GIGABIT = Link(
    name="1gbe",
    kind="ethernet",
    bandwidth_bytes_per_second=0.11e9,
    low_bandwidth_bytes_per_second=0.1e9,
    latency_seconds=45e-6,
    source="test",
)
A100_80 = Gpu(
    name="A100-SXM4-80GB",
    memory_bytes=int(79.15 * GIB),
    bf16=True,
    half_flops_per_second=312e12,
    single_flops_per_second=19.5e12,
    memory_bandwidth_bytes_per_second=2.039e12,
    max_efficiency=0.79,
    host_link_bytes_per_second=22e9,
    intra_node=NVLINK3,
    source="test",
)

# a config.json
TINY_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}


def cluster(num_nodes: int = 1, gpus_per_node: int = 8, **changes: Any) -> Cluster:
    """Nodes of A100-80GB, over gigabit Ethernet if there are several."""
    fields: dict[str, Any] = {
        "name": f"{num_nodes}x{gpus_per_node}xA100-80GB",
        "num_nodes": num_nodes,
        "gpus_per_node": gpus_per_node,
        "gpu": A100_80,
        "intra_node": NVLINK3,
        "network": GIGABIT if num_nodes > 1 else None,
        "node_name": f"{gpus_per_node}xA100-80GB",
    }
    return Cluster(**(fields | changes))


def workload(**changes: Any) -> Workload:
    """128 sequences of 4096 tokens in bf16."""
    fields: dict[str, Any] = {"sequence_length": 4096, "global_batch_size": 128}
    return Workload(**(fields | changes))


def plan(stage: int, **changes: Any) -> Plan:
    """One micro batch of one sequence, DeepSpeed's defaults otherwise."""
    fields: dict[str, Any] = {"micro_batch_size": 1, "gradient_accumulation_steps": 1}
    return Plan(stage=stage, **(fields | changes))
