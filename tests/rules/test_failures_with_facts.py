"""Public failure reports that need facts or a second file: each is flagged, in the right file on the right line."""

from __future__ import annotations

import json

import pytest
from with_facts import findings

A100 = {"hardware": "8xA100-80GB"}
LLAMA = {"model": "llama-3.1-8b", **A100}
SPLIT = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def batch(*sizes, **more):
    return {**dict(zip(SPLIT, sizes, strict=False)), **more}


def zero(stage=2, **more):
    return {"zero_optimization": {"stage": stage, **more}}


def plan(stage=2, micro=1, steps=1, **more):
    return {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": steps, "bf16": {"enabled": True},
            **zero(stage, **more)}  # fmt: skip


CPU, DISK = {"device": "cpu"}, {"device": "nvme", "nvme_path": "/s"}
YAML = "distributed_type: DEEPSPEED\nnum_processes: 16\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
TRAINER = "deepspeed t.py --deepspeed ds.json \\\n --"
PRECISION = "accelerate launch --deepspeed_config_file ds.json \\\n --mixed_precision bf16 t.py"
GIGABIT = {"hardware": "8x1xA100-80GB", "network": "1gbe", "seq_len": 1024}
WIRE = {"model": "llama-3.1-8b", "hardware": "4x8xA100-80GB", "network": "10gbe", "seq_len": 1024}

