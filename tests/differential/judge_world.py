"""The fake world of tests/integration at any size in turn, without compiled kernels, and with fp16 allowed."""

from __future__ import annotations

import copy
import functools
import logging
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", ACCELERATE_USE_CPU="true")
sys.path.insert(0, str(Path(__file__).parent.parent / "integration"))

from fake_world import be_rank_0_of  # isort: skip  (first: it sets what the libraries read at their import)

import cpuinfo
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.op_builder import builder
from deepspeed.ops.op_builder.cpu import AsyncIOBuilder, NotImplementedBuilder
from deepspeed.utils import groups

HIDDEN = 8
_GROUPS = {name: copy.copy(value) for name, value in vars(groups).items() if value is None or value in ({}, [])}
torch.set_num_threads(1)
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def at_world_size(size: int) -> None:
    """This process becomes rank 0 of a group of this size; what the libraries remember of another is forgotten."""
    be_rank_0_of(size)
    for name, value in _GROUPS.items():
        setattr(groups, name, copy.copy(value))


def _is_tensors(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, torch.Tensor) or _is_tensors(item) for item in value)
    )


class Kernels:
    """A stand-in for an optimizer's compiled kernels: does nothing, but takes numbers only, as pybind11 does."""

    def __getattr__(self, name: str) -> Any:
        def kernel(*values: Any) -> None:
            for value in values:
                if not isinstance(value, (int, float, torch.Tensor)) and not _is_tensors(value):
                    msg = f"{name}(): incompatible function arguments: {value!r}"
                    raise TypeError(msg)

        return kernel


def _load(self: Any, verbose: bool = True) -> Any:  # noqa: ARG001  (the signature that is called)
    if self.name in {"async_io", "gds", "pin_memory"}:
        msg = f"the judge has no {self.name}"
        raise NotJudgedError(msg)
    return Kernels()


class NotJudgedError(Exception):
    """Something that only another machine could tell."""


for op_builder in (builder.OpBuilder, NotImplementedBuilder, AsyncIOBuilder):
    op_builder.load = _load
cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)  # a second for each CPU optimizer
type(get_accelerator()).is_fp16_supported = lambda _self: True  # type: ignore[method-assign]


class Toy(torch.nn.Module):
    """Two layers and the configuration that "auto" buckets are derived from."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=HIDDEN)
        self.layers = torch.nn.Sequential(torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.layers(batch).float().sum()
