"""Runs a bounded all-reduce between the job's ranks, and reads what it measured."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroconf.detect.gpus import find_gpus
from zeroconf.detect.jobs import DEFAULT_HOSTFILE, expand, find_job
from zeroconf.detect.machine import count, printable
from zeroconf.detect.measured import Measured
from zeroconf.errors import InputError
from zeroconf.guarded import free_port, guarded
from zeroconf.inputs.text import is_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zeroconf.detect.jobs import Job
    from zeroconf.detect.machine import Machine

MEASURE_SECONDS = 20.0
MOST_BYTES = 2**28
START_SECONDS = 120.0  # imports from a busy shared disk, and ranks that come late
_POLL_SECONDS = 0.1
_WORKER = Path(__file__).parent / "worker/all_reduce.py"
_MARK = "zeroconf-measure "
_ERROR = re.compile(r"^(?:\[?\w+\]?:\s*)?((?:[\w.]+\.)?\w*(?:Error|Exception): .+)$", re.MULTILINE)
_RANKS_WITHOUT_GPUS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the ranks are started; ``is_first`` is false where we are another rank than 0 of an outer launcher."""

    command: list[str]
    environment: dict[str, str]
    is_first: bool = True


def measure(
    machine: Machine,
    *,
    python: str,
    hostfile: str | None = None,
    num_ranks: int | None = None,
    seconds: float = MEASURE_SECONDS,
    start_seconds: float = START_SECONDS,
    on_progress: Callable[[float, str], None] | None = None,
) -> Measured:
    """The bandwidth and latency of an all-reduce between the ranks of the job, or of this machine.

    ``python`` is an interpreter with torch. It takes ``seconds`` at most after ``start_seconds`` for starting.

    Raises:
        InputError: no interpreter or launcher, the ranks fail, or they do not end in time.
    """
    found = shutil.which(python)
    if found is None:
        msg = f"there is no interpreter {python}; give --python the training environment's"
        raise InputError(msg)
    # not resolved: a virtual environment is found by its link
    launch = plan_launch(machine, str(Path(found).absolute()), seconds=seconds, hostfile=hostfile, num_ranks=num_ranks)
    progress = on_progress or (lambda _share, _text: None)
    scratch = Path(tempfile.mkdtemp(prefix="zeroconf-detect-"))
    try:
        result = _run(launch, scratch, seconds + start_seconds, progress)
        if result is None:
            raise InputError(_why(scratch, python, seconds + start_seconds))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Measured(**result, is_first=launch.is_first)


