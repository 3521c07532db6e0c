"""What Transformers' configuration classes hold where a file leaves a key out (schemas/write_class_values.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA: Final = Path(__file__).parent.parent / "data" / "class_values.json"

# transformers 5.24.0, modeling_utils.py: get_expanded_tied_weights_keys asks the configuration of the class that holds
# the output matrix: the whole model's. What its class says where the file does not:
_TIED_OUTSIDE: Final = {
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
            *("llava_next_video", "llava_onevision", "perception_lm", "qianfan_ocr", "qwen2_5_vl", "qwen2_vl"),
            *("qwen3_vl", "qwen3_vl_moe", "shieldgemma2", "smolvlm", "video_llama_3", "video_llava", "vipllava"),
        ),
        False,
    ),
}
# or of the language model, which holds it
_TIED_INSIDE: Final = {"llama4", "blip-2", "instructblip", "instructblipvideo"}


@cache
def _classes() -> dict[str, Any]:
    classes: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return classes


def release() -> str:
    """The Transformers release that the values are of."""
    return str(_classes()["release"])


def class_values(model_type: str) -> Mapping[str, object]:
    """The values of a model type's class; of its language part where it has one, none where it is not known."""
    values: Mapping[str, object] = _classes().get(model_type, {}) if model_type != "release" else {}
    return values


def tied_outside(model_type: str) -> bool | None:
    """Whether a model's whole class ties the output matrix when its file does not say; None if it does not decide."""
    return _TIED_OUTSIDE.get(model_type)


def tied_inside(model_type: str) -> bool:
    """Whether the language model's configuration alone decides."""
    return model_type in _TIED_INSIDE
