"""The three ways in which a file reaches DeepSpeed, run with the libraries' own code up to ``deepspeed.initialize``."""

from __future__ import annotations

import json
import os
import re
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import deepspeed
import hjson
import torch
import yaml
from accelerate import Accelerator
from accelerate.commands import launch
from accelerate.state import PartialState
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler
from accelerate.utils.launch import prepare_deepspeed_cmd_env
from deepspeed.launcher.runner import fetch_hostfile
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.runtime.config import DeepSpeedConfig
from judge_world import HIDDEN, NotJudgedError, Toy
from torch.distributed.run import determine_local_world_size
from transformers import TrainingArguments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_STEPS = 100
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


class Initialize:
    """Takes the place of ``deepspeed.initialize``: parses, and only when asked goes on to train one step."""

    def __init__(self, *, engine: bool) -> None:
        self.engine = engine
        self.where = "file"
        self.parsed: Any = None

    def __call__(self, *, model: Any, config_params: Any, **more: Any) -> tuple[Any, Any, Any, Any]:
        self.where = "parser"
        parsed = DeepSpeedConfig(config_params)
        self.parsed = plain({key: value for key, value in vars(parsed).items() if key != "_param_dict"})
        if self.engine:
            self.where = "engine"
            train_one_step(parsed, model, config_params, more)
        return None, more.get("optimizer"), None, more.get("lr_scheduler")


def train_one_step(parsed: DeepSpeedConfig, model: Any, config: Any, more: dict[str, Any]) -> None:
    """The real engine from its start to the end of one optimizer step; fp16 skips steps until its scale fits."""
    if not more and parsed.optimizer_name is None:
        offloads = parsed.zero_config.offload_optimizer is not None and parsed.zero_force_ds_cpu_optimizer
        make = DeepSpeedCPUAdam if offloads else torch.optim.AdamW
        more["optimizer"] = make(model.parameters(), lr=1e-3)
    elif not more:
        more["model_parameters"] = list(model.parameters())
    engine, *_ = deepspeed.initialize(model=model, config=config, **more)
    batch = torch.ones(2, HIDDEN)
    for _ in range(_MOST_STEPS):
        loss = engine(batch.to(next(engine.module.parameters()).dtype))
        engine.backward(loss)
        engine.step()
        if engine.global_steps > engine.skipped_steps:
            break
    engine.destroy()


def plain(value: Any) -> Any:
    """A parsed configuration as JSON values that compare."""
    if isinstance(value, Enum):
        value = value.value
    elif hasattr(value, "model_dump"):
        value = value.model_dump()
    elif type(value).__module__.startswith("deepspeed"):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): plain(below) for key, below in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(below) for below in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return re.sub(r" at 0x\w+", "", str(value))


def sizes_of(file: Any) -> tuple[int | None, ...]:
    """The batch sizes that a file states as whole numbers, from its text or its values."""
    if isinstance(file, str):
        try:
            file = hjson.loads(file)
        except Exception:  # noqa: BLE001  (not readable: the readers will say so)
            file = None
    return tuple(_whole(file, key) for key in BATCH)


def _whole(config: Any, key: str) -> int | None:
    value = config.get(key) if isinstance(config, dict) else None
    return int(value) if isinstance(value, (int, float)) and value == value // 1 and value > 0 else None


def _at(config: Any, path: str) -> Any:
    for step in path.split("."):
        config = config.get(step) if isinstance(config, dict) else None
    return config


def _number(config: Any, path: str, default: float) -> float:
    value = _at(config, path)
    return value if isinstance(value, (int, float)) else default


def by_deepspeed(path: Path, world_size: int, initialize: Initialize) -> None:  # noqa: ARG001  (one signature)
    """``deepspeed.initialize(config=path)``."""
    initialize(model=Toy(), config_params=str(path))


