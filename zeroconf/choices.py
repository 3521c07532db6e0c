"""The words that options and project files take, in a module that costs the linter's start nothing."""

from __future__ import annotations

from typing import Final, Literal

Precision = Literal["bf16", "fp16", "fp32"]
Optimizer = Literal["adamw", "adam", "lion", "sgd", "adamw-8bit", "lion-8bit"]
Attention = Literal["flash", "sdpa", "eager"]
Quantization = Literal["nf4", "nf4-double"]
CrossEntropy = Literal["torch", "fused", "fused-linear"]
Checkpointing = Literal["none", "full", "auto"]
Offload = Literal["none", "optimizer", "all", "nvme"]
Reader = Literal["trainer", "accelerate", "deepspeed"]
Scheduler = Literal["slurm", "kubernetes", "jobset"]

# trained in bf16; what passes the 65,504 that fp16 reaches is infinite there (rule ZC319)
OVERFLOW_IN_FP16: Final = frozenset({"t5", "mt5", "umt5"})
