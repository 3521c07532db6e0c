"""Runs a smoke test: prepares the training environment, starts the ranks, watches them, ends all of them.

Nothing outlives a run, however it ends: the ranks stand under a guard that ends their whole process tree
(worker/guard.py), and everything temporary lies in one folder that the run, or the guard, removes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from zeroconf.errors import SmokeTestError
from zeroconf.guarded import free_port, guarded
from zeroconf.smoke.command import (
    WORKER,
    Launcher,
    cache_directory,
    clean_environment,
    launch_command,
    launch_environment,
    rank_settings,
)
from zeroconf.smoke.folders import open_log, scratch_folder, tail, told_when_full
from zeroconf.smoke.free_memory import FreeMemory
from zeroconf.smoke.hosts import (
    environment_of_ranks,
    everywhere,
    failed_codes,
    guarded_on_hosts,
    host_commands,
    likely_free_port,
    ranks_command,
    write_plan,
)
from zeroconf.smoke.losses import with_losses_judged
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.outcome import Verdict, explain, first_failure, judge, lost_peer, one_line
from zeroconf.smoke.prepared import answer_path, check, differences, follow, no_answer_in_time, read_answers
from zeroconf.smoke.result import append_measurement, measurement, read_records
from zeroconf.smoke.words import progress_line
from zeroconf.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zeroconf.smoke.hosts import Hosts
    from zeroconf.smoke.job import ProgramJob, SmokeJob

POLL_SECONDS = 0.1
SHARED_POLL_SECONDS = 0.5  # of a folder on a network file system
PREPARE_SECONDS = 120.0  # how long an import of torch may take, from a slow disk
LAUNCHER_SECONDS = 8.0  # how long a launcher may take to end by itself, and to say why a rank died


def run_smoke_test(
    job: SmokeJob | ProgramJob,
    *,
    launcher: Launcher = "torchrun",
    python: str = sys.executable,
    timeout_seconds: float = 300.0,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    hosts: Hosts | None = None,
    processor_bytes: int = 0,
    on_progress: Callable[[str], None] | None = None,
) -> SmokeResult:
    """Trains a job's optimizer steps with random weights and one repeated batch, or a user's program; what it measured.

    ``python`` is the training environment's interpreter. ``launcher`` and ``device`` are of no effect where one
    process stands for a rank. ``timeout_seconds`` bounds the run, not the one-time compilation before it; what else is
    before it has at least PREPARE_SECONDS.
    ``processor_bytes`` is what the run needs of this machine's memory where it has no GPU; far beyond, none is started.
    ``hosts`` None is this machine; others find the run's folder in the cache, which they have to share.
    ``predicted`` and ``relative_error`` of the result are left to the caller.

    Raises:
        SmokeTestError: it could not run at all: no interpreter, DeepSpeed or launcher, too few GPUs.
    """
    progress = on_progress or (lambda _line: None)
    python = _interpreter(python)
    cache = cache_directory()
    asked = {"launcher": launcher, "device": "cpu" if job.mode == "dry-run" else device, "cache": str(cache)}
    folder = cache / "runs" if hosts else None
    with told_when_full(cache), scratch_folder(folder) as scratch, open_log(cache / "logs") as log:
        values = job.to_json() | asked | {"scratch": str(scratch)}
        given = (values, job.facts, python, job.num_processes, scratch, log, progress, timeout_seconds, hosts)
        run = _Run(*given, processor_bytes)
        answers = run.prepare()
        verdict, records = run.launch(answers)
    result = _result(run, answers[0], verdict, records)
    try:
        append_measurement(cache / "measurements.jsonl", result, job.ds_config)
    except OSError as error:
        why = f"the measurement was not kept for calibration: {error.strerror or error}: {cache / 'measurements.jsonl'}"
        return replace(result, substitutions=(*result.substitutions, why))
    return result


@dataclass(frozen=True, slots=True)
class _Run:
    job: dict[str, Any]
    facts: dict[str, Any]
    python: str
    num_processes: int
    scratch: Path
    log: IO[str]
    progress: Callable[[str], None]
    timeout_seconds: float
    hosts: Hosts | None
    processor_bytes: int

    def environment(self, device: str, kept: Mapping[str, str]) -> dict[str, str]:
        return launch_environment(
            os.environ,
            python=self.python,
            device=device,
            num_processes=self.num_processes,
            scratch=self.scratch,
            kept=kept,
        )

    def prepare(self) -> list[dict[str, Any]]:
        """Asks worker/prepare.py what the environment has, on each host; compiles what is missing.

        Raises:
            SmokeTestError: packages or GPUs are missing, a host cannot be reached, or an interpreter does not end.
        """
        job_path = self.scratch / "job.json"
        job_path.write_text(json.dumps(self.job), encoding="utf-8")
        names = self.hosts.names if self.hosts else ("",)
        prepare = [self.python, str(WORKER / "prepare.py"), str(job_path)]
        commands = [[*prepare, str(answer_path(self.scratch, node))] for node in range(len(names))]
        command = commands[0]
        if self.hosts:
            write_plan(self.hosts, self.scratch, "prepare", commands, [{}] * len(names))
            command = everywhere(self.hosts, self.python, self.scratch, "prepare")
        log, limit = Path(self.log.name), max(self.timeout_seconds, PREPARE_SECONDS)
        with self._started(command, self.job["device"], {}, stdout=subprocess.PIPE) as process:
            if not follow(process, self.progress, limit, log):
                raise no_answer_in_time(self.scratch, self.python, names, log, limit)
        answers = read_answers(self.scratch, self.python, names, log)
        slots = list(self.hosts.slots.values()) if self.hosts else [self.num_processes]
        check(answers, names, slots, python=self.python, device=self.job["device"])
        answers[0]["notes"] += differences(answers, names)
        return answers

    def launch(self, answers: Sequence[Mapping[str, Any]]) -> tuple[Verdict, list[dict[str, Any]]]:
        """Starts the ranks and watches them to their end; the verdict and the ranks' records."""
        answer = answers[0]
        unbuilt = {name: error for one in answers for name, error in one["unbuilt"].items()}
        torch_adam = answer["device"] == "cpu" and unbuilt.pop("FusedAdamBuilder", None) is not None
        if unbuilt:
            name, error = next(iter(unbuilt.items()))
            what = f"DeepSpeed's {name.removesuffix('Builder')} did not compile"
            return explain("crash", f"{what}: {error}", "no rank was started"), []
        memory = FreeMemory()
        if answer["device"] == "cpu" and (refusal := memory.refusal(self.num_processes, self.processor_bytes)):
            return refusal, []
        results = self.scratch / "results"
        results.mkdir()
        job = self.job | {"device": answer["device"], "counter": answer["counter"], "results": str(results)}
        (self.scratch / "job.json").write_text(json.dumps(job | {"torch_adam": torch_adam}), encoding="utf-8")
        command = self._on_hosts(self.hosts, answers) if self.hosts else self._here(answer)
        self.progress(self._starting(answer["device"]))
        with self._started(command, answer["device"], answer["kept"], stdout=self.log) as process:
            timed_out = not self._watch(process, results, memory)
            exit_code = process.poll()  # when it ended by itself
            started = self.job["launcher"] if self.job["mode"] == "real" else ""
            if self.hosts and (codes := failed_codes(self.scratch, "ranks")):
                exit_code = max(codes)
                # others than torchrun start a host's ranks without one of their own there
                started = started if started == "torchrun" else ""
            said = tail(Path(self.log.name))  # before what is left is ended, which reads as if it were killed
        records = self._records(results)
        verdict = judge(
            records,
            num_processes=self.num_processes,
            timed_out=timed_out,
            timeout_seconds=self.timeout_seconds,
            exit_code=exit_code,
            launcher=started,
            ds_config=self.job.get("ds_config", {}),
            log=said,
            memory=None if self.hosts else memory,
        )
        return verdict, records

    def _here(self, answer: Mapping[str, Any]) -> list[str]:
        launcher = self.job["launcher"] if self.job["mode"] == "real" else None
        devices = os.environ.get("CUDA_VISIBLE_DEVICES") if answer["device"] == "cuda" else None
        return launch_command(
            launcher,
            self.python,
            num_processes=self.num_processes,
            port=free_port(),
            scratch=self.scratch,
            visible_devices=devices,
            config=self.job.get("config"),
        )

    def _on_hosts(self, hosts: Hosts, answers: Sequence[Mapping[str, Any]]) -> list[str]:
        launcher, port = self.job["launcher"], likely_free_port()
        commands = host_commands(hosts, launcher, self.python, self.scratch, port)
        given = environment_of_ranks(hosts, launcher, port)
        settings = [rank_settings(answer["device"], answer["kept"]) | given for answer in answers]
        write_plan(hosts, self.scratch, "ranks", commands, settings)
        return ranks_command(hosts, launcher, self.python, self.scratch, "ranks", port)

    @contextlib.contextmanager
    def _started(
        self, command: list[str], device: str, kept: Mapping[str, str], *, stdout: Any
    ) -> Iterator[subprocess.Popen[str]]:
        if self.hosts:
            environment = clean_environment(os.environ, python=self.python, scratch=self.scratch)
            environment |= rank_settings(device, {})
        else:
            environment = self.environment(device, kept)
        start = guarded_on_hosts if self.hosts else guarded
        with start(command, self.scratch, environment, stdout=stdout, stderr=self.log) as process:
            yield process

    def _starting(self, device: str) -> str:
        if self.job["mode"] == "real":
            where = f" of {len(self.hosts.names)} hosts" if self.hosts and len(self.hosts.names) > 1 else ""
            return f"starting {counted(self.num_processes, 'rank')} with {self.job['launcher']} on {device}{where}"
        where = "fake tensors" if self.job["mode"] == "dry-run" else device
        return f"starting rank {self.job['rank']} of {self.job['world_size']} on {where}"

    def _watch(self, process: subprocess.Popen[str], results: Path, memory: FreeMemory) -> bool:
        """Waits until all ranks are done, one failed, or the launcher ended; False when time ran out."""
        deadline = time.monotonic() + self.timeout_seconds
        said = ""
        while time.monotonic() < deadline:
            memory.look()
            records = self._records(results)
            if records and (line := progress_line(records[0], self.job["steps"])) != said:
                said = line
                self.progress(line)
            failed = first_failure(records)
            gone = self.hosts and failed_codes(self.scratch, "ranks")
            done = len(records) == self.num_processes and all(record["state"] == "done" for record in records)
            # a rank that only lost its peer does not know why: the launcher says so when it ends
            if done or (failed and lost_peer(failed["message"]) and not gone):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LAUNCHER_SECONDS)
                return True
            if failed or gone or process.poll() is not None:
                return True
            time.sleep(SHARED_POLL_SECONDS if self.hosts else POLL_SECONDS)
        return False

    def _records(self, results: Path) -> list[dict[str, Any]]:
        if self.hosts:
            # a network file system shows what others did in a folder late, and at once where one changed it oneself
            with contextlib.suppress(OSError):
                (results / "look").touch()
                (results / "look").unlink()
        return read_records(results)


