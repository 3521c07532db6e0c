#!/usr/bin/env bash
# $summary
# Usage: sbatch THIS_FILE [more arguments of the training script]
#SBATCH --job-name=$job_name
#SBATCH --nodes=$num_nodes
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=$gpus_per_node
# All CPUs and all memory of each node: the launcher is one task that starts a process for each GPU.
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --output=%x-%j.out
# Most clusters want these too; take one # away and fill them in.
##SBATCH --partition=
##SBATCH --account=
##SBATCH --time=
set -euo pipefail

mapfile -t hosts < <(scontrol show hostnames "$$SLURM_JOB_NODELIST")
export MASTER_ADDR="$${hosts[0]}"
export MASTER_PORT="$$((20000 + SLURM_JOB_ID % 20000))"
${exports}
# SLURM_NODEID is known only on the node itself, so the inner shell expands it there.
srun --kill-on-bad-exit=1 --cpu-bind=none \
  bash -c '$launcher "$$@"' launch $arguments "$$@"
