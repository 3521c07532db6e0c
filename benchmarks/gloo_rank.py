"""One rank of gloo_bytes.py: trains each job a few steps, and reads its interface's counters.

    gloo_rank.py JOBS OUTPUT

Rank 0 appends a line for the plain collectives, then one for each job. shaped_rank.py trains the same engines.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "zeroconf" / "smoke" / "worker"))

import deepspeed
import torch
import torch._dynamo
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP, COUNTED = 3, 3
LARGE, SMALL_CALLS, QUIET_SECONDS = 2**22, 100, 5
INTERFACE = Path("/sys/class/net") / os.environ["GLOO_SOCKET_IFNAME"] / "statistics"


def crossed() -> int:
    """Bytes that have crossed the interface, both ways."""
    return sum(int((INTERFACE / name).read_text(encoding="ascii")) for name in ("tx_bytes", "rx_bytes"))


def counted(run: Callable[[], Any]) -> float:
    """Bytes that one side sends, averaged over both: nobody starts before the counters are read, nor after.

    Two barriers are counted with it.
    """
    distributed.barrier()
    time.sleep(0.2)
    before = crossed()
    distributed.barrier()
    run()
    distributed.barrier()
    time.sleep(0.2)
    after = crossed()
    distributed.barrier()
    return (after - before) / 2


def _often(collective: Callable[[], Any]) -> None:
    for _ in range(SMALL_CALLS):
        collective()


def plain_collectives() -> dict[str, Any]:
    """Those of known size: nothing, large ones in bf16, and the smallest, many times."""
    ranks = distributed.get_world_size()
    whole, part = torch.ones(LARGE, dtype=torch.bfloat16), torch.ones(LARGE // ranks, dtype=torch.bfloat16)
    flag, flags = torch.ones(1), torch.ones(ranks)
    once = 2 * LARGE * (ranks - 1) / ranks
    runs: list[tuple[str, float, Callable[[], Any]]] = [
        ("all-reduce", 2 * once, lambda: distributed.all_reduce(whole)),
        ("all-gather", once, lambda: distributed.all_gather_into_tensor(whole, part)),
        ("reduce-scatter", 2 * once, lambda: distributed.reduce_scatter_tensor(part, whole)),
    ]
    barriers = statistics.median(counted(lambda: None) for _ in range(5))
    large = [
        {
            "collective": name,
            "expected": expected,
            "counted": statistics.median(counted(one) for _ in range(5)) - barriers,
        }
        for name, expected, one in runs
    ]

    small: dict[str, Callable[[], Any]] = {
        "all-reduce": lambda: distributed.all_reduce(flag),
        "all-gather": lambda: distributed.all_gather_into_tensor(flags, flag),
        "reduce-scatter": lambda: distributed.reduce_scatter_tensor(flag, flags),
        "reduce": lambda: distributed.reduce(flag, 0),
    }
    each = {name: (counted(lambda one=one: _often(one)) - barriers) / SMALL_CALLS for name, one in small.items()}
    quiet = (counted(lambda: time.sleep(QUIET_SECONDS)) - barriers) / QUIET_SECONDS
    return {
        "name": "",
        "large": large,
        "bytes_per_small_call": each,
        "bytes_of_barriers": barriers,
        "quiet_bytes_per_second": quiet,
    }


@dataclass(frozen=True, slots=True)
class Training:
    """An engine and how to run it."""

    engine: Any
    steps: Callable[[int], None]
    facts: dict[str, Any]


def build(job: dict[str, Any]) -> Training:
    """DeepSpeed's engine of one job; the model is whole when the engine gets it."""
    architecture, script = importlib.import_module("architecture"), importlib.import_module("script")
    config, class_name, _ = architecture.make_config(job["architecture"], job["sequence_length"])
    ds_config = job["ds_config"] | {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": job["gradient_accumulation_steps"],
    }
    ds_config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
    dtype = torch.bfloat16 if ds_config["bf16"]["enabled"] else torch.float32
    model = architecture.build_model(config, class_name, dtype)
    if job["lora_rank"]:
        model = script._with_adapters(model, job["lora_rank"])  # noqa: SLF001  (as the smoke test has them)
    trained = [one for one in model.parameters() if one.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, config=ds_config, model_parameters=trained)
    batch = architecture.make_batch(
        config, rank=distributed.get_rank(), micro_batch_size=1, sequence_length=job["sequence_length"], device="cpu"
    )

    def steps(number: int) -> None:
        for _ in range(number * job["gradient_accumulation_steps"]):
            engine.backward(engine(**batch).loss)
            engine.step()

    facts = {"name": job["name"], "parameters": architecture.num_parameters(model), "ds_config": ds_config}
    return Training(engine, steps, facts)


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Bytes of one step of a job."""
    training = build(job)
    training.steps(WARM_UP)
    began = time.monotonic()
    size = counted(lambda: training.steps(COUNTED))
    found = training.facts | {"bytes": size, "seconds": time.monotonic() - began, "steps": COUNTED}
    training.engine.destroy()
    return found


def run_all(plain: Callable[[], dict[str, Any]], one: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The plain collectives and all jobs, one after the other."""
    jobs, output = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo")
    for run in (plain, *((lambda job=job: one(job)) for job in jobs)):
        line = run()
        gc.collect()
        if distributed.get_rank() == 0:
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    distributed.barrier()
    os._exit(0)  # destructors would wait for each other


if __name__ == "__main__":
    run_all(plain_collectives, train)
