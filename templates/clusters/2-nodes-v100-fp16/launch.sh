#!/usr/bin/env bash
# pythia-6.9b on 2 x 8 GPUs: ZeRO stage 3
# Usage: sbatch THIS_FILE [more arguments of the training script]
#SBATCH --job-name=pythia-6.9b
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
# All CPUs and all memory of each node: the launcher is one task that starts a process for each GPU.
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --output=%x-%j.out
# Most clusters want these too; take one # away and fill them in.
##SBATCH --partition=
##SBATCH --account=
##SBATCH --time=
set -euo pipefail

mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR="${hosts[0]}"
export MASTER_PORT="$((20000 + SLURM_JOB_ID % 20000))"

# SLURM_NODEID is known only on the node itself, so the inner shell expands it there.
srun --kill-on-bad-exit=1 --cpu-bind=none \
  bash -c 'accelerate launch --machine_rank "$SLURM_NODEID" --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" "$@"' launch --config_file accelerate.yaml train.py --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --fp16 true --gradient_checkpointing true "$@"