def _precision(config: Any) -> str:
    """The precision that a user of this file asks the Trainer or Accelerate for."""
    bf16, fp16 = _at(config, "bf16.enabled"), _at(config, "fp16.enabled")
    true = {"true", "1", "on", "yes"}
    wants_bf16, wants_fp16 = ((value == "auto", str(value).strip().lower() in true) for value in (bf16, fp16))
    if wants_bf16[1] or (wants_bf16[0] and not wants_fp16[1]):
        return "bf16"
    return "fp16" if any(wants_fp16) else "no"


def _first(path: Path) -> Any:
    """What the user sees in the file, to choose arguments that fit; any refusal is left to the library."""
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except ValueError:
        return {}


def by_trainer(path: Path, world_size: int, initialize: Initialize) -> None:
    """``Trainer(args=TrainingArguments(deepspeed=path))`` with the arguments that fit the file's own numbers."""
    config = _first(path)
    batch, micro, steps = (_whole(config, key) for key in BATCH)
    micro = micro or (max(1, batch // ((steps or 1) * world_size)) if batch else 2)
    steps = steps or (max(1, batch // (micro * world_size)) if batch else 1)
    precision = _precision(config)
    betas = _at(config, "optimizer.params.betas")
    if not (isinstance(betas, list) and len(betas) == 2):
        betas = [0.9, 0.999]
    os.environ.pop("ACCELERATE_MIXED_PRECISION", None)
    args = TrainingArguments(
        output_dir=str(path.parent / "out"),
        deepspeed=str(path),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=steps,
        max_grad_norm=_number(config, "gradient_clipping", 1.0),
        learning_rate=_number(config, "optimizer.params.lr", _number(config, "scheduler.params.warmup_max_lr", 1e-4)),
        adam_beta1=betas[0],
        adam_beta2=betas[1],
        adam_epsilon=_number(config, "optimizer.params.eps", 1e-8),
        weight_decay=_number(config, "optimizer.params.weight_decay", 0.1),
        warmup_steps=int(_number(config, "scheduler.params.warmup_num_steps", 10)),
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        use_cpu=True,
        report_to=[],
    )
    initialize.where = "filled"
    plugin = args.deepspeed_plugin
    plugin.set_mixed_precision(precision)
    plugin.set_deepspeed_weakref()
    model = Toy()
    steps_in_all = int(_number(config, "scheduler.params.total_num_steps", 100))
    plugin.hf_ds_config.trainer_config_finalize(args, model, steps_in_all)
    _prepare(plugin, model, initialize, world_size=world_size, steps=steps, lr=args.learning_rate)


def _prepare(
    plugin: DeepSpeedPlugin,
    model: Any,
    initialize: Initialize,
    *,
    world_size: int,
    steps: int,
    lr: float = 1e-3,
    loader: Any = None,
) -> None:
    """Accelerator's own preparation: fills what is left, checks who owns the optimizer, and initializes."""
    config = plugin.deepspeed_config
    if config.get("sequence_parallel_size", 1) != 1:
        msg = "what the file says about sequences goes with Accelerate's parallelism_config, which stands elsewhere"
        raise NotJudgedError(msg)
    parameters = list(model.parameters())
    in_file = "optimizer" in config
    optimizer: Any = DummyOptim(parameters, lr=lr, weight_decay=0.1) if in_file else torch.optim.AdamW(parameters, lr)
    scheduler: Any = None
    if "scheduler" in config:
        scheduler = DummyScheduler(optimizer, total_num_steps=100 * world_size, warmup_num_steps=10)
    accelerator = SimpleNamespace(
        deepspeed_plugin=plugin,
        fp8_backend=None,
        parallelism_config=None,
        split_batches=False,
        gradient_accumulation_steps=steps,
        num_processes=world_size,
        device=torch.device("cpu"),
        step_scheduler_with_optimizer=True,
        state=SimpleNamespace(dynamo_plugin=SimpleNamespace(backend="NO")),
        _prepare_one=lambda loader, first_pass: loader,  # noqa: ARG005  (the keyword that is called)
    )
    real = deepspeed.initialize
    deepspeed.initialize = initialize_once(initialize, real)
    try:
        given = [item for item in (model, optimizer, scheduler, loader) if item is not None]
        Accelerator._prepare_deepspeed(accelerator, *given)
    except Parsed:
        pass
    finally:
        deepspeed.initialize = real


class Parsed(Exception):  # noqa: N818  (no error: the way out of Accelerate's preparation)
    """Accelerate's preparation has done its part."""


def initialize_once(initialize: Initialize, real: Any) -> Callable[..., Any]:
    """``deepspeed.initialize`` while Accelerate prepares; the engine itself is started with the real one."""

    def called(**given: Any) -> Any:
        deepspeed.initialize = real
        initialize(**given)
        raise Parsed

    return called


def by_accelerate_json(path: Path, world_size: int, initialize: Initialize) -> None:
    """``Accelerator(mixed_precision=..., deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=path))``."""
    config = _first(path)
    os.environ["ACCELERATE_DEEPSPEED_CONFIG_FILE"] = str(path)
    _accelerate(_precision(config), config, world_size, initialize)


def by_accelerate_yaml(path: Path, world_size: int, initialize: Initialize) -> None:
    """``accelerate launch --config_file path``, then ``Accelerator()`` in the environment that it gives."""
    parser = launch.launch_command_parser()
    words = ["--config_file", str(path), "train.py"]
    args, defaults, from_file = launch._validate_launch_command(parser.parse_args(words))
    initialize.where = "launch"
    if not args.use_deepspeed:
        return
    # as accelerate/commands/launch.py: launch_command
    fields = [*defaults.deepspeed_config.keys(), *(["mixed_precision"] if from_file else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    command, environment = prepare_deepspeed_cmd_env(args)
    given = {key: value for key, value in environment.items() if key.startswith("ACCELERATE")}
    if any(not isinstance(value, str) for value in given.values()):
        msg = f"expected str, bytes or os.PathLike object: {given}"
        raise TypeError(msg)
    count = command[command.index("--num_gpus") + 1] if command and "--num_gpus" in command else None
    per_node = int(count) if count is not None else determine_local_world_size(args.nproc_per_node)
    if per_node < 1:
        msg = f"no process on a machine: num_processes {args.num_processes} // num_machines {args.num_machines}"
        raise ValueError(msg)
    os.environ.update(given)
    named = yaml.safe_load(path.read_text(encoding="utf-8")).get("deepspeed_config") or {}
    beside = path.with_name("ds_config.json") if "deepspeed_config_file" in named else None
    config = _first(beside) if beside else {}
    _accelerate(os.environ["ACCELERATE_MIXED_PRECISION"], config, world_size, initialize)


def _accelerate(precision: str, config: Any, world_size: int, initialize: Initialize) -> None:
    PartialState(cpu=True)
    plugin = DeepSpeedPlugin()
    initialize.where = "filled"
    plugin.set_mixed_precision(precision)
    plugin.set_deepspeed_weakref()
    batch, micro, steps = (_whole(config, key) for key in BATCH)
    micro = micro or (max(1, batch // ((steps or 1) * world_size)) if batch else 2)
    loader = torch.utils.data.DataLoader([0], batch_size=micro)
    _prepare(plugin, Toy(), initialize, world_size=world_size, steps=1, loader=loader)


def by_launcher(path: Path, world_size: int, initialize: Initialize) -> None:  # noqa: ARG001  (one signature)
    """``deepspeed --hostfile path``."""
    if not fetch_hostfile(str(path)):
        msg = "no host"
        raise ValueError(msg)
    initialize.parsed = {}


READERS: dict[tuple[str, str], Callable[[Path, int, Initialize], None]] = {
    ("deepspeed", "json"): by_deepspeed,
    ("hostfile", "hostfile"): by_launcher,
    ("trainer", "json"): by_trainer,
    ("accelerate", "json"): by_accelerate_json,
    ("accelerate", "yaml"): by_accelerate_yaml,
}
