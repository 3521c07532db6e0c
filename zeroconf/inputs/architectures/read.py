"""A configuration to a ModelSpec: which family, and which part of a vision-language model."""

from __future__ import annotations

from zeroconf.inputs.architectures.decoder import DECODERS
from zeroconf.inputs.architectures.encoders import ENCODERS
from zeroconf.inputs.architectures.latent import read_deepseek
from zeroconf.inputs.architectures.seq2seq import SEQ2SEQ
from zeroconf.inputs.architectures.special import SPECIAL
from zeroconf.inputs.architectures.vision import tower_note
from zeroconf.inputs.config_json import Config
from zeroconf.inputs.text import shown
from zeroconf.types import ModelSpec

FAMILIES = {
    **DECODERS,
    **SPECIAL,
    "deepseek_v2": read_deepseek,
    "deepseek_v3": read_deepseek,
    **ENCODERS,
    **SEQ2SEQ,
}
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


def language_part(config: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration of the text model, and what was left out of or filled into it."""
    part, tower = config.part("text_config"), config.part("vision_config")
    notes = []
    if tower is not None:
        notes.append(tower_note(tower, config.word("model_type")))
    elif part is not None:
        notes.append("only the language part (text_config) is counted")
    if part is None:
        return config, tuple(notes)
    family = family_of(part)
    filled = {key: value for key, value in _CLASS_VALUES.get(family, {}).items() if not part.has(key)}
    if filled:
        listed = ", ".join(f"{key} {value}" for key, value in filled.items())
        notes.append(f"text_config leaves out {listed}: the values of the {family} configuration class")
    if not part.has("tie_word_embeddings") and config.has("tie_word_embeddings"):
        filled["tie_word_embeddings"] = config.values["tie_word_embeddings"]
    return Config({**part.values, **filled}, part.where), tuple(notes)


def family_of(config: Config) -> str:
    """The model type, by the name of the family that it is.

    Raises:
        InputError: there is none.
    """
    model_type = config.word("model_type")
    if not model_type:
        config.fail("'model_type' is missing; is this a Hugging Face model configuration?")
    return _LANGUAGE_PARTS.get(model_type, model_type)


def spec_from_config(config: Config, name: str, source: str) -> ModelSpec:
    """The shape and exact parameter count of a configuration.

    Raises:
        InputError: an unknown architecture, a missing key, or an absurd value.
    """
    config, notes = language_part(config)
    family = family_of(config)
    reader = FAMILIES.get(family)
    if reader is None:
        config.fail(f"architecture '{shown(family)}' is not known; give its number of parameters, like --params 7B")
    shape = reader(config)
    if shape.num_parameters > _MAX_PARAMETERS:
        config.fail(f"{shape.num_parameters:.1e} parameters are more than any model has")
    values = shape._replace(assumptions=(*notes, *shape.assumptions))._asdict()
    return ModelSpec(name=name, architecture=family, source=source, **values)
