"""Takes Accelerate YAMLs as far as ``accelerate launch`` and the engine take them, without starting anything.

Run as a script: ``accelerate_reader.py FOLDER``. Each line of stdin is a case: ``yaml``, perhaps ``words`` for the
command line, ``json`` for the ``ds_config.json`` and ``hosts`` for the ``hostfile`` beside it; or ``deepspeed``, the
words of a ``deepspeed`` command line. Each line of stdout says how far it came, ``at`` (load, launch, torchrun or
deepspeed launcher, plugin, deepspeed, done), the ``error``, and what was seen on the way.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fake_world import be_rank_0_of  # isort: skip  (it sets what the others read)
import torch.distributed.run as torchrun
from accelerate.commands import launch as accelerate_launch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DeepSpeedPlugin, patch_environment
from accelerate.utils import launch as launch_utils
from accelerate.utils import other as accelerate_other
from deepspeed.launcher import constants as launcher_constants
from deepspeed.launcher import runner
from deepspeed.runtime.config import DeepSpeedConfig
from torch.distributed.elastic.agent.server.api import WorkerSpec
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

if TYPE_CHECKING:
    import argparse

_LAUNCHERS = {value for name, value in vars(launcher_constants).items() if name.endswith("_LAUNCHER")}
_HOSTS = "node-1 slots=8\nnode-2 slots=8\n"
_JSON = json.dumps({"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}})

be_rank_0_of(1)


def _port_is_free(port: Any) -> bool:
    """Accelerate's own look at the port, which other jobs of this machine may hold: no fault of the file."""
    accelerate_other.is_port_in_use(port)
    return False


launch_utils.is_port_in_use = _port_is_free


