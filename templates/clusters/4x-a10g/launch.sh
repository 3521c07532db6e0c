#!/usr/bin/env bash
# mistral-7b-v0.3 on 1 x 4 GPUs: ZeRO stage 0
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
exec accelerate launch --config_file accelerate.yaml train.py --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --bf16 true --gradient_checkpointing true "$@"