def _result(run: _Run, answer: Mapping[str, Any], verdict: Verdict, records: list[dict[str, Any]]) -> SmokeResult:
    environment: dict[str, object] = {
        "python": answer["python"],
        **answer["versions"],
        "device": answer["device"],
        "driver": answer["driver"] or None,
        "hosts": dict(run.hosts.slots) if run.hosts else None,
        "launcher": run.job["launcher"] if run.job["mode"] == "real" else None,
        "num_processes": run.job["world_size"],
    }
    notes = list(answer["notes"])
    if records:
        environment |= records[0]["environment"]
        notes += records[0]["substitutions"]
    result = SmokeResult(
        mode=run.job["mode"],
        outcome=verdict.outcome,
        ranks=tuple(measurement(record) for record in records if record.get("phases")),
        environment=environment,
        log_path=run.log.name,
        facts=run.facts,
        simulated_world_size=None if run.job["mode"] == "real" else run.job["world_size"],
        substitutions=tuple(dict.fromkeys(one_line(note) for note in notes)),
        explanation=verdict.explanation,
        cure=verdict.cure,
    )
    return with_losses_judged(result)


def _interpreter(python: str) -> str:
    found = shutil.which(python)
    if found is None:
        msg = f"there is no interpreter {python}; give --python the training environment's"
        raise SmokeTestError(msg)
    # not resolved: a virtual environment is found by its link
    return str(Path(found).absolute())
