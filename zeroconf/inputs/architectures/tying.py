"""Which configuration of a vision-language model says whether its output matrix is tied to the embeddings.

transformers 5.24.0, modeling_utils.py, get_expanded_tied_weights_keys asks that of the class which holds the output
matrix: mostly the whole model's; the defaults and workarounds are those of configuration_<family>.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.inputs.architectures.class_values import class_values
from zeroconf.inputs.config_json import Config

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY: Final = "tie_word_embeddings"
# whole models whose own configuration decides, with what their class says where the file does not
_OUTSIDE: Final = {
    **dict.fromkeys(
        (
            *("aya_vision", "cohere2_vision", "deepseek_vl", "deepseek_vl_hybrid", "gemma3", "glmasr", "got_ocr2"),
            *("granite_speech", "granite_speech_plus", "internvl", "janus", "kimi_k25", "lighton_ocr", "mistral3"),
            *("moss_transcribe_diarize", "ovis2", "paligemma", "pp_chart2table", "qwen3_asr"),
        ),
        True,
    ),
    **dict.fromkeys(
        (
            *("cosmos3_omni", "exaone4_5", "fast_vlm", "idefics2", "idefics3", "llava", "llava_next"),
            *("llava_next_video", "llava_onevision", "qianfan_ocr", "qwen2_5_vl", "qwen2_vl", "qwen3_vl"),
            *("qwen3_vl_moe", "shieldgemma2", "smolvlm", "video_llama_3", "video_llava", "vipllava"),
        ),
        False,
    ),
}
# of these, whose text_config can say it too
_EITHER: Final = {
    *("fast_vlm", "llava", "llava_next_video", "llava_onevision", "qwen2_5_vl", "qwen2_vl", "shieldgemma2"),
    "video_llama_3",
}
# the language model holds the output matrix, or the whole takes its word
_INSIDE: Final = {"llama4", "blip-2", "instructblip", "instructblipvideo", "vibevoice"}


def tied(config: Config, part: Config) -> Mapping[str, object]:
    """What to set in ``part``, the text model's configuration, of the whole model's ``config``: nothing, or the key."""
    model_type = config.word("model_type")
    if model_type in _INSIDE:
        return {}
    if model_type not in _OUTSIDE:
        return {_KEY: config.values[_KEY]} if config.has(_KEY) and not part.has(_KEY) else {}
    decided = config.flag(_KEY, default=_OUTSIDE[model_type])
    if not decided and model_type in _EITHER:
        text = Config(part.values, part.where, class_values(part.word("model_type")))
        decided = text.flag(_KEY, default=False)
    return {_KEY: decided}
