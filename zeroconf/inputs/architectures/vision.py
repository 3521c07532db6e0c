"""Vision towers: how many parameters stand beside the language part of a vision-language model.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0), with the patch merger where it belongs to
the tower; the projector between tower and language model is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.shape import HIDDEN, MLP, heads, layer_norm, layers, linear, mlp
from zeroconf.inputs.config_json import MAX_LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.inputs.config_json import Config


def _sides(config: Config, key: str, default: int) -> tuple[int, int]:
    """Height and width in pixels: one number, or a pair."""
    value = config.values.get(key)
    if isinstance(value, dict):
        config.fail(f"'{key}' must be a side in pixels or a pair of sides, as transformers takes it, not a mapping")
    pair = value if isinstance(value, list) and value else [value]
    height, width = (type(config)({key: side}, config.where, config.class_values) for side in (pair[0], pair[-1]))
    return height.count(key, default=default, high=100_000), width.count(key, default=default, high=100_000)


def num_patches(config: Config, image: int = 224, patch: int = 16) -> int:
    """Patches of one image."""
    height, width = _sides(config, "image_size", image)
    patch_height, patch_width = _sides(config, "patch_size", patch)
    return (height // patch_height) * (width // patch_width)


def _patch_embedding(config: Config, hidden: int, patch: int, *, bias: bool) -> int:
    channels = config.count("num_channels", "in_channels", "in_chans", default=3, high=10_000)
    frames = config.count("temporal_patch_size", default=1, high=1000)
    height, width = _sides(config, "patch_size", patch)
    return linear(channels * frames * height * width, hidden, bias=bias)


def image_encoder(config: Config) -> int:
    """ViT without a head: patches, class token, positions, blocks, norm."""
    hidden = config.count(*HIDDEN)
    heads(config, hidden)
    bias = config.flag("qkv_bias", default=True)
    attention = linear(hidden, 3 * hidden, bias=bias) + linear(hidden, hidden)
    block = attention + mlp(hidden, config.count(*MLP)) + 2 * layer_norm(hidden)
    tokens = (num_patches(config) + 2) * hidden
    return _patch_embedding(config, hidden, 16, bias=True) + tokens + layers(config) * block + layer_norm(hidden)


def _clip_block(hidden: int, intermediate: int) -> int:
    return 4 * linear(hidden, hidden) + mlp(hidden, intermediate) + 2 * layer_norm(hidden)


def _siglip(config: Config) -> int:
    hidden = config.count(*HIDDEN, default=768)
    intermediate = config.count(*MLP, default=3072)
    num_layers = config.count("num_hidden_layers", default=12, high=MAX_LAYERS)
    block = _clip_block(hidden, intermediate)
    total = num_layers * block + layer_norm(hidden) + _patch_embedding(config, hidden, 16, bias=True)
    total += num_patches(config) * hidden
    if config.flag("vision_use_head", default=True):
        # attention over the patches by one learned query, and an MLP
        total += hidden + block - layer_norm(hidden)
    return total


def _clip(config: Config) -> int:
    hidden = config.count(*HIDDEN, default=768)
    intermediate = config.count(*MLP, default=3072)
    num_layers = config.count("num_hidden_layers", default=12, high=MAX_LAYERS)
    tokens = (num_patches(config, patch=32) + 2) * hidden
    patches = _patch_embedding(config, hidden, 32, bias=False)
    return num_layers * _clip_block(hidden, intermediate) + 2 * layer_norm(hidden) + patches + tokens


def _pixtral(config: Config) -> int:
    hidden = config.count(*HIDDEN, default=1024)
    intermediate = config.count(*MLP, default=4096)
    num_layers = config.count("num_hidden_layers", default=24, high=MAX_LAYERS)
    block = 4 * hidden * hidden + 3 * hidden * intermediate + 2 * hidden
    return num_layers * block + hidden + _patch_embedding(config, hidden, 16, bias=False)


def _llama4(config: Config) -> int:
    hidden = config.count(*HIDDEN, default=768)
    intermediate = config.count(*MLP, default=5632)
    num_layers = config.count("num_hidden_layers", default=34, high=MAX_LAYERS)
    tokens = (num_patches(config, image=448, patch=14) + 2) * hidden
    patches = _patch_embedding(config, hidden, 14, bias=False)
    adapter = intermediate * config.count("projector_input_dim", default=4096)
    adapter += config.count("projector_output_dim", default=4096) ** 2
    return num_layers * _clip_block(hidden, intermediate) + 2 * layer_norm(hidden) + patches + tokens + adapter


def _with_frames(config: Config) -> Config:
    return type(config)({"temporal_patch_size": 2, **config.values}, config.where)


def _merger(config: Config, hidden: int, out: int, norm: int) -> int:
    wide = hidden * config.count("spatial_merge_size", default=2, high=100) ** 2
    return norm + linear(wide, wide) + linear(wide, out)


def _qwen2_vl(config: Config) -> int:
    hidden = config.count("embed_dim", default=1280)
    intermediate = hidden * config.count("mlp_ratio", default=4, high=1000)
    block = _clip_block(hidden, intermediate)
    merger = _merger(config, hidden, config.count("hidden_size", default=3584), layer_norm(hidden))
    patches = _patch_embedding(_with_frames(config), hidden, 14, bias=False)
    return config.count("depth", default=32, high=MAX_LAYERS) * block + merger + patches


def _qwen2_5_vl(config: Config) -> int:
    hidden = config.count("hidden_size", default=3584)
    gated = mlp(hidden, config.count("intermediate_size", default=3420), gated=True)
    block = 4 * linear(hidden, hidden) + gated + 2 * hidden
    merger = _merger(config, hidden, config.count("out_hidden_size", default=3584), hidden)
    patches = _patch_embedding(_with_frames(config), hidden, 14, bias=False)
    return config.count("depth", default=32, high=MAX_LAYERS) * block + merger + patches


TOWERS: dict[str, Callable[[Config], int]] = {
    "siglip_vision_model": _siglip,
    "clip_vision_model": _clip,
    "pixtral": _pixtral,
    "llama4_vision_model": _llama4,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
}


def tower_note(config: Config, model_type: str) -> str:
    """What the vision tower adds, for a model of which only the language part is counted."""
    family = config.word("model_type", default=model_type).removesuffix("_vision")
    left_out = "only the language part is counted, not the vision part"
    reader = TOWERS.get(family)
    if reader is None:
        named = f" '{family}'" if family else ""
        return f"{left_out}: the tower{named} is not a family that zeroconf counts; most have 0.3B to 0.7B parameters"
    size = reader(config)
    return f"{left_out}: its tower ({family}) has {size:,} parameters; frozen beside, --frozen-params {size} counts it"
