"""A plan as Accelerate YAML: naming the ``ds_config.json``, or inline where nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.emit.blocks import base_config
from zeroconf.emit.notes import leaves
from zeroconf.errors import InputError
from zeroconf.estimate.releases import DeepSpeedRelease

if TYPE_CHECKING:
    from zeroconf.types import Facts, Plan

_PARAMETER_STAGE = 3

# What Accelerate's own fields carry (accelerate/utils/dataclasses.py: DeepSpeedPlugin.__post_init__); the
# micro batch comes from the script's DataLoader.
_INLINE = {
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "bf16.enabled",
    "zero_optimization.stage",
    "zero_optimization.offload_optimizer.device",
    "zero_optimization.offload_param.device",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
}


def accelerate_yaml(facts: Facts, plan: Plan, ds_config_path: str) -> str:
    """YAML for ``accelerate launch --config_file`` that names the JSON by ``ds_config_path``.

    Beside a named file Accelerate refuses ``mixed_precision``, ``gradient_*``, ``zero_stage``, ``offload_*`` and
    ``zero3_save_16bit_model`` (``DeepSpeedPlugin._deepspeed_config_checks``): those are in the JSON. A relative
    path is looked up from the folder in which ``accelerate launch`` is started.
    """
    fields: dict[str, Any] = {"deepspeed_config_file": ds_config_path}
    if plan.stage == _PARAMETER_STAGE:
        fields["zero3_init_flag"] = True
    return _yaml(facts, fields)


def inline_accelerate_yaml(facts: Facts, plan: Plan) -> str:
    """YAML that needs no JSON, for a plan whose every value Accelerate's own fields or DeepSpeed's defaults carry.

    The micro batch is then the DataLoader's batch size.

    Raises:
        InputError: something would be lost; the message names the keys. NVMe paths always are
            (``accelerate launch`` does not export them), and so are buckets other than DeepSpeed's defaults.
    """
    if facts.reader != "accelerate":
        msg = f"an inline Accelerate YAML cannot serve the reader '{facts.reader}'; name the ds_config.json in it"
        raise InputError(msg)
    config = base_config(facts, plan)
    defaults = _deepspeed_defaults(facts, plan)
    lost = [key for key, value in leaves(config).items() if key not in _INLINE and defaults.get(key) != value]
    if lost:
        msg = f"an inline Accelerate YAML would lose {', '.join(lost)}; name the ds_config.json in it instead"
        raise InputError(msg)
    fields: dict[str, Any] = {
        "gradient_accumulation_steps": plan.gradient_accumulation_steps,
        "gradient_clipping": config["gradient_clipping"],
        "offload_optimizer_device": plan.offload_optimizer,
        "offload_param_device": plan.offload_param,
        "zero_stage": plan.stage,
    }
    if plan.stage == _PARAMETER_STAGE:
        fields |= {"zero3_init_flag": True, "zero3_save_16bit_model": True}
    # quoted by the writer: YAML 1.1 reads a bare no as false, on which accelerate launch crashes
    precision = "bf16" if facts.workload.precision == "bf16" else "no"
    return _yaml(facts, fields, {"mixed_precision": precision})


def _deepspeed_defaults(facts: Facts, plan: Plan) -> dict[str, Any]:
    """Defaults of ``deepspeed/runtime/zero/config.py`` and ``offload_config.py`` for the keys that we emit."""
    pinned = DeepSpeedRelease(facts.versions.deepspeed).pins_by_default
    zero = {
        "overlap_comm": plan.stage == _PARAMETER_STAGE,
        "reduce_bucket_size": 500_000_000,
        "stage3_prefetch_bucket_size": 50_000_000,
        "stage3_param_persistence_threshold": 100_000,
        "stage3_max_live_parameters": 1_000_000_000,
        "stage3_max_reuse_distance": 1_000_000_000,
        "sub_group_size": 1_000_000_000,
        "offload_optimizer.pin_memory": pinned,
        "offload_param.pin_memory": pinned,
    }
    return {f"zero_optimization.{key}": value for key, value in zero.items()}


def _yaml(facts: Facts, deepspeed: dict[str, Any], more: dict[str, Any] | None = None) -> str:
    import yaml  # noqa: PLC0415  (19 ms that only the writer pays)

    cluster = facts.cluster
    fields: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": deepspeed,
        **(more or {}),
        "num_machines": cluster.num_nodes,
        "num_processes": cluster.num_gpus,  # of all machines together
        "machine_rank": 0,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
    }
    if cluster.num_nodes > 1:
        # the default launcher (pdsh) wants a hostfile and trains on one machine without it
        deepspeed["deepspeed_multinode_launcher"] = "standard"
        fields["main_process_port"] = 29500
        header = (
            f"# On each of the {cluster.num_nodes} machines, RANK counting from 0, HEAD the address of machine 0:\n"
            "#   accelerate launch --config_file THIS_FILE --machine_rank RANK --main_process_ip HEAD train.py\n"
            "# zeroconf: ignore[ZC282] that line gives --main_process_ip\n"
        )
    else:
        header = "# accelerate launch --config_file THIS_FILE train.py\n"
    return header + yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1000)
