"""Ranks that work on the same sequences: DeepSpeed's sequence parallelism (Ulysses) and tensor parallelism (AutoTP)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # mypy's names; this runs by path, where the siblings stand alone
    from zeroconf.smoke.worker.fill import block
    from zeroconf.smoke.worker.rank import Session
else:
    from fill import block


def sequence_parallel_size(config: dict[str, Any]) -> int:
    """Ranks that share each sequence."""
    return int(config.get("sequence_parallel_size") or 1)


def ranks_per_sample(config: dict[str, Any]) -> int:
    """Ranks that work on the same sequences."""
    return sequence_parallel_size(config) * int(block(config, "tensor_parallel").get("autotp_size") or 1)


def share_sequences(session: Session, config: dict[str, Any], model: Any) -> Any:
    """The groups of ranks that share each sequence, for ``deepspeed.initialize``, as Accelerate makes them, or None.

    Each rank then has its part of a sequence, and in attention its share of the heads for all of it.
    """
    size = sequence_parallel_size(config)
    if size == 1:
        return None
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    if session.dry:
        _count_exchanges(session, size)
    return UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=model,
        core_attn_implementation=model.config._attn_implementation,  # noqa: SLF001  (what Transformers looks up)
        sequence_parallel_size=size,
        micro_batch_size=config["train_micro_batch_size_per_gpu"],
        seq_length_is_variable=True,
    )


def _count_exchanges(session: Session, size: int) -> None:
    """The exchange is an operator of its own, which for fake tensors sends nothing."""
    from deepspeed.sequence import layer

    plain = layer._dim_zero_all_to_all_op  # noqa: SLF001

    def counted(whole: Any, group_name: str) -> Any:
        session.sent.add("all-to-all", [whole], size)
        return plain(whole, group_name)

    layer._dim_zero_all_to_all_op = counted  # noqa: SLF001


def share_of(batch: dict[str, Any], config: dict[str, Any], rank: int) -> dict[str, Any]:
    """This rank's part of each sequence, with its positions, which attention gathers."""
    size = sequence_parallel_size(config)
    if size == 1 or "input_ids" not in batch:
        return batch
    import torch

    ids = batch["input_ids"]
    length = -(-ids.shape[1] // size)
    start = (rank % size) * length
    positions = torch.arange(start, start + length, device=ids.device).expand(ids.shape[0], -1)
    part = {name: batch[name][:, :length].contiguous() for name in ("input_ids", "labels")}
    return part | {"position_ids": positions.contiguous()}
