"""What a card holds beside PyTorch's tensors: CUDA context, NCCL's buffers, and what the caching allocator wastes.

Every figure stands here once, with its band, its public source and how sure it is; the memory that a card offers at
all is in ``inputs/data/gpus.csv``. Pinned host blocks are in ``host``. Nothing here was measured by this project yet:
``benchmarks/gpu_memory.py`` does so where there is a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from zeroconf.units import MIB

if TYPE_CHECKING:
    from zeroconf.types import Cluster, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Bytes with their band, where they come from, and whether somebody measured them."""

    value: int
    low: int
    high: int
    source: str
    confidence: Literal["measured", "assumed"]


# the context alone, before kernels are loaded, per architecture
CONTEXT: Final[dict[str, Figure]] = {
    "Hopper": Figure(
        value=534 * MIB,
        low=426 * MIB,
        high=640 * MIB,
        source="meta-pytorch/torchcomms#777: about 534 MiB a context on H100; the band is assumed",
        confidence="measured",
    ),
    "Ada": Figure(
        value=426 * MIB,
        low=287_047_680,
        high=534 * MIB,
        source="unslothai/unsloth-zoo#1053: 426 MiB on an RTX 6000 Ada with PyTorch 2.10; the band is assumed",
        confidence="measured",
    ),
    "Ampere": Figure(
        value=287_047_680,
        low=256 * MIB,
        high=543 * MIB,
        source="invoke-ai/InvokeAI#9413: 256 MiB on an RTX 3090 with PyTorch 2.7; pytorch/pytorch#86509: 287,047,680 "
        "bytes with one kernel; pytorch/pytorch#81257: 543 MiB",
        confidence="measured",
    ),
    # nobody's figure was found for other architectures: the middle and the ends of those above
    "": Figure(
        value=426 * MIB, low=256 * MIB, high=640 * MIB, source="between the architectures above", confidence="assumed"
    ),
}

# what training loads into the context: PyTorch loads kernels when they are first used (CUDA_MODULE_LOADING=LAZY)
KERNELS: Final = Figure(
    value=264_000_000,
    low=100_000_000,
    high=666_632_192 - 287_047_680,
    source="551 MB outside the allocator in optimum-benchmark's report cuda_pytorch_bert, less the 287 MB of "
    "pytorch/pytorch#86509; high: all kernels loaded at once (there: 666,632,192 bytes); low: assumed",
    confidence="assumed",
)

# one receive buffer of a connection on one channel: Simple 4 MiB (NCCL_BUFFSIZE), LL 512 KiB, LL128 4800 KiB, rounded
# up to the driver's 2 MiB (NCCL src/init.cc: computeBuffSizes; NVIDIA/nccl#1685 logs 10485760), and the sender's 2 MiB
NCCL_CONNECTION_BYTES: Final = (10 + 2) * MIB

# buffers of one communicator; "the memory usage is linearly tied to the number of channels" (NVIDIA/nccl#986)
COMMUNICATOR: Final[dict[str, Figure]] = {
    "nvlink": Figure(
        value=688 * MIB,
        low=24 * NCCL_CONNECTION_BYTES,
        high=2 * 688 * MIB,
        source="NVIDIA/nccl#964: 688 MB for a group of more than two A100 on NVLink, 544 for two; low: a ring alone on "
        "24 channels; high: a second communicator (NVIDIA/nccl#864 sees 1.6 GB in all)",
        confidence="measured",
    ),
    "pcie": Figure(
        value=8 * NCCL_CONNECTION_BYTES,
        low=2 * NCCL_CONNECTION_BYTES,
        high=544 * MIB,
        source="4 channels, each with a ring's and a tree's connection; low: 2 channels with a ring's only; high: what "
        "two A100 take on NVLink (NVIDIA/nccl#964)",
        confidence="assumed",
    ),
}

# PyTorch's caching allocator (c10/core/AllocatorConfig.h in torch 2.13; CUDACachingAllocator.cpp: get_allocation_size):
# blocks are rounded up to 512 bytes; those up to 1 MiB share segments of 2 MiB, those below 10 MiB segments of 20 MiB;
# larger ones get a segment of their own, rounded up to 2 MiB
BLOCK_BYTES: Final = 512
SMALL_SEGMENT_BYTES, LARGE_SEGMENT_BYTES = 2 * MIB, 20 * MIB
OWN_SEGMENT_BYTES: Final = 10 * MIB
SEGMENT_ROUNDING_BYTES: Final = 2 * MIB

# free memory inside segments that no request fits, as a share of what is allocated: assumed for steps that repeat the
# same shapes, where the band is 0 to 15 %. GMLake (arXiv 2401.08156) finds 15 % on average, up to 33 %, with
# recomputation, offload and LoRA together; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids most of it
FRAGMENTATION: Final = 0.01


def overhead(cluster: Cluster, plan: Plan) -> Figure:
    """Context, kernels and NCCL on one card: on the card, but outside PyTorch's counters.

    8 A100 on NVLink: 287e6 + 264e6 + 721e6 = 1.27e9 bytes, from 0.67e9 to 2.39e9.
    """
    parts = [CONTEXT.get(cluster.gpu.architecture, CONTEXT[""]), KERNELS]
    if cluster.num_gpus > 1:
        parts += _communicators(cluster, plan)
    return Figure(
        value=sum(part.value for part in parts),
        low=sum(part.low for part in parts),
        high=sum(part.high for part in parts),
        source="; ".join(part.source for part in parts),
        confidence="assumed",
    )


def _communicators(cluster: Cluster, plan: Plan) -> list[Figure]:
    """NCCL's buffers: one communicator of all ranks, one more for hpZ's groups.

    DeepSpeed clones the world's group and sends over the clone (utils/groups.py: _clone_world_group). A collective of
    the default group, such as a script's barrier, opens a second communicator: the high end.
    """
    nvlink = cluster.intra_node.kind == "nvlink" and cluster.gpus_per_node > 1
    one = COMMUNICATOR["nvlink" if nvlink else "pcie"]
    return [one, one] if plan.stage == 3 and plan.zero_hpz_partition_size > 1 else [one]


def reserved_bytes(allocated_bytes: int, num_tensors: int) -> int:
    """``torch.cuda.max_memory_reserved()`` of a peak held in so many tensors.

    Each tensor wastes half a rounding step on average, one segment of each shared kind is partly empty, and
    fragmentation comes on top. 60e9 bytes in 600 tensors: 61.3e9.
    """
    step = SEGMENT_ROUNDING_BYTES if allocated_bytes >= OWN_SEGMENT_BYTES * num_tensors else BLOCK_BYTES
    rounding = num_tensors * step // 2 + SMALL_SEGMENT_BYTES + LARGE_SEGMENT_BYTES
    return int(allocated_bytes * (1 + FRAGMENTATION)) + rounding
