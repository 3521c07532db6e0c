#!/usr/bin/env bash
# llama-2-7b on 1 x 8 GPUs: ZeRO stage 2
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
exec accelerate launch --config_file accelerate.yaml train.py --per_device_train_batch_size 2 --gradient_accumulation_steps 8 --bf16 true --gradient_checkpointing true "$@"
