"""One rank of shaped_link.py: times each job's steps over the free link, then over the limited one.

    shaped_rank.py JOBS OUTPUT

Rank 0 appends a line for a large all-reduce, then one for each job. Each namespace's first rank limits what its own end
of the link sends; nobody takes a step while that changes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Any

import torch
from gloo_rank import LARGE, WARM_UP, build, run_all
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPEATS = 5
RATE = os.environ["ZEROCONF_RATE"]
DEVICE = ["dev", os.environ["GLOO_SOCKET_IFNAME"], "root"]
# a small bucket: a larger one would let what comes after a pause pass at full speed
BUCKET = ["tbf", "rate", RATE, "burst", "8kb", "latency", "200ms"]


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """The link at its rate, both ways."""
    _discipline("add", *DEVICE, *BUCKET)
    yield
    _discipline("del", *DEVICE)


def _discipline(*words: str) -> None:
    distributed.barrier()
    if os.environ["LOCAL_RANK"] == "0":
        subprocess.run(["tc", "qdisc", *words], check=True)
    time.sleep(0.2)
    distributed.barrier()


def timed(run: Callable[[], Any]) -> list[float]:
    """Seconds of each of five runs, until all ranks have ended it."""
    found = []
    for _ in range(REPEATS):
        distributed.barrier()
        began = time.monotonic()
        run()
        distributed.barrier()
        found.append(round(time.monotonic() - began, 4))
    return found


def link_rate() -> dict[str, Any]:
    """Bytes per second that a large all-reduce sends over the limited link."""
    ranks, whole = distributed.get_world_size(), torch.ones(LARGE, dtype=torch.bfloat16)
    with limited():
        seconds = statistics.median(timed(lambda: distributed.all_reduce(whole)))
    return {"name": "", "bytes_per_second": round(2 * 2 * LARGE * (ranks - 1) / ranks / seconds)}


def time_job(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of five steps, with and without the limit."""
    training = build(job)
    training.steps(WARM_UP)
    free = timed(lambda: training.steps(1))
    with limited():
        slow = timed(lambda: training.steps(1))
    training.engine.destroy()
    return training.facts | {"free_seconds": free, "limited_seconds": slow}


if __name__ == "__main__":
    run_all(link_rate, time_job)
