"""How far the real DeepSpeed gets with each configuration: parsed, built, one optimizer step.

Run as a script: each line of stdin is a case (``config``; ``optimizer``, a class of torch.optim that the script
brings where the file names none), each line of stdout what became of it. All run as rank 0 of 8 on the CPU.
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

from fake_world import be_rank_0_of  # isort: skip  (it sets what the others read)
import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime import torch_autocast
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.utils import groups

type(get_accelerator()).is_fp16_supported = lambda _self: True  # as on a GPU: the checks after it are the subject
be_rank_0_of(8)


def _forget() -> None:
    """Process groups and modes that the last engine left in module globals."""
    groups._ZERO_PARAM_INTRA_PARALLEL_GROUP = None
    groups._ALL_TO_ALL_GROUP = {}
    groups.mesh_device = None
    torch_autocast.TORCH_AUTOCAST_INITIALIZED = False


def _engine(case: dict[str, Any]) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    brought = case.get("optimizer")
    given: dict[str, Any] = {"model_parameters": model.parameters()}
    if brought:
        given = {"optimizer": getattr(torch.optim, brought)(model.parameters(), lr=1e-3)}
    return deepspeed.initialize(model=model, config=copy.deepcopy(case["config"]), **given)[0]


def _step(engine: Any) -> None:
    dtype = torch.bfloat16 if engine.bfloat16_enabled() else torch.float16 if engine.fp16_enabled() else torch.float32
    for _ in range(int(engine.gradient_accumulation_steps())):
        engine.backward(engine(torch.ones(2, 8, dtype=dtype)).sum())
        engine.step()


def judge(case: dict[str, Any]) -> dict[str, Any]:
    """``reached``: "nothing", "parsed", "built" or "stepped"; the error that stopped it; and what was built."""
    _forget()
    verdict: dict[str, Any] = {"reached": "nothing"}
    try:
        DeepSpeedConfig(copy.deepcopy(case["config"]))
        verdict["reached"] = "parsed"
        engine = _engine(case)
        verdict |= {
            "reached": "built",
            "optimizer": type(engine.optimizer).__name__,
            "basic": type(engine.basic_optimizer).__name__,
            "scheduler": type(engine.lr_scheduler).__name__,
            "dtype": str(next(engine.module.parameters()).dtype),
            "tensor_parallel": engine.autotp_size(),
            "clipping": engine.gradient_clipping(),
        }
        if engine.is_deepcompile_enabled():
            engine.compile(backend="eager")
        elif engine.fp16_enabled() is False:  # the CPU has no fp16 kernels
            _step(engine)
        verdict["reached"] = "stepped"
    except Exception as error:  # noqa: BLE001  (any refusal is a verdict)
        verdict["error"] = f"{type(error).__name__}: {error}"
    return verdict


for line in sys.stdin:
    print(json.dumps(judge(json.loads(line))), flush=True)  # noqa: T201  (the protocol)
