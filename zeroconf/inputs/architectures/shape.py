"""What every family reads out of a configuration, and the sizes of the layers that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.types import ModelKind  # noqa: TC001  (typing.NamedTuple keeps its annotations)

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config


class Shape(NamedTuple):
    """A model's shape and exact counts, in elements; the fields are ModelSpec's."""

    num_parameters: int
    num_active_parameters: int
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tied_embeddings: bool
    max_sequence_length: int | None
    num_experts: int = 0
    num_experts_per_token: int = 0
    kind: ModelKind = "decoder"
    gated_mlp: bool = True
    assumptions: tuple[str, ...] = ()


def linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Elements of ``nn.Linear(inputs, outputs)``."""
    return inputs * outputs + (outputs if bias else 0)


def layer_norm(width: int) -> int:
    """Elements of ``nn.LayerNorm(width)``: weight and bias."""
    return 2 * width


def heads(config: Config, hidden_size: int) -> int:
    """The number of attention heads, which must divide the width of models without a ``head_dim``."""
    count = config.count("num_attention_heads", "n_head", high=100_000)
    if hidden_size % count:
        config.fail(f"'hidden_size' {hidden_size} is not a multiple of 'num_attention_heads' {count}")
    return count
