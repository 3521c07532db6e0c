"""A configuration to a ModelSpec: which family, and which part of a vision-language model."""

from __future__ import annotations

from zeroconf.inputs.architectures.classic import CLASSIC
from zeroconf.inputs.architectures.latent import read_deepseek
from zeroconf.inputs.architectures.rotary import ROTARY
from zeroconf.inputs.config_json import Config
from zeroconf.inputs.text import did_you_mean, shown
from zeroconf.types import ModelSpec

FAMILIES = {**ROTARY, **CLASSIC, "deepseek_v2": read_deepseek, "deepseek_v3": read_deepseek}
_MAX_PARAMETERS = 10**16

# language parts of vision-language models that are a known family under another name
_LANGUAGE_PARTS = {
    "gemma3": "gemma3_text",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}

# text_config holds only what differs from the configuration class; these are the classes' values (5.24.0)
_CLASS_VALUES: dict[str, dict[str, object]] = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
    },
    "gemma3_text": {
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
    },
}


def _language_part(config: Config) -> tuple[Config, tuple[str, ...]]:
    part = config.part("text_config")
    if part is None:
        if config.has("vision_config"):
            return config, ("only the language part is counted, not the vision part",)
        return config, ()
    family = part.word("model_type")
    filled = {key: value for key, value in _CLASS_VALUES.get(family, {}).items() if not part.has(key)}
    notes = ["only the language part (text_config) is counted, not the vision part"]
    if filled:
        listed = ", ".join(f"{key} {value}" for key, value in filled.items())
        notes.append(f"text_config leaves out {listed}: the values of the {family} configuration class")
    if not part.has("tie_word_embeddings") and config.has("tie_word_embeddings"):
        filled["tie_word_embeddings"] = config.values["tie_word_embeddings"]
    return Config({**part.values, **filled}, part.where), tuple(notes)


def spec_from_config(config: Config, name: str, source: str) -> ModelSpec:
    """The shape and exact parameter count of a configuration.

    Raises:
        InputError: an unknown architecture, a missing key, or an absurd value.
    """
    config, notes = _language_part(config)
    model_type = config.word("model_type")
    if not model_type:
        config.fail("'model_type' is missing; is this a Hugging Face model configuration?")
    family = _LANGUAGE_PARTS.get(model_type, model_type)
    reader = FAMILIES.get(family)
    if reader is None:
        near = did_you_mean(model_type, FAMILIES) or f" (known: {', '.join(FAMILIES)})"
        config.fail(f"architecture '{shown(model_type)}' is not known{near}; give its bare size instead, like 7B")
    shape = reader(config)
    if shape.num_parameters > _MAX_PARAMETERS:
        config.fail(f"{shape.num_parameters:.1e} parameters are more than any model has")
    values = shape._replace(assumptions=(*notes, *shape.assumptions))._asdict()
    return ModelSpec(name=name, architecture=family, source=source, **values)
