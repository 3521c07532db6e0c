"""Which keys the real engine reads, beyond parsing them: attribute access on the parsed configuration.

Run as a script: ``key_recorder.py FOLDER``, a JSON list of configurations on stdin; per configuration one line with
the dotted keys read while an engine starts, takes a step, saves and loads, as rank 0 of 2.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

from fake_world import be_rank_0_of  # isort: skip  (it sets what the others read)
import deepspeed
import torch
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
from deepspeed.runtime.zero import config as zero_config
from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig

be_rank_0_of(2)

WATCHED = {
    zero_config.DeepSpeedZeroConfig: "zero_optimization",
    zero_config.DeepSpeedZeroOffloadParamConfig: "zero_optimization.offload_param",
    zero_config.DeepSpeedZeroOffloadOptimizerConfig: "zero_optimization.offload_optimizer",
    ZenFlowConfig: "zero_optimization.zenflow",
    DeepSpeedZeroLeafModuleConfig: "zero_optimization.leaf_module",
    DeepSpeedConfig: "",
}
read: set[str] = set()


def watch(owner: type, block: str) -> None:
    """Notes every attribute of the class that is a key, unless its own module or the parser asks."""
    plain = owner.__getattribute__
    fields = getattr(owner, "model_fields", {})
    names = {name: field.alias or name for name, field in fields.items()}

    def noting(self: Any, name: str) -> Any:
        if name in names or (not names and not name.startswith("_")):
            reader = sys._getframe(1).f_code.co_filename
            if not reader.endswith(("config.py", "config_utils.py")) and "pydantic" not in reader:
                read.add(f"{block}.{names.get(name, name)}".lstrip("."))
        return plain(self, name)

    owner.__getattribute__ = noting  # type: ignore[method-assign,assignment]


def keys_read(config: dict[str, Any], folder: str) -> list[str]:
    """The keys that one engine reads in its life."""
    stage = config["zero_optimization"]["stage"]
    building = partial(deepspeed.zero.Init, config_dict_or_path=config) if stage == 3 else nullcontext
    with building():
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    engine.backward(engine(torch.ones(2, 8, dtype=torch.bfloat16)).sum())
    engine.step()
    engine.save_16bit_model(folder)
    engine.save_checkpoint(folder, tag=f"stage{stage}")
    engine.load_checkpoint(folder, tag=f"stage{stage}")
    engine.destroy()
    return sorted(read)


for owner, block in WATCHED.items():
    watch(owner, block)
for configuration in json.load(sys.stdin):
    read.clear()
    sys.stdout.write(json.dumps(keys_read(configuration, sys.argv[1])) + "\n")
    sys.stdout.flush()
