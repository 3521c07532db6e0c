"""What becomes of a number in quotes, by who reads its key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.rules.idle import idle, may_be_set_over

if TYPE_CHECKING:
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.registry import Severity
    from zeroconf.rules.text.known import Known

# what pydantic makes an integer of: no exponent
_WHOLE = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*(?:\.0*)?")
# blocks that the engine computes with wherever they are on; of the others the script decides
_COMPUTED_WITH = {"", "optimizer.params", "scheduler.params", "flops_profiler", "aio", "autotuning", "expert_parallel"}
# read from the file before pydantic makes numbers of text (__init__.py, initialize)
_READ_AS_IT_IS = {("tensor_parallel", "autotp_size")}
# runtime/lr_schedules.py, OneCycle._initialize_cycle: float() of whatever is given
_MADE_FLOAT = {("scheduler.params", "cycle_first_step_size"), ("scheduler.params", "cycle_second_step_size")}


def of_quoted_number(config: DsConfig, known: Known, text: str, reader: Reader) -> tuple[Severity, str]:
    """How bad it is, and what DeepSpeed makes of it, for a message."""
    place = (known.block.path, known.key.name)
    if place in _READ_AS_IT_IS:
        return "error", "deepspeed.initialize compares the text with a number and stops"
    if known.is_checked and "number" not in known.key.type and not _WHOLE.fullmatch(text):
        return "error", "DeepSpeed takes no such text for an integer"
    if not known.is_checked and place not in _MADE_FLOAT:
        if unread := idle(config, known.block, known.path):
            return "warning", f"nothing reads it: {unread}"
        is_certain = known.block.path in _COMPUTED_WITH and not may_be_set_over(config, reader, known.path)
        severity: Severity = "error" if is_certain else "warning"
        return severity, "DeepSpeed computes with the value as it is"
    if place == ("zero_optimization", "stage"):
        severity = "error" if reader.fills_auto else "info" if reader.name else "warning"
        return severity, "DeepSpeed makes a number of it, Transformers then does not see stage " + text
    return "info", "DeepSpeed makes a number of it"
