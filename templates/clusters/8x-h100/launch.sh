#!/usr/bin/env bash
# llama-3.1-8b on 1 x 8 GPUs: ZeRO stage 2
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
exec accelerate launch --config_file accelerate.yaml train.py --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --bf16 true "$@"
