from __future__ import annotations

import re

import pytest
import records

from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.outcome import CAUSES, judge
from zeroconf.smoke.result import measurement
from zeroconf.smoke.text import to_text


def record(rank: int, state: str = "done", **values: object) -> dict[str, object]:
    return {"rank": rank, "state": state, "phase": "done", "step": 0, **values}


def failed(
    rank: int, message: str, *, outcome: str = "crash", phase: str = "init", at: float = 1.0
) -> dict[str, object]:
    return record(rank, "failed", message=message, outcome=outcome, phase=phase, failed_at=at)


def verdict(found: list[dict[str, object]], *, timed_out: bool = False, log: str = "", num_processes: int = 2):
    return judge(found, num_processes=num_processes, timed_out=timed_out, timeout_seconds=60, log=log)


def test_it_fits_only_when_every_rank_says_so():
    assert verdict([record(0), record(1)]).outcome == "fits"
    assert verdict([record(0)]).outcome == "crash"
    assert verdict([record(0), record(1, "running")]).outcome == "crash"


def test_the_first_failure_is_the_cause_not_the_ranks_that_lost_it():
    found = [
        failed(0, "RuntimeError: Connection closed by peer [127.0.0.1]:4711", at=1.0),
        failed(1, "OutOfMemoryError: CUDA out of memory", outcome="oom", phase="step", at=2.0),
    ]
    outcome, explanation, cure = verdict(found)
    assert outcome == "oom"
    assert explanation.startswith("rank 1 failed in step")
    assert "micro batch" in cure


@pytest.mark.parametrize(
    "log",
    [
        "  exitcode  : -9 (pid: 4711)",
        "worker exits with return code = -9",
        "Signal 9 (SIGKILL) received by PID 3",
        # of a host's part (worker/host.py), by DeepSpeed's launcher and by srun
        "node-2: [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'host.py'] exits with return code = 137",
        "srun: error: node-2: task 1: Exited with exit code 137",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.1. Some of the step tasks have been OOM Killed.",
    ],
)
def test_a_killed_rank_is_host_memory(log):
    lost = failed(0, "RuntimeError: Connection reset by peer")
    assert verdict([lost, record(1, "running")], log=log).outcome == "host-oom"
    assert verdict([], log=log).outcome == "host-oom"


def test_a_rank_without_a_launcher_is_killed_by_its_own_exit_code():
    found = judge(
        [record(0, "running")], num_processes=1, timed_out=False, timeout_seconds=60, log="", exit_code=128 + 9
    )
    assert found.outcome == "host-oom"


def test_an_end_that_nobody_explains_says_where_it_was():
    found = judge([record(0, "running")], num_processes=1, timed_out=False, timeout_seconds=60, log="", exit_code=3)
    assert found.outcome == "crash"
    assert "exit code 3" in found.explanation
    assert "rank 0 was in" in found.explanation


def test_a_hang_says_where_each_rank_was():
    found = [record(0, "running", phase="backward", step=2), record(1, "running", phase="init")]
    outcome, explanation, _ = verdict(found, timed_out=True)
    assert outcome == "hang"
    assert explanation == "no end after 60 s: rank 0 was in backward of step 2, rank 1 was in init"


def test_a_launcher_that_dies_early_is_explained_by_its_last_error_line():
    log = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'mpi4py'\nbye\n"
    assert "ModuleNotFoundError: No module named 'mpi4py'" in verdict([], log=log).explanation
    by_pdsh = "node-2: Traceback (most recent call last):\nnode-2: KeyError: 'RANK'\n"
    assert "KeyError: 'RANK'" in verdict([], log=by_pdsh).explanation
    by_slurm = "srun: error: Unable to create step for job 2: More processors requested than permitted\n"
    assert "More processors requested" in verdict([], log=by_slurm).explanation


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ("ValidationError: overlap_com: Extra inputs are not permitted (extra_forbidden)", "correct or delete the key"),
        ("AssertionError: Check batch related parameters. 8 != 2 * 1 * 2", "start as many processes"),
        ("TypeError: '>' not supported between instances of 'str' and 'int'", "without quotes"),
        ("ValueError: Type fp16 is not supported on your device.", "use bf16"),
        ("RuntimeError: DeepSpeedCPUAdam requires the cpu_adam op, which failed to build/load.", "install g++, ninja"),
        ("DeepSpeedConfigError: NVIDIA Apex AMP integration has been removed", "delete the block"),
        ("AssertionError: 3 is not divisible by 2", "use a divisor"),
        ("DistNetworkError: The server socket has failed to listen. port: 1, name: EADDRINUSE", "run it again"),
        ("RuntimeError: Using hostfile at x but host=a was not reachable via ssh.", "without a password"),
        ("AttributeError: 'str' object has no attribute 'keys'", "write the block as {...}"),
    ],
)
def test_known_failures_have_a_cure(message, cure):
    assert cure in verdict([failed(0, message, outcome="rejected")]).cure


def test_every_cited_issue_is_public_and_every_pattern_compiles():
    for cause in CAUSES:
        assert re.compile(cause.pattern)
        assert cause.issue == "" or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", cause.issue)


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "phase", "outcome"),
    [
        (ValueError("bad key"), "config", "rejected"),
        (ValueError("from our own code"), "init", "crash"),
        (ValueError("bad shape"), "forward", "crash"),
        (MemoryError(), "build", "host-oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "backward", "host-oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "backward", "oom"),
        (ImportError("no module"), "config", "crash"),
    ],
)
def test_errors_are_classified_by_what_and_when(error, phase, outcome):
    assert records.classify(raised(error), phase) == outcome


def test_a_validation_error_names_its_fields():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Zero", __config__=pydantic.ConfigDict(extra="forbid"))
    with pytest.raises(pydantic.ValidationError) as caught:
        model(overlap_com=True)
    assert records.describe(caught.value).startswith("ValidationError: overlap_com: Extra inputs are not permitted")


def test_a_dry_run_out_of_swap_buffers_is_told_which_key_to_raise():
    message = "AssertionError: Not enough buffers 0 for swapping 1"
    _, explanation, cure = verdict([failed(0, message, phase="backward")], num_processes=1)
    assert "DeepSpeed#3062" in explanation
    assert "offload_param.buffer_count" in cure


def test_a_run_that_failed_before_anything_was_measured_shows_no_table_of_nothing():
    phases = dict.fromkeys(("init", "forward", "backward", "step"), 0)
    rank = measurement({"rank": 0, "phases": phases, "parts": {"init": {}}})
    result = SmokeResult(mode="dry-run", outcome="rejected", ranks=(rank,), environment={}, log_path="x.log")
    assert to_text(result) == "outcome: rejected\n\nlog: x.log"
