#!/usr/bin/env bash
# qwen3-30b-a3b on 1 x 8 GPUs: ZeRO stage 3, offload optimizer
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
exec accelerate launch --config_file accelerate.yaml train.py --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --bf16 true --gradient_checkpointing true "$@"
