"""What a base file says in the place of options."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeroconf.inputs.agreed import BATCH_OPTIONS, check_optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.choices import Reader
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import Cluster


def with_nvme_path(cluster: Cluster, base: ConfigFile) -> Cluster:
    """The cluster whose disk, where it has one, is mounted where the file says, not where the instance's entry does."""
    zero = base.content.get("zero_optimization")
    blocks = [zero.get(name) for name in ("offload_optimizer", "offload_param")] if isinstance(zero, dict) else []
    paths = [block["nvme_path"] for block in blocks if isinstance(block, dict) and block.get("nvme_path")]
    if cluster.nvme is None or not paths:
        return cluster
    return replace(cluster, nvme=replace(cluster.nvme, path=str(paths[0])))


def base_options(base: ConfigFile, options: Mapping[str, Any], num_gpus: int, reader: Reader) -> dict[str, Any]:
    """The options, with the file's precision, optimizer and global batch where none was given.

    The global batch is what training depends on, so it stays; how it is split is for the plan to decide. 4 sequences x
    8 micro steps on 16 GPUs: 512, and 256 where two of them share each sequence.

    Raises:
        InputError: another optimizer was asked for than the file has, or its parallel sizes do not divide the GPUs.
    """
    found = dict(options)
    data_parallel = base.data_parallel_size(num_gpus)
    found["sequence_parallel_size"] = base.sequence_parallel_size
    found["tensor_parallel_size"] = base.tensor_parallel_size
    if found.get("precision") is None and not base.leaves_precision_open(reader):
        found["precision"] = base.precision
    if isinstance(base.content.get("optimizer"), dict):
        check_optimizer(base, found.get("optimizer"), client=bool(found.get("client_optimizer")))
        found["optimizer"] = base.optimizer or found.get("optimizer")
    micro, steps = base.micro_batch_size, base.gradient_accumulation_steps
    if all(found.get(option) is None for option in BATCH_OPTIONS):
        if base.train_batch_size is not None:
            found["global_batch_size"] = base.train_batch_size
        elif micro is not None and steps is not None:
            found["global_batch_size"] = micro * steps * data_parallel
    return found
