"""Mixtures of experts: which layers are sparse, and what stands in one.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0); an expert has a gate, an up and a down
projection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.inputs.architectures.shape import linear
from zeroconf.inputs.config_json import MAX_LAYERS

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config


class Experts(NamedTuple):
    """One sparse layer's experts, in elements; ``num_layers`` counts the sparse layers.

    ``always_on`` is the router, and the shared experts, which every token passes through and whose widths sum to
    ``shared_size``.
    """

    num_layers: int
    num_experts: int
    per_token: int
    intermediate_size: int
    expert: int
    always_on: int
    shared_size: int = 0

    @property
    def layer(self) -> int:
        """Elements of one sparse layer's MLP, all experts."""
        return self.num_experts * self.expert + self.always_on

    @property
    def idle(self) -> int:
        """Elements over all layers that one token does not pass through."""
        return self.num_layers * (self.num_experts - self.per_token) * self.expert


def _experts(
    config: Config,
    num_layers: int,
    *,
    shared: int = 0,
    size_key: str = "moe_intermediate_size",
    bias: bool = False,
) -> Experts:
    hidden = config.count("hidden_size")
    size = config.count(size_key)
    number = config.count("num_local_experts", "num_experts", "n_routed_experts", high=100_000)
    return Experts(
        num_layers=num_layers,
        num_experts=number,
        per_token=config.count("num_experts_per_tok", high=number),
        intermediate_size=size,
        expert=2 * linear(hidden, size, bias=bias) + linear(size, hidden, bias=bias),
        always_on=linear(hidden, number, bias=bias) + 3 * hidden * shared,
        shared_size=shared,
    )


def _stepped(config: Config, num_layers: int) -> int:
    """Sparse layers where every ``decoder_sparse_step``-th is one, but those listed."""
    dense = set(config.counts("mlp_only_layers") or ())
    step = config.count("decoder_sparse_step", default=1, high=MAX_LAYERS)
    return sum(1 for layer in range(num_layers) if layer not in dense and (layer + 1) % step == 0)


def _mixtral(config: Config, num_layers: int) -> Experts:
    return _experts(config, num_layers, size_key="intermediate_size")


def _gpt_oss(config: Config, num_layers: int) -> Experts:
    return _experts(config, num_layers, size_key="intermediate_size", bias=True)


def _qwen2_moe(config: Config, num_layers: int) -> Experts:
    experts = _experts(config, _stepped(config, num_layers), shared=config.count("shared_expert_intermediate_size"))
    # the shared expert has a gate of one output
    return experts._replace(always_on=experts.always_on + config.count("hidden_size"))


def _qwen3_moe(config: Config, num_layers: int) -> Experts:
    return _experts(config, _stepped(config, num_layers))


def _llama4(config: Config, num_layers: int) -> Experts:
    listed = config.counts("moe_layers")
    step = config.count("interleave_moe_layer_step", default=1, high=MAX_LAYERS)
    sparse = num_layers // step if listed is None else len({layer for layer in listed if 0 <= layer < num_layers})
    return _experts(config, sparse, shared=config.count("intermediate_size"), size_key="intermediate_size")


def read_deepseek_experts(config: Config, num_layers: int) -> Experts:
    """Shared and routed experts in all layers but the first ``first_k_dense_replace``."""
    dense = config.count("first_k_dense_replace", default=0, low=0, high=num_layers)
    shared = config.count("n_shared_experts", default=0, low=0, high=100_000) * config.count("moe_intermediate_size")
    return _experts(config, num_layers - dense, shared=shared)


EXPERTS = {
    "mixtral": _mixtral,
    "phimoe": _mixtral,
    "olmoe": _mixtral,
    "granitemoe": _mixtral,
    "gpt_oss": _gpt_oss,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "llama4_text": _llama4,
    "glm4_moe": read_deepseek_experts,
    "dots1": read_deepseek_experts,
}
