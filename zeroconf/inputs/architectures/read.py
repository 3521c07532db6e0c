"""A configuration to a ModelSpec: which family, and which part of a vision-language model."""

from __future__ import annotations

from zeroconf.inputs.architectures.class_values import class_values, release
from zeroconf.inputs.architectures.decoder import DECODERS
from zeroconf.inputs.architectures.encoders import ENCODERS
from zeroconf.inputs.architectures.latent import read_deepseek, read_deepseek_v2
from zeroconf.inputs.architectures.seq2seq import SEQ2SEQ
from zeroconf.inputs.architectures.special import SPECIAL
from zeroconf.inputs.architectures.tying import tied
from zeroconf.inputs.architectures.vision import tower_note
from zeroconf.inputs.config_json import Config
from zeroconf.inputs.text import shown
from zeroconf.types import ModelSpec

FAMILIES = {
    **DECODERS,
    **SPECIAL,
    "deepseek_v2": read_deepseek_v2,
    "deepseek_v3": read_deepseek,
    **ENCODERS,
    **SEQ2SEQ,
}
_MAX_PARAMETERS = 10**16
_QUANTIZED = (
    "the checkpoint is quantised (quantization_config), and planned as what trains, in 16 or 32 bits;"
    " --quantize with --lora-rank plans adapters over 4-bit weights"
)

# composite configurations whose classes have a hidden_size beside the text_config's
_WIDE_THEMSELVES = frozenset({"paligemma", "voxtral", "voxtral_realtime"})

# language parts of vision-language models that are a known family under another name
LANGUAGE_PARTS = {
    "gemma3": "gemma3_text",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}


def language_part(config: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration of the text model beside its class's values, and what was left out of it."""
    part, tower = config.part("text_config"), config.part("vision_config")
    notes = []
    if tower is not None:
        notes.append(tower_note(tower, config.word("model_type")))
    elif part is not None:
        notes.append("only the language part (text_config) is counted")
    if any(isinstance(one.values.get("quantization_config"), dict) for one in (config, part or config)):
        notes.append(_QUANTIZED)
    if part is None:
        return Config(config.values, config.where, class_values(config.word("model_type"))), tuple(notes)
    values = {**part.values, **tied(config, part)}
    return Config(values, part.where, class_values(part.word("model_type")), complete=True), tuple(notes)


def _is_wide_within(config: Config) -> bool:
    """Whether only the text_config has a width."""
    if config.part("text_config") is None or config.word("model_type") in _WIDE_THEMSELVES:
        return False
    return not {"hidden_size", "hidden_sizes"}.intersection(config.values)


def family_of(config: Config) -> str:
    """The model type, by the name of the family that it is.

    Raises:
        InputError: there is none.
    """
    model_type = config.word("model_type")
    if not model_type:
        config.fail("'model_type' is missing; is this a Hugging Face model configuration?")
    return LANGUAGE_PARTS.get(model_type, model_type)


def spec_from_config(config: Config, name: str, source: str) -> ModelSpec:
    """The shape and exact parameter count of a configuration.

    Raises:
        InputError: an unknown architecture, a missing key, or an absurd value.
    """
    is_within = _is_wide_within(config)
    config, notes = language_part(config)
    family = family_of(config)
    reader = FAMILIES.get(family)
    if reader is None:
        config.fail(f"architecture '{shown(family)}' is not known; give its number of parameters, like --params 7B")
    shape = reader(config)
    if config.filled:
        listed = ", ".join(f"{key} {value}" for key, value in config.filled.items())
        notes += (f"the configuration leaves out {listed}: the values of transformers' {family} class, {release()}",)
    if shape.num_parameters > _MAX_PARAMETERS:
        config.fail(f"{shape.num_parameters:.1e} parameters are more than any model has")
    values = shape._replace(assumptions=(*notes, *shape.assumptions))._asdict()
    return ModelSpec(name=name, architecture=family, has_text_config=is_within, source=source, **values)
