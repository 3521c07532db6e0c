"""Reads files as DeepSpeed, Accelerate and the Trainer do, at a pretended world size.

Run as a script: ``emit_reader.py FOLDER``. Each line of stdin is a case (``nodes``, ``gpus`` of each, ``reader``,
``json``, ``yaml``, perhaps ``inline``, ``micro``, ``steps``, ``precision``), each line of stdout what they see.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, ClassVar

from fake_world import be_rank_0_of  # isort: skip  (it sets what the others read)
from accelerate.commands import launch as accelerate_launch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DeepSpeedPlugin, patch_environment
from accelerate.utils.launch import prepare_deepspeed_cmd_env
from deepspeed.runtime.config import DeepSpeedConfig
from transformers import TrainingArguments

FOLDER = Path(sys.argv[1])
os.environ["ACCELERATE_USE_CPU"] = "true"


class Asked(dict):  # type: ignore[type-arg]
    """A configuration that notes which of its top-level keys are asked for."""

    keys_asked: ClassVar[set[str]] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.keys_asked.add(key)
        return super().__getitem__(key)


def _device(offload: Any) -> str:
    return "none" if offload is None else getattr(offload.device, "value", offload.device)


def read_by_deepspeed(config: Any) -> dict[str, Any]:
    """What DeepSpeed's own parser sees."""
    parsed = DeepSpeedConfig(config)
    zero = parsed.zero_config
    return {
        "train": parsed.train_batch_size,
        "micro": parsed.train_micro_batch_size_per_gpu,
        "steps": parsed.gradient_accumulation_steps,
        "clipping": parsed.gradient_clipping,
        "stage": int(zero.stage),
        "overlap_comm": zero.overlap_comm,
        "reduce_bucket_size": zero.reduce_bucket_size,
        "max_live_parameters": zero.max_live_parameters,
        "hpz": zero.zero_hpz_partition_size,
        "multi_rank": zero.use_multi_rank_bucket_allreduce,
        "gather": zero.gather_16bit_weights_on_model_save,
        "offload_optimizer": _device(zero.offload_optimizer),
        "offload_param": _device(zero.offload_param),
        "nvme_path": str(zero.offload_param.nvme_path) if zero.offload_param else "None",
        "threads": parsed.aio_config["intra_op_parallelism"],
        "bf16": parsed.bfloat16_config.enabled,
        "fp16": parsed.float16_config.enabled,
        "dynamic": parsed.float16_config.loss_scale == 0,
        "optimizer": parsed.optimizer_name,
        "force_cpu": parsed.zero_force_ds_cpu_optimizer,
        "untested": parsed.zero_allow_untested_optimizer,
    }


def launch_environment(yaml_path: Path, num_nodes: int) -> dict[str, Any]:
    """The environment that ``accelerate launch --config_file`` gives to the script, and its process counts."""
    parser = accelerate_launch.launch_command_parser()
    more = ["--main_process_ip", "127.0.0.1", "--machine_rank", "0"] if num_nodes > 1 else []
    words = ["--config_file", str(yaml_path), "--main_process_port", "0", *more, "train.py"]
    args, defaults, from_file = accelerate_launch._validate_launch_command(parser.parse_args(words))
    # as accelerate/commands/launch.py: launch_command
    fields = [*defaults.deepspeed_config, *(["mixed_precision"] if from_file else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)
    command, environment = prepare_deepspeed_cmd_env(args)
    if not args.use_deepspeed or command is not None:
        msg = f"not DeepSpeed through torchrun: {args.use_deepspeed}, {command}"
        raise AssertionError(msg)
    return {
        "nnodes": int(getattr(args, "nnodes", None) or 1) if num_nodes > 1 else 1,
        "nproc": int(args.nproc_per_node),
        "environment": {key: value for key, value in environment.items() if key.startswith("ACCELERATE")},
    }


def read_by_accelerate(case: dict[str, Any], yaml: str) -> dict[str, Any]:
    """Accelerate's plugin from the launch environment, then DeepSpeed on what Accelerate makes of the file."""
    yaml_path = FOLDER / "accelerate.yaml"
    yaml_path.write_text(yaml, encoding="utf-8")
    named = load_config_from_file(str(yaml_path))
    launched = launch_environment(yaml_path, case["nodes"])
    with patch_environment(**launched["environment"]):
        plugin = DeepSpeedPlugin()
        plugin.set_mixed_precision(os.environ["ACCELERATE_MIXED_PRECISION"])
    seen = {
        "num_processes": named.num_processes,
        "num_machines": named.num_machines,
        "nnodes": launched["nnodes"],
        "nproc": launched["nproc"],
        "stage": plugin.zero_stage,
        "offload_optimizer": plugin.offload_optimizer_device,
        "offload_param": plugin.offload_param_device,
        "zero3_init": plugin.zero3_init_flag,
        "save": plugin.zero3_save_16bit_model,
    }
    if case["reader"] != "trainer":
        # as Accelerator._prepare_deepspeed fills the rest for a DataLoader of the planned size
        sizes = {
            "train_micro_batch_size_per_gpu": case["micro"],
            "train_batch_size": case["micro"] * case["steps"] * case["nodes"] * case["gpus"],
        }
        plugin.deepspeed_config_process(must_match=False, gradient_clipping=1.0, **sizes)
        seen["deepspeed"] = read_by_deepspeed(plugin.deepspeed_config)
    return seen


def read_by_trainer(case: dict[str, Any], json_path: Path, micro: int) -> dict[str, Any]:
    """The Trainer's filling of "auto", then DeepSpeed on the result."""
    args = TrainingArguments(
        output_dir=str(FOLDER / "out"),
        deepspeed=str(json_path),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=case["steps"],
        max_grad_norm=0.3,
        bf16=case["precision"] == "bf16",
        fp16=case["precision"] == "fp16",
        use_cpu=True,
        report_to=[],
    )
    filled = args.hf_deepspeed_config
    filled.trainer_config_finalize(args, None, 100)
    told = {key: value for key, value in filled.config.items() if key != "_zeroconf"}
    return read_by_deepspeed(filled.config) | {"left": json.dumps(told).count('"auto"')}


def read(case: dict[str, Any]) -> dict[str, Any]:
    be_rank_0_of(case["nodes"] * case["gpus"])
    json_path = FOLDER / "ds config.json"
    json_path.write_text(case["json"], encoding="utf-8")
    verdict: dict[str, Any] = {"accelerate": read_by_accelerate(case, case["yaml"])}
    if "inline" in case:
        verdict["inline"] = read_by_accelerate(case, case["inline"])
    if case["reader"] == "trainer":
        verdict["deepspeed"] = read_by_trainer(case, json_path, case["micro"])
        try:
            read_by_trainer(case, json_path, case["micro"] + 1)
        except ValueError as error:
            verdict["mismatch"] = str(error)
        return verdict
    verdict["deepspeed"] = read_by_deepspeed(str(json_path))  # a path: DeepSpeed's hjson reader
    config = json.loads(case["json"])
    Asked.keys_asked = set()
    read_by_deepspeed(Asked(config))
    verdict["not_asked"] = sorted(set(config) - Asked.keys_asked)
    return verdict


for line in sys.stdin:
    try:
        result = read(json.loads(line))
    except Exception as error:  # noqa: BLE001  (any refusal is a verdict)
        result = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
