"""One rank of the measurement; run by path in the training environment, imports nothing of zeroconf.

    all_reduce.py SECONDS MOST_BYTES

Rank, world size and the first rank's address come from the environment: torchrun's or DeepSpeed's (RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR, MASTER_PORT) or those of a Slurm step, with ZEROCONF_MASTER for the first node's name.
Prints lines ``zeroconf-measure {json}``: the progress, and at the end, from every rank, the result.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import json
import os
import signal
import socket
import statistics
import struct
import sys
import time

import torch
import torch.distributed as dist

MARK = "zeroconf-measure "
START_SECONDS = 180.0  # longer than whoever started us waits
SMALL_BYTES = 8
SMALL_REPEATS = 50
FIRST_BYTES = 2**20
GROWTH = 4
REPEATS = 5
SIOCGIFADDR = 0x8915
NODE_NUMBERS = ("GROUP_RANK", "SLURM_NODEID", "CROSS_RANK")


def say(**values: object) -> None:
    """A line for the process that started us."""
    print(MARK + json.dumps(values), flush=True)


def rank_from_slurm(environment: dict[str, str]) -> None:
    """A Slurm step's variables as torch.distributed wants them; torchrun's go first."""
    if "RANK" in environment or "SLURM_PROCID" not in environment:
        return
    environment["RANK"] = environment["SLURM_PROCID"]
    environment["WORLD_SIZE"] = environment.get("SLURM_STEP_NUM_TASKS") or environment["SLURM_NTASKS"]
    environment["LOCAL_RANK"] = environment.get("SLURM_LOCALID", "0")
    environment.setdefault("MASTER_ADDR", environment.get("ZEROCONF_MASTER", "127.0.0.1"))
    environment.setdefault("MASTER_PORT", str(20_000 + int(environment.get("SLURM_JOB_ID", "0")) % 20_000))


def interface_to(address: str) -> str | None:
    """The network interface by which an address is reached: gloo would take the one of this host's name."""
    try:
        family, _, _, _, target = socket.getaddrinfo(address, 9, socket.AF_INET, socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            ours = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                with contextlib.suppress(OSError):
                    told = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                    if socket.inet_ntoa(told[20:24]) == ours:
                        return name
    except OSError:
        return None
    return None


class Group:
    """The ranks, and one tensor on each."""

    def __init__(self, seconds: float) -> None:
        environment = os.environ
        local_rank = int(environment.get("LOCAL_RANK", "0"))
        self.backend = "gloo"
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.backend = "nccl"
            # a batch system may show each rank its own GPU only
            self.device = torch.device("cuda", local_rank % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        elif "GLOO_SOCKET_IFNAME" not in environment and (name := interface_to(environment["MASTER_ADDR"])):
            environment["GLOO_SOCKET_IFNAME"] = name
        # whoever comes late is waited for longer than a collective may take
        store, rank, size = next(dist.rendezvous("env://", timeout=dt.timedelta(seconds=START_SECONDS)))
        limit = dt.timedelta(seconds=max(seconds, 30.0))
        dist.init_process_group(self.backend, store=store, rank=rank, world_size=size, timeout=limit)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # torchrun's, Slurm's and DeepSpeed's number of the node; names alone would join containers of one host
        number = next((environment[name] for name in NODE_NUMBERS if name in environment), "")
        self.num_nodes = len(set(self.gather((socket.gethostname(), number))))

    def gather(self, value: object) -> list[object]:
        """The value of every rank."""
        values: list[object] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def once(self, tensor: torch.Tensor) -> float:
        """Seconds of one all-reduce, of the slowest rank."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def slowest(self, seconds: float) -> float:
        """The largest of all ranks' figures, so that all go on alike."""
        told = torch.tensor([seconds], dtype=torch.float64, device=self.device)
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        return float(told.item())


def measure(group: Group, seconds: float, most_bytes: int) -> dict[str, object]:
    """Growing messages until the time or the size is used up; the figures of the largest."""
    start = time.perf_counter()
    small = torch.zeros(SMALL_BYTES // 4, device=group.device)
    group.once(small)
    latency = group.slowest(statistics.median(group.once(small) for _ in range(SMALL_REPEATS)))
    size = FIRST_BYTES
    while True:
        tensor = torch.zeros(size // 4, device=group.device)
        first = group.slowest(group.once(tensor))
        used = group.slowest(time.perf_counter() - start)
        repeats = max(1, min(REPEATS, int((seconds - used) / first)))
        taken = group.slowest(statistics.median(group.once(tensor) for _ in range(repeats)))
        used = group.slowest(time.perf_counter() - start)
        if group.rank == 0:
            say(progress=min(1.0, used / seconds), bytes=size, seconds=taken)
        if size * GROWTH > most_bytes or used + taken * GROWTH * 2 > seconds:
            break
        size *= GROWTH
    hops = 2 * (group.size - 1)
    return {
        "num_bytes": size,
        # nccl-tests' PERFORMANCE.md: an all-reduce moves 2 (n - 1) / n of its size through each rank's link
        "bytes_per_second": size / taken * hops / group.size,
        "latency_seconds": latency / hops,
    }


def main(arguments: list[str]) -> None:
    """Measures, and prints what was found."""
    seconds, most_bytes = float(arguments[0]), int(arguments[1])
    # a rank on another node ends by itself when the process that started all is gone
    signal.alarm(int(seconds + START_SECONDS))
    rank_from_slurm(os.environ)  # type: ignore[arg-type]
    group = Group(seconds)
    found = measure(group, seconds, most_bytes)
    say(result={**found, "num_ranks": group.size, "num_nodes": group.num_nodes, "backend": group.backend})
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
