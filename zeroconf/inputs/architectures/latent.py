"""DeepSeek-V2 and -V3: multi-head latent attention, shared and routed experts.

Counts follow ``transformers/models/deepseek_v3/modeling_deepseek_v3.py`` (5.24.0), without the
multi-token-prediction layer, which Transformers does not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.experts import Experts, read_deepseek_experts
from zeroconf.inputs.architectures.shape import MOST_HEADS, Shape, layers, linear, positions
from zeroconf.types import LatentAttention

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config


def _attention(config: Config, hidden: int, num_heads: int, query_dim: int) -> int:
    """Elements of one latent attention: compressed queries (or plain ones), keys and values, and the output."""
    latent = config.count("kv_lora_rank")
    rotary = config.count("qk_rope_head_dim")
    value_dim = config.count("v_head_dim")
    bias = config.flag("attention_bias", default=False)
    if rank := config.count("q_lora_rank", default=0):
        query = linear(hidden, rank, bias=bias) + rank + rank * num_heads * query_dim
    else:
        query = hidden * num_heads * query_dim
    key_value = linear(hidden, latent + rotary, bias=bias) + latent
    key_value += latent * num_heads * (query_dim - rotary + value_dim)
    return query + key_value + linear(num_heads * value_dim, hidden, bias=bias)


def _mlp_biases(config: Config, hidden: int, sparse: Experts, num_layers: int) -> int:
    """Elements of the biases that DeepSeek-V2 can have in its dense MLPs and its shared experts."""
    if not config.flag("mlp_bias", default=False):
        return 0
    shared = 2 * sparse.shared_size + hidden
    dense = 2 * config.count("intermediate_size") + hidden
    return sparse.num_layers * shared + (num_layers - sparse.num_layers) * dense


def read_deepseek_v2(config: Config) -> Shape:
    """DeepSeek-V2's shape, whose MLPs can have biases."""
    shape = read_deepseek(config)
    num_layers = shape.num_layers
    biases = _mlp_biases(config, shape.hidden_size, read_deepseek_experts(config, num_layers), num_layers)
    return shape._replace(
        num_parameters=shape.num_parameters + biases, num_active_parameters=shape.num_active_parameters + biases
    )


def read_deepseek(config: Config) -> Shape:
    """The shape; ``head_dim`` is that of queries and keys (values are narrower)."""
    hidden = config.count("hidden_size")
    num_layers = layers(config)
    vocab = config.count("vocab_size")
    num_heads = config.count("num_attention_heads", high=MOST_HEADS)
    query_dim = config.count("qk_nope_head_dim") + config.count("qk_rope_head_dim")
    sparse = read_deepseek_experts(config, num_layers)
    dense_mlp = 3 * hidden * config.count("intermediate_size")
    tied = config.flag("tie_word_embeddings", default=False)
    total = (
        num_layers * (_attention(config, hidden, num_heads, query_dim) + 2 * hidden)
        + (num_layers - sparse.num_layers) * dense_mlp
        + sparse.num_layers * sparse.layer
        + vocab * hidden * (1 if tied else 2)
        + hidden
    )
    return Shape(
        num_parameters=total,
        num_active_parameters=total - sparse.idle,
        num_layers=num_layers,
        hidden_size=hidden,
        intermediate_size=sparse.intermediate_size,
        num_attention_heads=num_heads,
        num_key_value_heads=num_heads,
        head_dim=query_dim,
        vocab_size=vocab,
        tied_embeddings=tied,
        max_sequence_length=positions(config),
        num_experts=sparse.num_experts,
        num_experts_per_token=sparse.per_token,
        shared_intermediate_size=sparse.shared_size,
        num_dense_layers=num_layers - sparse.num_layers,
        dense_intermediate_size=config.count("intermediate_size") if sparse.num_layers < num_layers else 0,
        latent=LatentAttention(
            query_rank=config.count("q_lora_rank", default=0),
            key_value_rank=config.count("kv_lora_rank"),
            rotary_size=config.count("qk_rope_head_dim"),
            value_size=config.count("v_head_dim"),
        ),
        assumptions=("the multi-token-prediction layer is not counted",),
    )
