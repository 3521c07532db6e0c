"""What Accelerate makes of the values in its YAML: everything passes through ``str`` and the environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeroconf.rules.facts import AccelerateConfig

DEFAULT_STAGE = 2
STANDARD = "standard"
FILTERS = ("deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
OFFLOADS = ("offload_optimizer", "offload_param")
# accelerate/utils/dataclasses.py, DeepSpeedPlugin._deepspeed_config_checks: by name, whatever the value
REFUSED_BESIDE_A_FILE = (
    "gradient_accumulation_steps",
    "gradient_clipping",
    "zero_stage",
    "offload_optimizer_device",
    "offload_param_device",
    "offload_param_nvme_path",
    "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
    "mixed_precision",
)
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}")


def uses_deepspeed(accelerate: AccelerateConfig) -> bool:
    """Whether the file starts DeepSpeed on the user's own machines."""
    return accelerate.get("distributed_type") == "DEEPSPEED" and is_local(accelerate)


def is_local(accelerate: AccelerateConfig) -> bool:
    """Whether the file is read as a cluster's configuration; anything else is read as Amazon SageMaker's."""
    place = "compute_environment"
    return not accelerate.has(place) or accelerate.get(place) == "LOCAL_MACHINE"


def type_of_several(accelerate: AccelerateConfig) -> str:
    """The distributed_type that `accelerate launch` takes for several devices; empty for any other."""
    name = str(accelerate.get("distributed_type"))
    return name if name.startswith("MULTI_") and name != "MULTI_CPU" and is_local(accelerate) else ""


def config_file(accelerate: AccelerateConfig) -> str | None:
    """The ds_config.json that the file names; None without one ("none" is how Accelerate spells that)."""
    named = accelerate.deepspeed("deepspeed_config_file")
    return None if named is None or named == "none" else str(named)


def inline_stage(accelerate: AccelerateConfig) -> int | None:
    """The ZeRO stage of ``zero_stage``, 2 without one; None for a value that is no stage or beside a named file."""
    if config_file(accelerate) is not None:
        return None
    stage = whole_number(accelerate.deepspeed("zero_stage", default=DEFAULT_STAGE))
    return stage if stage in range(4) else None


def inline_device(accelerate: AccelerateConfig, offload: str) -> str:
    """The device of "offload_optimizer" or "offload_param": "none", "cpu", "nvme", or whatever the file holds."""
    return str(accelerate.deepspeed(f"{offload}_device", default="none")).lower()


def num_machines(accelerate: AccelerateConfig) -> int:
    """The machines that the file names; 1 for none and for what is no number."""
    number = accelerate.get("num_machines")
    return number if isinstance(number, int) and number > 1 else 1


def launcher(accelerate: AccelerateConfig) -> str:
    """What starts the processes on several machines."""
    return str(accelerate.deepspeed("deepspeed_multinode_launcher", default="pdsh"))


def whole_number(value: Any) -> int | None:
    """The number that ``int(str(value))`` gives; None where that fails."""
    text = str(value).strip()
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def number(value: Any) -> float | None:
    """The number that ``float(str(value))`` gives; None where that fails."""
    try:
        return float(str(value))
    except ValueError:
        return None
