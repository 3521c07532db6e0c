"""Configurations and rules that tests share."""

from __future__ import annotations

from zeroconf.document.edits import Fix, rename
from zeroconf.rules.registry import Problem

BAD = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}\n'
GOOD = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}\n'
OLD = '{"train_batch": 8, "zero_optimization": {"stage": 2}}\n'
NEW = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}\n'


def renames(config):
    """A safe fix: train_batch becomes train_batch_size."""
    if config.has("train_batch"):
        edits = rename(config.document, ("train_batch",), "train_batch_size")
        yield Problem("old name", ("train_batch",), on_key=True, fix=Fix("rename it", edits))


def refuses_small_batches(config):
    if (config.number("train_batch_size") or 16) < 16:
        yield Problem("too small", ("train_batch_size",))
