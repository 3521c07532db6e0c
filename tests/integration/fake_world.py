"""This process as rank 0 of any number, on the CPU, without its peers: what the readers and judges run in.

Importing it sets what DeepSpeed, Accelerate and Transformers read at their import, so it comes first.
"""

from __future__ import annotations

import logging
import os

os.environ.update(
    DS_ACCELERATOR="cpu",
    RANK="0",
    LOCAL_RANK="0",
    WORLD_SIZE="1",
    MASTER_ADDR="127.0.0.1",
    MASTER_PORT="29599",
    TRANSFORMERS_VERBOSITY="error",
    ACCELERATE_TORCH_DEVICE="cpu",
)

import deepspeed
import torch._dynamo  # noqa: F401  (inside zero.Init it cannot be imported any more)
import torch.distributed as dist
from accelerate.state import AcceleratorState, PartialState
from deepspeed.utils import logger
from torch.testing._internal.distributed.fake_pg import FakeStore


def be_rank_0_of(world_size: int) -> None:
    """Joins a fake process group, whose collectives return at once; leaves the one before, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
        PartialState._reset_state()
        AcceleratorState._reset_state(reset_partial_state=True)
    os.environ["WORLD_SIZE"] = str(world_size)
    logger.setLevel(logging.CRITICAL)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # no minute of compiling for a fake group
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world_size)
    deepspeed.init_distributed(dist_backend="fake")
