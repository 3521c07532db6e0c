#!/usr/bin/env bash
# llama-3.1-8b on 1 x 1 GPUs: ZeRO stage 3, offload all
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
exec torchrun --standalone --nproc_per_node 1 train.py --deepspeed ds_config.json --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --bf16 true --gradient_checkpointing true "$@"
