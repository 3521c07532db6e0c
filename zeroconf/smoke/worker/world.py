"""The process group: the ranks that a launcher started, or this process alone as one rank of many."""

from __future__ import annotations

import importlib
import os
import platform
from typing import Any

# the other ranks do not exist: DeepSpeed's check that all of them hold the same integers has nobody to ask
_CHECKS = ("deepspeed.runtime.zero.partitioned_param_coordinator", "deepspeed.runtime.zero.parameter_offload")
# what steers communication; nothing else of the environment is written down, as it may hold secrets
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "FI_", "GLOO_", "NCCL_", "OMP_NUM_THREADS", "TORCH_NCCL_", "UCX_")
_CHECK = "assert_ints_same_as_other_ranks"


def join(job: dict[str, Any], *, gpu: bool) -> None:
    """Joins the job's process group.

    A simulated rank has PyTorch's fake group, whose collectives return at once and leave buffers as they are, of
    the right size: what the rank holds is real, what it computes is not.
    """
    import deepspeed

    if job["mode"] == "real":
        deepspeed.init_distributed(dist_backend="nccl" if gpu else "gloo")
        return
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    rank, size = job["rank"], job["world_size"]
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": "0", "LOCAL_SIZE": "1"}
    # the deepspeed launcher's number of nodes and this one's
    os.environ |= {"CROSS_RANK": "0", "CROSS_SIZE": str(-(-size // job["gpus_per_node"]))}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    deepspeed.init_distributed(dist_backend="fake")
    for name in _CHECKS:
        module = importlib.import_module(name)
        if hasattr(module, _CHECK):
            setattr(module, _CHECK, lambda _ints: None)


def communication(*, gpu: bool) -> dict[str, Any]:
    """NCCL's release, the variables that steer communication, and the host: for the record."""
    import torch

    return {
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if gpu else None,
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)},
        "host": platform.node(),
    }


def be_alone(engine: Any) -> None:
    """Takes out tensor parallelism's check that all ranks of a group have the same batch: there is nobody to ask."""
    if (check := getattr(engine, "first_dataloader_check", None)) is not None:
        check.remove()
