"""The blocks of a DeepSpeed configuration: only keys that this release reads at this stage.

What is read where (deepspeed 0.19.8, ``runtime/engine.py``, ``DeepSpeedEngine._configure_zero_optimizer``):
stages 1 and 2 take ``use_multi_rank_bucket_allreduce``; stage 3 every ``stage3_*`` key, ``sub_group_size``,
``offload_param``, ``aio`` and ``zero_hpz_partition_size``; both ``reduce_bucket_size``, ``overlap_comm`` and
``offload_optimizer``; stage 0 none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.errors import InputError
from zeroconf.estimate.swaps import swap_buffers
from zeroconf.faulty import BF16_OVERFLOW_UNCHECKED
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import Facts, ModelSpec, Plan

# aio.thread_count became intra_op_parallelism in 0.16.4 (DeepSpeed PR #7056); the other name is ignored silently.
INTRA_OP_PARALLELISM_SINCE = (0, 16, 4)
_PARAMETER_STAGE = 3
_DEFAULT_SWAP_ELEMENTS = 100_000_000
_SWAP_BUFFERS = 5


def base_config(facts: Facts, plan: Plan) -> dict[str, Any]:
    """The whole configuration without explanations, in the order in which people read it.

    Raises:
        InputError: the plan holds something that no DeepSpeed release reads at this stage, or NVMe offload has
            no path.
    """
    _refuse_unreadable(facts, plan)
    return {
        # No train_batch_size: DeepSpeed multiplies by the world size itself, while the Trainer's filled-in product
        # is refused where the model is built (zero.Init) before the process group.
        "train_micro_batch_size_per_gpu": plan.micro_batch_size,
        "gradient_accumulation_steps": plan.gradient_accumulation_steps,
        "gradient_clipping": "auto" if facts.reader == "trainer" else 1.0,
        **_precision(facts, plan),
        **_optimizer(facts, plan),
        "zero_optimization": _zero(facts, plan),
        **_aio(facts, plan),
    }


def _refuse_unreadable(facts: Facts, plan: Plan) -> None:
    if plan.stage < _PARAMETER_STAGE and (plan.offload_param != "none" or plan.offload == "nvme"):
        msg = (
            f"stage {plan.stage} reads no offload_param and treats NVMe as CPU memory; "
            "use stage 3, or offload only the optimizer to the CPU"
        )
        raise InputError(msg)
    if plan.stage == 0 and plan.offload_optimizer != "none":
        msg = "stage 0 cannot offload the optimizer; use stage 1, 2 or 3"
        raise InputError(msg)
    if plan.offload == "nvme" and facts.cluster.nvme is None:
        msg = "NVMe offload needs a path on a local disk; give one with --nvme PATH:SIZE"
        raise InputError(msg)


def _precision(facts: Facts, plan: Plan) -> dict[str, Any]:
    match facts.workload.precision:
        case "bf16":
            unchecked = plan.stage > 0 and facts.versions.deepspeed in BF16_OVERFLOW_UNCHECKED
            return {"bf16": {"enabled": True, **({"check_grad_overflow": True} if unchecked else {})}}
        case "fp16":
            return {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}}
        case "fp32":
            return {}


def _optimizer(facts: Facts, plan: Plan) -> dict[str, Any]:
    """Who builds the optimizer: DeepSpeed from a block here, or the script.

    ``DeepSpeedEngine._configure_optimizer`` refuses a script's torch optimizer under offload unless
    ``zero_force_ds_cpu_optimizer`` is false. Accelerate (also inside the Trainer) instead replaces whatever it
    gets by ``DeepSpeedCPUAdam`` (``accelerate/utils/deepspeed.py: map_pytorch_optim_to_deepspeed``): right for
    Adam and AdamW, silently another optimizer for the rest.
    """
    workload, offloaded = facts.workload, plan.offload_optimizer != "none"
    raw = facts.reader == "deepspeed"
    kind = workload.optimizer
    if facts.script_builds_optimizer(offloaded=offloaded):
        keep = offloaded and (workload.script_optimizer or kind not in ("adam", "adamw"))
        return {
            **({"zero_force_ds_cpu_optimizer": False} if keep else {}),
            # Accelerate and the Trainer set this themselves for a script's optimizer.
            **({"zero_allow_untested_optimizer": True} if raw and plan.stage > 0 else {}),
        }
    return {
        "optimizer": _optimizer_block(kind, auto=not raw),
        **({"zero_allow_untested_optimizer": True} if kind == "sgd" and plan.stage > 0 else {}),
    }


def _optimizer_block(kind: str, *, auto: bool) -> dict[str, Any]:
    name = {"adamw": "AdamW", "adam": "Adam", "lion": "Lion", "sgd": "SGD"}[kind]
    params: dict[str, Any] = {"lr": "auto" if auto else 1e-5}
    if kind != "sgd":
        params["betas"] = "auto" if auto else [0.9, 0.99 if kind == "lion" else 0.999]
    if kind in ("adam", "adamw"):
        params["eps"] = "auto" if auto else 1e-8
    params["weight_decay"] = "auto" if auto else 0.0
    if kind == "adam":
        params["adam_w_mode"] = False  # DeepSpeed's "Adam" is AdamW unless told otherwise
    return {"type": name, "params": params}


def _zero(facts: Facts, plan: Plan) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": plan.stage}
    if plan.stage == 0:
        return zero  # Accelerate and the Trainer want the block even so
    zero["overlap_comm"] = plan.overlap_comm
    zero["reduce_bucket_size"] = plan.reduce_bucket_size
    if plan.stage < _PARAMETER_STAGE and not plan.multi_rank_bucket_allreduce:
        zero["use_multi_rank_bucket_allreduce"] = False
    if plan.stage == _PARAMETER_STAGE:
        zero |= {
            "stage3_prefetch_bucket_size": plan.prefetch_bucket_size,
            "stage3_param_persistence_threshold": plan.param_persistence_threshold,
            "stage3_max_live_parameters": plan.max_live_parameters,
            "stage3_max_reuse_distance": plan.max_reuse_distance,
            "sub_group_size": plan.sub_group_size,
            "stage3_gather_16bit_weights_on_model_save": True,
        }
        if plan.zero_hpz_partition_size > 1:
            zero["zero_hpz_partition_size"] = plan.zero_hpz_partition_size
    if plan.offload_optimizer != "none":
        zero["offload_optimizer"] = _offload(facts, plan.offload_optimizer, {"buffer_count": 4})
    if plan.offload_param != "none":
        alone = plan.offload_param == "nvme" and facts.cluster.num_gpus == 1
        buffers = swap_buffers(facts.model, plan, recomputes=plan.activation_checkpointing) if alone else 0
        swap = {
            "buffer_count": max(_SWAP_BUFFERS, buffers),
            "buffer_size": swap_buffer_elements(facts.model, facts.cluster.num_gpus),
        }
        zero["offload_param"] = _offload(facts, plan.offload_param, swap)
    return zero


def _offload(facts: Facts, device: str, swap: dict[str, Any]) -> dict[str, Any]:
    # pin_memory defaults to false before 0.19.5 and to true since (DeepSpeed PR #8207), so it is written down.
    block: dict[str, Any] = {"device": device, "pin_memory": True}
    if device == "nvme" and facts.cluster.nvme is not None:
        block |= {"nvme_path": facts.cluster.nvme.path, **swap}
    return block


def swap_buffer_elements(model: ModelSpec, num_gpus: int) -> int:
    """Elements of one NVMe swap buffer: DeepSpeed's default, or the largest parameter's shard if that is larger.

    ``AsyncPartitionedParameterSwapper.get_buffer`` asserts that a shard fits one buffer.
    """
    return max(_DEFAULT_SWAP_ELEMENTS, ceil_div(model.largest_parameter, num_gpus))


def _aio(facts: Facts, plan: Plan) -> dict[str, Any]:
    if plan.offload != "nvme":
        return {}
    renamed = facts.versions.deepspeed >= INTRA_OP_PARALLELISM_SINCE
    threads = "intra_op_parallelism" if renamed else "thread_count"
    return {"aio": {"block_size": 1_048_576, "queue_depth": 32, threads: 4}}
