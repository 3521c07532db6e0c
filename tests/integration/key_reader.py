"""What DeepSpeed's parser says: each line of stdin a list of configurations, of stdout their errors (null: none)."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"

from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.utils import logger

logger.setLevel(logging.CRITICAL)


def error(config: dict[str, Any]) -> str | None:
    try:
        DeepSpeedConfig(config)
    except Exception as problem:  # noqa: BLE001  (any refusal is the answer)
        return f"{type(problem).__name__}: {problem}"
    return None


for line in sys.stdin:
    sys.stdout.write(json.dumps([error(config) for config in json.loads(line)]) + "\n")
    sys.stdout.flush()
