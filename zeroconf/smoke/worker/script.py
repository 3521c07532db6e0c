"""What the user's script would bring to DeepSpeed: a model and, where the file has none, an optimizer."""

from __future__ import annotations

import contextlib
from importlib import util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # mypy's names; this runs by path, where the siblings stand alone
    from zeroconf.smoke.worker import architecture, fill
    from zeroconf.smoke.worker.prepare import offload_device
    from zeroconf.smoke.worker.rank import Session
else:
    import architecture
    import fill
    from prepare import offload_device


def build(session: Session, ds_config: dict[str, Any], model_config: Any, class_name: str) -> Any:
    """The model in the file's precision: partitioned while it is built at stage 3, else whole and on the host."""
    import torch

    halves = {"bf16": torch.bfloat16, "fp16": torch.float16}
    enabled = [dtype for block, dtype in halves.items() if fill.block(ds_config, block).get("enabled") is True]
    dtype = enabled[0] if enabled else torch.float32
    if int(fill.block(ds_config, "zero_optimization").get("stage", 0)) == 3 and session.job["zero_init"]:
        with session.measure("init"), _zero_init(session, ds_config):
            model = architecture.build_model(model_config, class_name, dtype)
    else:
        session.record.enter("build")
        model = architecture.build_model(model_config, class_name, dtype)
    wanted, built = session.job["architecture"].get("num_parameters"), architecture.num_parameters(model)
    # before adapters are added, and tensor parallelism leaves a share
    if wanted and abs(built / wanted - 1) > 0.01:
        session.note(f"the model built has {built:,} parameters, {wanted:,} were expected")
    if session.job["activation_checkpointing"]:
        architecture.checkpoint(model)
    return _with_adapters(model, session.job["lora_rank"]) if session.job["lora_rank"] else model


def _with_adapters(model: Any, rank: int) -> Any:
    """LoRA on every linear layer of the blocks, as zeroconf counts it."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear"))


@contextlib.contextmanager
def _zero_init(session: Session, ds_config: dict[str, Any]) -> Any:
    if util.find_spec("accelerate") is None:
        import deepspeed

        session.note("weights start from torch's defaults: transformers needs accelerate for its own at stage 3")
        with deepspeed.zero.Init(config_dict_or_path=ds_config):
            yield
        return
    from transformers.integrations import HfDeepSpeedConfig

    # transformers then partitions each module and initialises its gathered weights, as for a Trainer
    keep = HfDeepSpeedConfig(ds_config)
    yield
    del keep


def client_optimizer(session: Session, ds_config: dict[str, Any], model: Any) -> Any:
    """The optimizer that the script would bring, or None when the file has one.

    AdamW as the Trainer's default (fused); with offload DeepSpeedCPUAdam, as Accelerate maps it
    (``map_pytorch_optim_to_deepspeed``).
    """
    if "optimizer" in ds_config:
        return None
    import torch

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if offload_device(ds_config) != "none" and ds_config.get("zero_force_ds_cpu_optimizer", True):
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        session.note(f"DeepSpeedCPUAdam (lr {fill.LEARNING_RATE}) for the script's optimizer")
        return DeepSpeedCPUAdam(parameters, lr=fill.LEARNING_RATE, weight_decay=0.0, adamw_mode=True)
    session.note(f"torch.optim.AdamW (fused, lr {fill.LEARNING_RATE}) for the script's optimizer")
    ds_config["zero_allow_untested_optimizer"] = True
    return torch.optim.AdamW(parameters, lr=fill.LEARNING_RATE, weight_decay=0.0, fused=True)
