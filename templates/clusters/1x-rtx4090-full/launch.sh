#!/usr/bin/env bash
# qwen2.5-1.5b on 1 x 1 GPUs: ZeRO stage 1, offload optimizer
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
exec accelerate launch --config_file accelerate.yaml train.py --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --bf16 true "$@"