def plan_launch(
    machine: Machine, python: str, *, seconds: float, hostfile: str | None, num_ranks: int | None
) -> Launch:
    """One rank of the launcher that started us, else srun in an allocation, DeepSpeed's launcher, or torchrun here.

    Raises:
        InputError: the hostfile cannot be read, or srun is missing.
    """
    worker = [str(_WORKER), str(seconds), str(MOST_BYTES)]
    environment = {"OMP_NUM_THREADS": "1", **machine.environment}
    job = find_job(machine, hostfile)
    if master := next(iter(_step_hosts(environment) or job.hosts), ""):
        environment["ZEROCONF_MASTER"] = master
    if num_ranks is None and hostfile is None:
        if {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
            return Launch(command=[python, *worker], environment=environment, is_first=environment["RANK"] == "0")
        if (count(environment.get("SLURM_STEP_NUM_TASKS")) or 0) > 1 and "SLURM_PROCID" in environment:
            is_first = environment["SLURM_PROCID"] == "0"
            return Launch(command=[python, *worker], environment=environment, is_first=is_first)
    if num_ranks is None and (job.num_nodes or 1) > 1:
        return Launch(command=_across(machine, job, [python, *worker], hostfile), environment=environment)
    ranks = num_ranks or len(find_gpus(machine).devices) or _RANKS_WITHOUT_GPUS
    if ranks < 2:
        msg = "one GPU has nobody to send to; run it with torchrun, Slurm or --hostfile, or give --num-ranks 2"
        raise InputError(msg)
    address = ["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    torchrun = [python, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", *address]
    return Launch(command=[*torchrun, *worker], environment=_without_ranks(environment))


def _step_hosts(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    return expand(environment.get("SLURM_STEP_NODELIST", ""))


def _across(machine: Machine, job: Job, worker: list[str], hostfile: str | None) -> list[str]:
    """The launcher of the job's nodes, from its first node or its batch script."""
    if hostfile is None and job.source.startswith("SLURM_"):
        if shutil.which("srun", path=machine.environment.get("PATH", "")) is None:
            msg = "this Slurm job has several nodes, and srun is not on PATH; run it there as: srun zeroconf detect ..."
            raise InputError(msg)
        per_node = len(find_gpus(machine).devices) or job.gpus_per_node or 1
        tasks = [f"--ntasks={per_node * (job.num_nodes or 1)}", f"--ntasks-per-node={per_node}"]
        return ["srun", *tasks, "--kill-on-bad-exit=1", *worker]
    if not is_file(Path(hostfile or DEFAULT_HOSTFILE)):
        msg = "the job has several nodes; start the measurement on each with torchrun, or give --hostfile"
        raise InputError(msg)
    return [worker[0], "-m", "deepspeed.launcher.runner", f"--hostfile={hostfile or DEFAULT_HOSTFILE}", *worker[1:]]


def _without_ranks(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what an outer launcher left behind, which would make the ranks join the wrong group."""
    foreign = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "MASTER_", "TORCHELASTIC_", "SLURM_PROCID")
    return {name: value for name, value in environment.items() if not name.startswith(foreign)}


def _run(
    launch: Launch, scratch: Path, seconds: float, progress: Callable[[float, str], None]
) -> dict[str, Any] | None:
    """Watches the ranks to their end; the result, or None when they end or time runs out without one."""
    deadline = time.monotonic() + seconds
    result = None
    said = scratch / "out"
    # torchrun's folders go with ours; where a rank of another node has no such folder, it takes its own
    environment = launch.environment | {"TMPDIR": str(scratch)}
    progress(0.0, "starting the ranks")
    with (
        said.open("w", encoding="utf-8") as out,
        (scratch / "err").open("w", encoding="utf-8") as err,
        guarded(launch.command, scratch, environment, stdout=out, stderr=err) as process,
    ):
        num_read = 0
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            lines = _lines(said)
            for line in lines[num_read:]:
                if "progress" in line:
                    rate = line["bytes"] / line["seconds"]
                    progress(line["progress"], f"{line['bytes'] / 2**20:g} MiB at {rate / 1e9:.3g} GB/s")
                result = line.get("result", result)
            num_read = len(lines)
            if ended:
                break
            time.sleep(_POLL_SECONDS)
    return result


def _lines(path: Path) -> list[dict[str, Any]]:
    """The worker's lines so far; a launcher may put the name of the host before each."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        _, mark, text = line.partition(_MARK)
        if mark:
            try:
                found.append(json.loads(text))
            except ValueError:  # half a line, which is whole the next time
                continue
    return found


def _why(scratch: Path, python: str, seconds: float) -> str:
    """Why there is no result, from what the ranks said."""
    said = (scratch / "err").read_text(encoding="utf-8", errors="replace")
    errors = _ERROR.findall(said)
    if "No module named 'torch'" in said or "No module named torch" in said:
        return f"{python} has no torch; give --python the training environment's"
    if "No module named 'deepspeed" in said or "No module named deepspeed" in said:
        return f"{python} has no deepspeed to start the hostfile's ranks with; give --python the training environment's"
    if errors:
        return f"the measurement failed ({printable(errors[0])}); see that every rank starts and reaches the others"
    return (
        f"the measurement had no result within {seconds:.0f} seconds; see that every rank starts and reaches the others"
    )
