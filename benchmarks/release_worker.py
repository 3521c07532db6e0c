"""Runs dry_run_releases.py's jobs in one training environment: ``python release_worker.py JOBS CACHE RECORDS``.

JOBS is a JSON list of the smoke test's jobs, CACHE the folder that keeps the compiled counter; RECORDS gets the list of
their records, with ``error`` where one failed. torch and DeepSpeed are imported once, then
each job is a fork.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "zeroconf" / "smoke" / "worker"))
os.environ |= {
    "DS_ACCELERATOR": "cpu",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "OMP_NUM_THREADS": "1",
}

import caches
import dry_run  # noqa: F401  (imported once, before the forks)
import fake_gpu
import rank
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.op_builder.builder import OpBuilder
from records import Record


def stand_in() -> None:
    """What a simulated rank has not on a CPU: compiled optimizers (they work in place: no memory) and fp16."""
    OpBuilder.load = lambda *_builder, **_named: fake_gpu.Kernel(None)
    type(get_accelerator()).is_fp16_supported = lambda _accelerator: True


def run(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """The record of rank 0 of the job."""
    if job["mode"] == "simulated":
        stand_in()
    record = Record(folder, job["rank"])
    try:
        rank.run(job | {"results": folder, "scratch": folder}, record)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is the result)
        traceback.print_exc()
        at = traceback.extract_tb(error.__traceback__)[-1]
        return {"error": f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"}
    return record.values


def in_fork(job: dict[str, Any]) -> dict[str, Any]:
    """The record of a job that ran in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        child = os.fork()
        if not child:
            answer.write_text(json.dumps(run(job, folder)), encoding="utf-8")
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(child, 0)
        result: dict[str, Any] = {"error": "the process died"}
        return json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else result


def main(jobs: str, cache: str, records: str) -> None:
    """Runs all jobs, one after another."""
    directory = caches.build_directory(Path(cache))
    shared = {"counter": str(caches.build_counter(directory)), "device": "cpu", "torch_adam": False}
    done = []
    for job in json.loads(Path(jobs).read_text(encoding="utf-8")):
        done.append(in_fork(job | shared))
        print(".", end="", flush=True)
    print()
    Path(records).write_text(json.dumps(done), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
