"""A job's architecture to a Hugging Face model with random weights. Nothing is downloaded."""

from __future__ import annotations

import contextlib
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 20_240_613
_ENCODERS = {"bert", "roberta", "distilbert", "electra", "modernbert"}
# the classes that train a kind; the first that knows the architecture is built
_CLASSES = {
    "decoder": ("AutoModelForCausalLM",),
    "encoder": ("AutoModelForMaskedLM", "AutoModelForImageClassification"),
    "encoder-decoder": ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq"),
}
# what a kind is built as when transformers does not know the architecture's name
_GENERIC = {"decoder": "llama", "encoder": "bert", "encoder-decoder": "t5"}


def make_config(spec: dict[str, Any], sequence_length: int) -> tuple[Any, str, list[str]]:
    """The Hugging Face config, the Auto class to build it with, and what was assumed.

    ``spec`` holds a ModelSpec's fields and its ``config``: a Hugging Face configuration's values, or the path of its
    file or folder. One of both is enough; the configuration goes first where transformers knows its ``model_type``.

    Raises:
        ValueError: the model cannot take sequences of this length, or transformers has no class that trains it.
    """
    source = spec.get("config")
    values = _read(Path(source)) if isinstance(source, str) else source
    config, notes = _config_from_values(values, spec) if values else (None, [])
    class_name = _class_for(config, spec.get("kind")) if config else None
    if config is None or (class_name is None and "architecture" in spec):
        # the language models of some vision-language models have no class of their own
        alone = [f"the language model is built as {spec['architecture']}, in the same shape"] if config else []
        config, built_as = _config_from_fields(spec, sequence_length)
        notes += alone + built_as
        class_name = _class_for(config, spec.get("kind"))
    if class_name is None:
        msg = f"transformers has no class that trains a {config.model_type} as {spec.get('kind') or 'model'}"
        raise ValueError(msg)
    config.use_cache = False
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    longest = getattr(config, "max_position_embeddings", None)
    rotates = any(getattr(config, name, None) for name in ("rope_parameters", "rope_theta", "rotary_dim"))
    if isinstance(longest, int) and 0 < longest < sequence_length and rotates:
        config.max_position_embeddings = sequence_length
        notes.append(f"{sequence_length} positions for the model's {longest}: they rotate, and have no weights")
    elif isinstance(longest, int) and 0 < longest < sequence_length:
        msg = f"sequence length {sequence_length} is beyond the model's {longest} positions; shorten --seq-len"
        raise ValueError(msg)
    if values and values.get("tie_word_embeddings") is False and config.tie_word_embeddings:
        config.build_untied = True
    return config, class_name, notes


def _read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8"))
    return values


def _config_from_values(values: dict[str, Any], spec: dict[str, Any]) -> tuple[Any, list[str]]:
    """The config, or None when transformers does not know its type and ``spec`` holds the shape."""
    from transformers import CONFIG_MAPPING, AutoConfig

    given = dict(values)
    model_type = given.pop("model_type", None)
    if model_type not in CONFIG_MAPPING and "architecture" in spec:
        return None, []
    config = AutoConfig.for_model(model_type, **given)
    if hasattr(config, "text_config") and not hasattr(config, "hidden_size"):
        # the whole model's configuration decides about the output matrix, which the text model's builds here
        if "tied_embeddings" in spec:
            config.text_config.tie_word_embeddings = spec["tied_embeddings"]
        return config.text_config, ["only the language model of the vision-language model is built"]
    return config, []


def _class_for(config: Any, kind: str | None) -> str | None:
    """The Auto class that trains the architecture, None without one."""
    import transformers

    if kind is None:
        masked = "MaskedLM" in " ".join(getattr(config, "architectures", None) or [])
        seq2seq = getattr(config, "is_encoder_decoder", False)
        kind = "encoder-decoder" if seq2seq else "encoder" if masked or config.model_type in _ENCODERS else "decoder"
    for name in _CLASSES[kind]:
        if type(config) in getattr(transformers, name)._model_mapping:  # noqa: SLF001
            return name
    return None


def model_class(config: Any, class_name: str) -> Any:
    """The class that an Auto class picks."""
    import transformers

    return getattr(transformers, class_name)._model_mapping[type(config)]  # noqa: SLF001  (as from_config finds it)


