#!/usr/bin/env bash
# $summary
# Usage: bash THIS_FILE [more arguments of the training script]
set -euo pipefail
${exports}exec $launcher $arguments "$$@"
