"""DeepSpeed's Muon: hidden matrices with a momentum, the rest of the model with Adam, as two parameter groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.tensors import block_matrices
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.estimate.tensors import Matrix
    from zeroconf.types import ModelSpec, Plan

# zero/stage3.py: _muon_allgather_max_cached_bytes
_MAX_CACHED_BYTES: Final = 256 * 2**20
_MASTER_BYTES: Final = 4
_ADAM_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon:
    """What it keeps and needs on one GPU.

    ``largest_group`` is the larger of the two groups and ``touched`` the matrices on one rank, in elements.
    ``momentum_bytes`` and ``adam_bytes`` stay, ``cached_bytes`` are stage 3's buffers for all-gathers, which stay too,
    and ``working_bytes`` what the step needs there beside them.
    """

    largest_group: int
    touched: int
    momentum_bytes: int
    adam_bytes: int
    cached_bytes: int = 0
    working_bytes: int = 0


def muon_memory(
    model: ModelSpec, trainable: int, plan: Plan, world_size: int, *, adapters: bool, element_bytes: int
) -> Muon:
    """The groups are matrices outside of embeddings and output, and all others (set_optimizer_flags).

    Stage 0 keeps an fp32 momentum. Stages 1 and 2 keep one in the gradients' type, and a copy that is staged, of whole
    matrices that touch the shard (zero/stage_1_and_2.py: _muon_momentum_buffer, _muon_staging_momentum); stage 3 the
    shard's (zero/stage3.py: _create_momentum_buffer). Llama-3-8B: 6.98e9 elements in matrices, 1.05e9 others; stage 3
    on 8 GPUs: 1.75e9 bytes of momentum, 1.05e9 of Adam's.
    """
    block = block_matrices(model)
    matrices = trainable if adapters else min(trainable, model.num_layers * sum(one.elements for one in block))
    rest = trainable - matrices
    touched = min(matrices, max(ceil_div(matrices, world_size), *(one.elements for one in block)))
    momentum = {0: _MASTER_BYTES * matrices, 3: element_bytes * ceil_div(matrices, world_size)}
    groups = Muon(
        largest_group=max(matrices, rest),
        touched=touched,
        momentum_bytes=momentum.get(plan.stage, 2 * element_bytes * touched),
        adam_bytes=_ADAM_BYTES * ceil_div(rest, world_size if plan.stage else 1),
    )
    if plan.stage < 3 or world_size == 1 or adapters:
        return groups
    if plan.offload_optimizer == "none":
        cached, working = _gathered_in_chunks(block * model.num_layers, plan, world_size, element_bytes)
    else:
        cached, working = _gathered_at_once(min(matrices, plan.sub_group_size * world_size), world_size, element_bytes)
    return replace(groups, cached_bytes=element_bytes * cached, working_bytes=element_bytes * working)


def _gathered_at_once(whole: int, world_size: int, element_bytes: int) -> tuple[int, int]:
    """_apply_muon_updates_cpu_offload: gradients and momentums of a sub-group are gathered together, in elements.

    Their shares come from the host first, the gradients' in fp32.
    """
    share = ceil_div(whole, world_size)
    buffers = 2 * (whole + share)
    cached = buffers if element_bytes * buffers <= _MAX_CACHED_BYTES else 0
    return cached, 2 * whole + share + _MASTER_BYTES * share // element_bytes + buffers - cached


def _gathered_in_chunks(matrices: Sequence[Matrix], plan: Plan, world_size: int, element_bytes: int) -> tuple[int, int]:
    """_apply_muon_to_accumulated_grads: what all-gathers keep, and what the step needs beside it, in elements.

    Gradients are gathered in chunks of the reduce bucket: gradients, momentums and the chunk before, whose last update
    is still named, are whole. An all-gather's two buffers stay for the next one of its size, up to 256 MiB in all.
    """
    kept: list[int] = []
    working = before = 0
    for chunk in _chunks(matrices, plan.reduce_bucket_size):
        whole = sum(one.elements for one in chunk)
        share = ceil_div(whole, world_size)
        buffers = whole + share
        kept = [size for size in kept if size != buffers]
        passing = buffers
        if element_bytes * buffers <= _MAX_CACHED_BYTES:
            kept, passing = [*kept, buffers], 0
            while element_bytes * sum(kept) > _MAX_CACHED_BYTES:
                kept.pop(0)
        working = max(working, before + 2 * whole + share + max(passing, _rounds(chunk, world_size)))
        before = whole
    return sum(kept), working


def _chunks(matrices: Sequence[Matrix], limit: int) -> list[list[Matrix]]:
    """As many matrices as the limit in elements takes, or one."""
    chunks: list[list[Matrix]] = []
    taken = 0
    for one in matrices:
        if not chunks or taken + one.elements > limit:
            chunks.append([])
            taken = 0
        chunks[-1].append(one)
        taken += one.elements
    return chunks


def _rounds(chunk: Sequence[Matrix], world_size: int) -> int:
    """Elements that a chunk's updates need: a rank computes one matrix of each round, and all are sent to all.

    _muon_update_sub_group: unless they are as many as ranks and alike, updates and momentums are padded to the largest
    and gathered into a tensor for each rank, which are still there when the next round makes its own. 8 ranks, 11008 x
    4096 the largest: 2 x 8 x 45.1e6 elements, then 8 x 45.1e6 more.
    """
    most = before = 0
    for start in range(0, len(chunk), world_size):
        members = chunk[start : start + world_size]
        largest = max(one.elements for one in members)
        updating = 2 * before * (world_size + 1) + max(map(_orthogonalised, members))
        alike = len(members) == world_size and len(set(members)) == 1
        gathered = 0 if alike else 2 * largest + world_size * (before + largest + max(before, largest))
        most = max(most, updating, gathered)
        before = 0 if alike else largest
    return most


def _orthogonalised(matrix: Matrix) -> int:
    """Elements of one matrix's update: itself twice, five products of its shorter side.

    zero/muon/original_muon.py, zeropower_via_gram_newtonschulz: X and its successor; R, Z, Q and what replaces them.
    """
    shorter = min(matrix.rows, matrix.columns)
    return 2 * matrix.elements + 5 * shorter * shorter * matrix.matrices