@contextlib.contextmanager
def _untied(model: Any) -> Iterator[None]:
    """Within, a class builds its output apart from its embeddings.

    Transformers 5 ties T5's whatever the file says, until a checkpoint holds both.
    """
    tied = model._tied_weights_keys  # noqa: SLF001
    if isinstance(tied, dict):
        model._tied_weights_keys = {name: other for name, other in tied.items() if name != "lm_head.weight"}  # noqa: SLF001
    try:
        yield
    finally:
        model._tied_weights_keys = tied  # noqa: SLF001


def attend(config: Any, class_name: str, attention: str, *, dry: bool) -> list[str]:
    """Sets a config's attention, eager, sdpa or flash, and what was set instead; flash needs no package in a dry run.

    Raises:
        ValueError: the model has no flash attention.
    """
    model = model_class(config, class_name)
    notes = []
    if attention == "sdpa" and not getattr(model, "_supports_sdpa", False):
        notes.append(f"eager attention: transformers' {model.__name__} has no sdpa")
        attention = "eager"
    if attention == "flash":
        # transformers 5, 4
        if not any(getattr(model, name, False) for name in ("_supports_flash_attn", "_supports_flash_attn_2")):
            msg = f"transformers' {model.__name__} has no flash attention; use --attention sdpa or eager"
            raise ValueError(msg)
        attention = _register_flash() if dry else "flash_attention_2"
    config._attn_implementation = attention  # noqa: SLF001  (what transformers' own argument sets)
    return notes


