"""Configurations that tests share."""

from __future__ import annotations

BAD = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}\n'
GOOD = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}\n'
