"""Facts and plans by hand: the shapes that the emit tests share."""

from __future__ import annotations

from typing import Any

from builders import A100_80, NVLINK3

from zeroconf.types import Cluster, Facts, Link, ModelSpec, Nvme, Plan, Versions, Workload

_ETHERNET = Link(
    name="100gbe",
    kind="ethernet",
    bandwidth_bytes_per_second=11e9,
    low_bandwidth_bytes_per_second=8e9,
    latency_seconds=3e-5,
    source="test",
)


def model(name: str = "8b") -> ModelSpec:
    """``tiny``, ``1b``, ``8b``, ``70b`` (dense, Llama 3 shapes) or ``moe`` (Mixtral 8x7B)."""
    shapes: dict[str, dict[str, int]] = {
        "tiny": {"num_parameters": 1_000_000, "num_layers": 2, "hidden_size": 64, "intermediate_size": 128},
        "1b": {"num_parameters": 1_235_814_400, "num_layers": 16, "hidden_size": 2048, "intermediate_size": 8192},
        "8b": {"num_parameters": 8_030_261_248, "num_layers": 32, "hidden_size": 4096, "intermediate_size": 14336},
        "70b": {"num_parameters": 70_553_706_496, "num_layers": 80, "hidden_size": 8192, "intermediate_size": 28672},
        "moe": {
            "num_parameters": 46_702_792_704,
            "num_layers": 32,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_experts": 8,
            "num_experts_per_token": 2,
        },
    }
    shape = shapes[name]
    return ModelSpec(
        name=name,
        architecture="MixtralForCausalLM" if name == "moe" else "LlamaForCausalLM",
        num_active_parameters=12_879_425_536 if name == "moe" else shape["num_parameters"],
        num_attention_heads=shape["hidden_size"] // 128 or 1,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=32_000 if name in ("moe", "tiny") else 128_256,
        tied_embeddings=name == "1b",
        max_sequence_length=8192,
        source="test",
        **shape,  # type: ignore[arg-type]
    )


def facts(
    name: str = "8b",
    *,
    num_nodes: int = 1,
    gpus_per_node: int = 8,
    reader: Any = "trainer",
    nvme: str | None = "/mnt/nvme",
    deepspeed: tuple[int, ...] = (0, 19, 8),
    **workload: Any,
) -> Facts:
    cluster = Cluster(
        name="test",
        num_nodes=num_nodes,
        gpus_per_node=gpus_per_node,
        gpu=A100_80,
        intra_node=NVLINK3,
        network=_ETHERNET if num_nodes > 1 else None,
        host_memory_bytes=2**40,
        nvme=nvme and Nvme(path=nvme, capacity_bytes=10**13, read_bytes_per_second=5e9, write_bytes_per_second=3e9),
    )
    work = {"sequence_length": 4096, "global_batch_size": 128} | workload
    return Facts(
        model=model(name),
        cluster=cluster,
        workload=Workload(**work),
        reader=reader,
        versions=Versions(deepspeed=deepspeed),
    )


def plan(stage: int = 2, offload: str = "none", **fields: Any) -> Plan:
    devices = {
        "none": {},
        "optimizer": {"offload_optimizer": "cpu"},
        "all": {"offload_optimizer": "cpu", "offload_param": "cpu"},
        "nvme": {"offload_optimizer": "nvme", "offload_param": "nvme"},
    }[offload]
    defaults = {
        "micro_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "overlap_comm": stage == 3,
        "reduce_bucket_size": 50_000_000,
        "max_live_parameters": 200_000_000,
        "max_reuse_distance": 200_000_000,
    }
    return Plan(stage=stage, **(defaults | devices | fields))
