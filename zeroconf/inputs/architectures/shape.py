"""What every family reads out of a configuration, and the sizes of the layers that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.inputs.config_json import MAX_LAYERS
from zeroconf.types import LatentAttention, ModelKind  # noqa: TC001  (typing.NamedTuple keeps its annotations)

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config

# what configurations call the same thing; the first is the standard name
HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "n_embed", "dim")
LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_VALUE_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
HEAD_DIM: Final = ("head_dim", "kv_channels")
MLP: Final = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim", "d_ff")
VOCAB: Final = ("vocab_size", "padded_vocab_size")
POSITIONS: Final = (
    *("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len"),
    *("seq_length", "model_max_length"),
)

MOST_HEADS: Final = 100_000
MOST_POSITIONS: Final = 10**9


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
    shared_intermediate_size: int = 0
    num_dense_layers: int = 0
    dense_intermediate_size: int = 0
    latent: LatentAttention | None = None
    kind: ModelKind = "decoder"
    gated_mlp: bool = True
    assumptions: tuple[str, ...] = ()


def linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Elements of ``nn.Linear(inputs, outputs)``."""
    return inputs * outputs + (outputs if bias else 0)


def layer_norm(width: int) -> int:
    """Elements of ``nn.LayerNorm(width)``: weight and bias."""
    return 2 * width


def mlp(hidden: int, intermediate: int, *, gated: bool = False, bias: bool = True) -> int:
    """Elements of an MLP: up and down projections, and the gate's where there is one."""
    ups = 2 if gated else 1
    return ups * linear(hidden, intermediate, bias=bias) + linear(intermediate, hidden, bias=bias)


def layers(config: Config) -> int:
    """The number of blocks."""
    return config.count(*LAYERS, high=MAX_LAYERS)


def heads(config: Config, hidden_size: int) -> int:
    """The number of attention heads, which must divide the width of models without a ``head_dim``."""
    count = config.count(*HEADS, high=MOST_HEADS)
    if hidden_size % count:
        config.fail(f"'hidden_size' {hidden_size} is not a multiple of 'num_attention_heads' {count}")
    return count


def positions(config: Config) -> int | None:
    """The longest sequence; None where the file does not say, and is not one that its class completes."""
    if not (config.complete or config.has(*POSITIONS)):
        return None
    return config.count(*POSITIONS, default=0, low=0, high=MOST_POSITIONS) or None


def position_rows(config: Config) -> int:
    """Rows of a table of learned positions."""
    return config.count(*POSITIONS, high=MOST_POSITIONS)