def _register_flash() -> str:
    """Makes PyTorch's flash attention kernel stand for the flash-attn package's, whose code it is."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, flash_attention_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = "zeroconf_fused"
    ALL_ATTENTION_FUNCTIONS.register(name, _flash)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, flash_attention_mask)
    return name


def _flash(
    _module: Any, query: Any, key: Any, value: Any, _mask: Any, *, scaling: Any = None, dropout: float = 0.0, **_: Any
) -> tuple[Any, None]:
    """Tensors are (batch, heads, sequence, head size); what is masked, and how, does not matter to memory.

    Values of narrower heads than queries are padded, and the output cut (transformers, integrations/flash_attention.py;
    before 5.24 DeepSeek's own class).
    """
    width = int(value.shape[-1])
    if width != query.shape[-1]:
        value = importlib.import_module("torch").nn.functional.pad(value, (0, query.shape[-1] - width))
    output = importlib.import_module("gpu_kernels").flash_attention(
        query, key, value, dropout_p=dropout, is_causal=True, scale=scaling
    )
    return output[..., :width].transpose(1, 2), None


def _config_from_fields(spec: dict[str, Any], sequence_length: int) -> tuple[Any, list[str]]:
    from transformers import CONFIG_MAPPING, AutoConfig

    kind = spec.get("kind", "decoder")
    name = str(spec["architecture"]).lower().replace("-", "_")
    notes = []
    if name not in CONFIG_MAPPING:
        notes.append(f"architecture {spec['architecture']!r} is built as {_GENERIC[kind]}, in the same shape")
        name = _GENERIC[kind]
    positions = max(spec.get("max_sequence_length") or 0, sequence_length)
    fields = {"gpt2": _gpt2_fields, "t5": _t5_fields, "opt": _opt_fields}.get(name, _common_fields)(spec, positions)
    return AutoConfig.for_model(name, **fields), notes


def _common_fields(spec: dict[str, Any], positions: int) -> dict[str, Any]:
    fields = {
        "vocab_size": spec["vocab_size"],
        "hidden_size": spec["hidden_size"],
        "intermediate_size": spec["intermediate_size"],
        "num_hidden_layers": spec["num_layers"],
        "num_attention_heads": spec["num_attention_heads"],
        "max_position_embeddings": positions,
        "tie_word_embeddings": spec["tied_embeddings"],
        # defaults of some families name ids beyond a small vocabulary
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    if spec.get("kind", "decoder") == "decoder":
        fields |= {"num_key_value_heads": spec["num_key_value_heads"], "head_dim": spec["head_dim"]}
    else:
        fields["pad_token_id"] = 0
    if spec.get("num_experts"):
        # Mixtral says num_local_experts, Qwen and DeepSeek num_experts and moe_intermediate_size
        fields |= {
            "num_local_experts": spec["num_experts"],
            "num_experts": spec["num_experts"],
            "num_experts_per_tok": spec["num_experts_per_token"],
            "moe_intermediate_size": spec["intermediate_size"],
        }
    return fields


def _gpt2_fields(spec: dict[str, Any], positions: int) -> dict[str, Any]:
    return {
        "vocab_size": spec["vocab_size"],
        "n_embd": spec["hidden_size"],
        "n_inner": spec["intermediate_size"],
        "n_layer": spec["num_layers"],
        "n_head": spec["num_attention_heads"],
        "n_positions": positions,
        "tie_word_embeddings": spec["tied_embeddings"],
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def _t5_fields(spec: dict[str, Any], _positions: int) -> dict[str, Any]:
    # ModelSpec counts encoder and decoder blocks together
    return {
        "vocab_size": spec["vocab_size"],
        "d_model": spec["hidden_size"],
        "d_ff": spec["intermediate_size"],
        "d_kv": spec["head_dim"],
        "num_layers": spec["num_layers"] // 2,
        "num_decoder_layers": spec["num_layers"] - spec["num_layers"] // 2,
        "num_heads": spec["num_attention_heads"],
        "feed_forward_proj": "gated-gelu" if spec.get("gated_mlp", True) else "relu",
        "tie_word_embeddings": spec["tied_embeddings"],
        "decoder_start_token_id": 0,
        "eos_token_id": 0,
    }


def _opt_fields(spec: dict[str, Any], positions: int) -> dict[str, Any]:
    fields = _common_fields(spec, positions)
    return fields | {
        "ffn_dim": fields.pop("intermediate_size"),
        "word_embed_proj_dim": spec["hidden_size"],
        "pad_token_id": 1,
    }


def hidden_size(config: Any) -> int:
    """The hidden size that the Trainer derives "auto" bucket sizes from."""
    sizes = getattr(config, "hidden_sizes", None)
    return int(max(sizes) if sizes else config.hidden_size)


def build_model(config: Any, class_name: str, dtype: Any) -> Any:
    """The model with random weights of one dtype, the same on every rank, in training mode."""
    import torch
    import transformers

    torch.manual_seed(SEED)
    config.dtype = dtype
    untied = getattr(config, "build_untied", False)
    with _untied(model_class(config, class_name)) if untied else contextlib.nullcontext():
        model = getattr(transformers, class_name).from_config(config)
    model.train()
    return model


def checkpoint(model: Any) -> None:
    """Switches activation checkpointing on, in each block."""
    # transformers 5 renamed it
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def make_batch(
    config: Any, *, rank: int, micro_batch_size: int, sequence_length: int, device: str, with_mask: bool = True
) -> dict[str, Any]:
    """One random batch, different on each rank: tokens whose labels repeat them, under a mask that hides nothing.

    Images of (channels, size, size) with a class each; sounds of (mel bins, frames) with as many tokens as
    Whisper writes at most.
    """
    import torch

    generator = torch.Generator().manual_seed(SEED + rank)

    def numbers(high: int, *shape: int) -> Any:
        return torch.randint(0, high, (micro_batch_size, *shape), generator=generator).to(device)

    def floats(*shape: int) -> Any:
        return torch.randn(micro_batch_size, *shape, generator=generator).to(device, config.dtype)

    if hasattr(config, "image_size"):
        sides = config.image_size
        image = floats(config.num_channels, *((sides, sides) if isinstance(sides, int) else sides))
        return {"pixel_values": image, "labels": numbers(config.num_labels)}
    ids = numbers(config.vocab_size, min(sequence_length, getattr(config, "max_target_positions", sequence_length)))
    if hasattr(config, "num_mel_bins"):
        # whisper's encoder halves the frames
        return {"input_features": floats(config.num_mel_bins, 2 * config.max_source_positions), "labels": ids}
    batch = {"input_ids": ids, "labels": ids}
    return batch | {"attention_mask": torch.ones_like(ids)} if with_mask else batch


def num_parameters(model: Any) -> int:
    """Elements of all parameters, tied ones once, partitioned ones whole (``ds_numel``)."""
    return sum(int(getattr(parameter, "ds_numel", parameter.numel())) for parameter in model.parameters())