# report: (file, the file that it names, facts, code, the text of the line that is flagged)
REPORTS = {
    "DeepSpeed#3228": (batch(32, 4, 2), None, A100, "ZC307", "train_batch_size"),
    "DeepSpeed#17 not divisible": (batch(36, 4), None, A100, "ZC307", "train_batch_size"),
    "DeepSpeed#17 too small": (batch(4), None, A100, "ZC307", "train_batch_size"),
    "accelerate#2877": (batch(64, 4, 2, sequence_parallel_size=4), None, A100, "ZC307", "train_batch_size"),
    "LMFlow#88": (plan(), None, {"hardware": "8xV100-32GB"}, "ZC305", "enabled"),
    "DeepSpeed#6723": ({"fp16": {"enabled": True}}, None, {"hardware": "P100-16GB"}, "ZC306", "enabled"),
    "DeepSpeed#3506": (
        plan(3, offload_param={**DISK, "buffer_size": 10**8}, offload_optimizer=CPU),
        None, {"model": "llama-3.1-8b", "hardware": "1xA100-80GB"}, "ZC304", "buffer_size",
    ),
    "DeepSpeed#1627": (plan(3, offload_optimizer=DISK), None, {**LLAMA, "nvme": "/s:50GB"}, "ZC303", "device"),
    "DeepSpeed#4239": (plan(2, offload_optimizer=CPU), None, {**LLAMA, "host_memory": "126GB"}, "ZC302", "device"),
    "accelerate#1801": (plan(2), None, {**LLAMA, "host_memory": "64GB"}, "ZC302", "stage"),
    "DeepSpeed#6695": (plan(2, offload_optimizer=CPU), None, {"model": "gpt2", **A100}, "ZC404", "device"),
    "DeepSpeed#5770": (plan(3, steps=16), None, {"model": "llama-3.2-1b", **GIGABIT}, "ZC401", "stage"),
    "DeepSpeed#6793": (plan(2, steps=16), None, WIRE, "ZC401", "stage"),
    "DeepSpeed#4386": (plan(3, zero_hpz_partition_size=16), None, WIRE, "ZC403", "zero_hpz_partition_size"),
    "is not divisible by": (plan(3, zero_hpz_partition_size=3), None, A100, "ZC308", "zero_hpz_partition_size"),
    "hpZ cut": (plan(3, zero_hpz_partition_size=16), None, A100, "ZC308", "zero_hpz_partition_size"),
    "DeepSpeed#2992": (plan(3, reduce_bucket_size=10**11), None, LLAMA, "ZC301", "reduce_bucket_size"),
    "autotp": (plan(2) | {"tensor_parallel": {"autotp_size": 3}}, None, A100, "ZC308", "autotp_size"),
    "DeepSpeed#4674": ({"sequence_parallel_size": 8}, None, {"model": "qwen2.5-7b"}, "ZC315", "sequence_parallel_size"),
    "DeepSpeed#4852": (plan(3, zero_quantized_weights=True), None, LLAMA, "ZC408", "zero_quantized_weights"),
    "LLaMA-Factory#4754": (
        plan(3, stage3_prefetch_bucket_size="auto"), None,
        {"model": "gemma-3-4b", "reader": "accelerate"}, "ZC320", "stage3_prefetch_bucket_size",
    ),
    "accelerate#1317": (YAML, plan(), {"hardware": "2x4xA100-80GB"}, "ZC309", "num_processes"),
    "starcoder#77": (YAML, batch(32, 4, 1, **zero()), {}, "ZC501", "num_processes"),
    "no zero block": (YAML, batch(32), {}, "ZC502", "deepspeed_config_file"),
    "comments": (YAML, '{"train_batch_size": 8, "zero_optimization": {"stage": 2} // a\n}', {}, "ZC502", "config_file"),
    "accelerate#2079": (YAML + "  zero3_init_flag: true\n", batch(32, **zero()), {}, "ZC503", "zero3_init_flag"),
    "DeepSpeed#6914": ("python t.py \\\n --deepspeed ds.json", batch(32, 4, 1, **zero()), {}, "ZC507", "ds.json"),
    "trlx#376": (
        ("deepspeed --num_gpus 2 \\\n t.py --deepspeed ds.json --per_device_train_batch_size 2 \\\n"
        " --gradient_accumulation_steps 1"), batch(32, **zero()), {}, "ZC506", "--num_gpus",
    ),
    "MedicalGPT#191": (TRAINER + "bf16", {"fp16": {"enabled": True}}, {}, "ZC505", "--bf16"),
    "hendrycks/apps#9": (
        TRAINER + "learning_rate 5e-5",
        {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}, {}, "ZC505", "--learning_rate",
    ),
    "transformers#29348": (
        TRAINER + "max_steps 260",
        {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 100}}}, {}, "ZC505", "--max_steps",
    ),
    "transformers#39849": (
        PRECISION,
        {"fp16": {"enabled": True}, **zero()}, {}, "ZC509", "--mixed_precision",
    ),
    "accelerate#2210": (
        PRECISION,
        {"bf16": {"enabled": False}, **zero()}, {}, "ZC509", "--mixed_precision",
    ),
    "auto_find_batch_size": (TRAINER + "auto_find_batch_size", zero(3), {}, "ZC510", "--auto_find"),
    "transformers#27751": (
        TRAINER + "save_only_model --load_best_model_at_end", zero(2), {}, "ZC510", "--save_only",
    ),
    "DeepSpeed#662": ("export CUDA_VISIBLE_DEVICES=2,3\ndeepspeed --num_gpus 2 t.py", None, {}, "ZC513", "--num_gpus"),
    "DeepSpeed#8207": (plan(2, offload_optimizer=CPU), None, {"model": "13B", **A100, "host_memory": "288GB"},
                       "ZC316", "offload_optimizer"),
    "DeepSpeed#3062": (
        plan(3, offload_param={**DISK, "buffer_count": 5, "buffer_size": 3 * 10**8}, offload_optimizer=CPU),
        None, {"model": "llama-3.2-1b", "hardware": "1xA100-80GB"}, "ZC317", "buffer_count",
    ),
    "DeepSpeed#4386 quantizer": (
        plan(3, zero_quantized_weights=True),
        None, {"model": "llama-3.1-8b", "hardware": "3x8xA100-80GB"}, "ZC318", "zero_quantized_weights",
    ),
    "DeepSpeedExamples#418": ({"fp16": {"enabled": True}}, None, {"model": "t5-large", **A100}, "ZC319", "enabled"),
    "Slurm": ("#SBATCH --nodes=2 --gres=gpu:8\nsrun torchrun \\\n --nnodes 4 t.py", None, {}, "ZC515", "--nnodes"),
    "parallelism": ("accelerate launch --use_parallelism_config t.py", None, {}, "ZC514", "--use_parallelism_config"),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS)
def test_the_report_is_flagged_on_its_line(report):
    content, named, facts, code, flagged = REPORTS[report]
    is_json = not isinstance(content, str)
    text = json.dumps(content, indent=2) if is_json else content + "\n"
    name = "ds_config.json" if is_json else "acc.yaml" if content.startswith("distributed_type") else "run.sh"
    files = {} if named is None else {"ds.json": named if isinstance(named, str) else json.dumps(named)}
    found = [one for one in findings(text, name=name, files=files, **facts) if one.rule.code == code]
    assert found, [one.rule.code for one in findings(text, name=name, files=files, **facts)]
    line, _ = found[0].document.position(found[0].start)
    assert flagged in found[0].document.line(line)
