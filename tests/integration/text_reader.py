"""Opens configuration files as DeepSpeed, the Trainer and Accelerate do; run as a script, one file name a line.

Each line of stdout is JSON: for each reader what it says, or null when it reads the file.
"""

from __future__ import annotations

import json
import logging
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"

from accelerate.commands.config.config_args import load_config_from_file
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.utils import logger
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

logger.setLevel(logging.CRITICAL)
READERS = {
    "deepspeed": DeepSpeedConfig,
    "trainer": HfTrainerDeepSpeedConfig,
    "accelerate": load_config_from_file,
}

for line in sys.stdin:
    said: dict[str, str | None] = {}
    for name, read in READERS.items():
        try:
            read(line.strip())
            said[name] = None
        except Exception as error:  # noqa: BLE001  (whatever the library raises is its answer)
            said[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)  # noqa: T201