def launched(path: Path, words: list[str], seen: dict[str, Any]) -> dict[str, str] | None:
    """What ``accelerate launch`` exports to the script; None when the file does not lead to DeepSpeed."""
    parser = accelerate_launch.launch_command_parser()
    words = ["--config_file", str(path), *words, "train.py"]
    words_given = parser.parse_args(words)
    args, defaults, from_file = accelerate_launch._validate_launch_command(words_given)
    # as accelerate/commands/launch.py: launch_command
    seen["deepspeed"] = bool(args.use_deepspeed and not args.cpu)
    if not seen["deepspeed"]:
        if args.use_fsdp or args.use_megatron_lm or args.multi_gpu:
            launch_utils.prepare_multi_gpu_env(args)
        elif not args.tpu and defaults.compute_environment == "LOCAL_MACHINE":
            launch_utils.prepare_simple_launcher_cmd_env(args)
        return None
    fields = [*defaults.deepspeed_config.keys(), *(["mixed_precision"] if from_file else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    command, environment = launch_utils.prepare_deepspeed_cmd_env(args)
    seen["command"] = command
    for name in ("nproc_per_node", "nnodes", "node_rank", "rdzv_endpoint", "master_addr"):
        seen[name] = getattr(args, name, None)
    if command is None:
        seen["at"] = "torchrun"
        start(args)
    else:
        seen["at"] = "deepspeed launcher"
        seen["hosts"] = hosts(command[1:])
    return {
        key: value
        for key, value in environment.items()
        if key.startswith(("ACCELERATE", "PARALLELISM", "CUDA_VISIBLE"))
    }


def hosts(words: list[str]) -> dict[str, list[int]] | None:
    """The hosts and slots that the ``deepspeed`` launcher starts; None for this machine only.

    Raises:
        AssertionError, NotImplementedError: as in deepspeed/launcher/runner.py, main.
    """
    args = runner.parse_args(words)
    pool = runner.fetch_hostfile(args.hostfile)
    if not pool:
        return None
    active = runner.parse_inclusion_exclusion(pool, args.include, args.exclude)
    active = runner.apply_num_nodes_and_gpus(active, args.num_nodes, args.num_gpus)
    if args.no_ssh and not 0 <= args.node_rank < len(active):
        msg = "Launching training without ssh, but --node_rank is not set correctly."
        raise AssertionError(msg)
    if not args.no_ssh and args.launcher.lower() not in _LAUNCHERS:
        msg = f"Unknown launcher {args.launcher}"
        raise NotImplementedError(msg)
    return dict(active)


def start(args: argparse.Namespace) -> None:
    """What torchrun makes of the arguments, up to starting the processes."""
    own = ["--training_script", args.training_script, "--training_script_args", args.training_script_args]
    config, _, _ = torchrun.config_from_args(accelerate_launch._filter_args(args, torchrun.get_args_parser(), own))
    parameters = RendezvousParameters(
        backend=config.rdzv_backend,
        endpoint=config.rdzv_endpoint,
        run_id=config.run_id,
        min_nodes=config.min_nodes,
        max_nodes=config.max_nodes,
        **config.rdzv_configs,
    )
    host, port = parse_rendezvous_endpoint(config.rdzv_endpoint or "localhost:0", default_port=-1)
    if config.max_nodes > 1 and not re.fullmatch(r"[A-Za-z0-9.-]+", host):
        msg = f"no host name: {host!r}:{port}"
        raise ValueError(msg)
    WorkerSpec(
        role=config.role,
        local_world_size=config.nproc_per_node,
        rdzv_handler=get_rendezvous_handler(parameters),
        entrypoint=args.training_script,
    )


def planned(environment: dict[str, str], seen: dict[str, Any]) -> dict[str, Any]:
    """The DeepSpeed configuration that Accelerate makes of the environment."""
    with patch_environment(**environment):
        plugin = DeepSpeedPlugin()
        plugin.set_mixed_precision(os.environ["ACCELERATE_MIXED_PRECISION"])
    seen["zero3_init"] = plugin.zero3_init_flag
    seen["save"] = plugin.zero3_save_16bit_model
    # as Accelerator._prepare_deepspeed: a DataLoader with 1 sample, the Accelerator's own accumulation of 1
    steps = plugin.deepspeed_config["gradient_accumulation_steps"]
    steps = 1 if steps == "auto" else steps
    sizes = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "train_batch_size": steps if isinstance(steps, int) else 1,
    }
    plugin.deepspeed_config_process(
        must_match=False,
        gradient_clipping=1.0,
        **sizes,
        **{"zero_optimization.stage3_gather_16bit_weights_on_model_save": False},
    )
    return plugin.deepspeed_config


def follow(case: dict[str, Any], folder: Path, seen: dict[str, Any]) -> None:
    path = folder / "accelerate.yaml"
    path.write_text(case.get("yaml", ""), encoding="utf-8")
    (folder / "ds_config.json").write_text(case.get("json", _JSON), encoding="utf-8")
    (folder / "hostfile").write_text(case.get("hosts", _HOSTS), encoding="utf-8")
    if "deepspeed" in case:
        seen["hosts"] = hosts(case["deepspeed"])
        return
    seen["at"] = "load"
    load_config_from_file(str(path))
    seen["at"] = "launch"
    environment = launched(path, case.get("words", []), seen)
    if environment is None:
        return
    seen["environment"] = environment
    seen["at"] = "plugin"
    config = planned(environment, seen)
    seen["config"] = {key: value for key, value in config.items() if key != "steps_per_print"}
    seen["at"] = "deepspeed"
    parsed = DeepSpeedConfig(config)
    seen["clipping"] = parsed.gradient_clipping
    seen["bf16"], seen["fp16"] = parsed.bfloat16_config.enabled, parsed.float16_config.enabled
    zero = parsed.zero_config
    seen["nvme"] = [str(offload.nvme_path) for offload in (zero.offload_param, zero.offload_optimizer) if offload]


def main() -> None:
    folder = Path(sys.argv[1])
    os.chdir(folder)
    warnings.simplefilter("always")
    for line in sys.stdin:
        seen: dict[str, Any] = {}
        with warnings.catch_warnings(record=True) as caught:
            try:
                follow(json.loads(line), folder, seen)
                seen["at"] = "done"
            except (Exception, SystemExit) as error:  # noqa: BLE001  (any refusal is a verdict)
                seen["error"] = f"{type(error).__name__}: {error}"
        seen["warnings"] = [str(one.message) for one in caught if "unclosed file" not in str(one.message)]
        sys.stdout.write(json.dumps(seen, default=str) + "\n")
        sys.stdout.flush()


main()
