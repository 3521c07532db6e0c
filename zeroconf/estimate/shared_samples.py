"""What ranks that work on the same sequences send each other: DeepSpeed's AutoTP and Ulysses, counted in dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.estimate.activations import dtype_bytes
from zeroconf.estimate.families import family_of
from zeroconf.estimate.passes import Pass, each
from zeroconf.estimate.reductions import Sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import ModelSpec, Plan, Workload


def shared_samples(model: ModelSpec, workload: Workload, plan: Plan) -> Iterator[Pass]:
    """All of it in one optimizer step; ``model`` is one rank's share."""
    if workload.tensor_parallel_size > 1:
        yield from _tensor_parallel(model, workload, plan)
    if workload.sequence_parallel_size > 1:
        yield _exchanges(model, workload, plan)


def _tensor_parallel(model: ModelSpec, workload: Workload, plan: Plan) -> Iterator[Pass]:
    """All-reduces of the hidden states.

    Forward: the outputs of the attention's and the MLP's last layer (module_inject/layers.py: LinearAllreduce), of
    which recomputation repeats the first. Backward: the gradient of each other split layer's input. A vocabulary of its
    own at the end gathers its logits; a tied one is split in the embeddings too, which all-reduce. Llama-3-8B, 2048
    tokens: 7 x 32 + 1 = 225 calls.
    """
    family, steps, size = family_of(model), plan.gradient_accumulation_steps, workload.tensor_parallel_size
    tokens = workload.local_sequence_length * plan.micro_batch_size
    split_inputs = (1 if family.packed else 3) + (2 if model.gated_mlp and not family.packed else 1)
    calls = model.num_layers * (2 + split_inputs + plan.activation_checkpointing)
    calls += 2 if model.tied_embeddings else 1
    width = dtype_bytes(workload)
    hidden = Sent(calls * tokens * model.hidden_size, calls).times(steps)
    yield Pass("all-reduce", f"hidden states of split layers, {each(steps)}", hidden, width, size)
    if not model.tied_embeddings:
        logits = Sent(tokens * model.vocab_size, 1).times(steps)
        yield Pass("all-gather", f"logits of split layers, {each(steps)}", logits, width, size)


def _exchanges(model: ModelSpec, workload: Workload, plan: Plan) -> Pass:
    """Queries, keys, values and the attention's output, from parts of the sequence to shares of the heads and back.

    sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF: four all-to-alls in a block's forward, four in its backward.
    Fewer key heads than ranks are repeated. Llama-3.2-1B, 2048 tokens on two ranks, recomputed: 12 x 16 calls.
    """
    steps, size = plan.gradient_accumulation_steps, workload.sequence_parallel_size
    tokens = workload.local_sequence_length * plan.micro_batch_size
    passes = 3 if plan.activation_checkpointing else 2
    keys = max(model.num_key_value_heads, size) * model.head_dim
    elements = 2 * (model.query_size + keys) * tokens * model.num_layers * passes
    sent = Sent(elements, 4 * model.num_layers * passes).times(steps)
    return Pass("all-to-all", f"sequences for heads, {each(steps)}", sent, dtype_bytes(workload), size)
