from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest
import records

from zeroconf.smoke import free_memory
from zeroconf.smoke.causes import CAUSES, known_cause
from zeroconf.smoke.folders import LOG_TAIL_BYTES
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.outcome import UNEXPLAINED, judge
from zeroconf.smoke.result import measurement
from zeroconf.smoke.text import to_text


def record(rank: int, state: str = "done", **values: object) -> dict[str, object]:
    return {"rank": rank, "state": state, "phase": "done", "step": 0, **values}


def failed(
    rank: int, message: str, *, outcome: str = "crash", phase: str = "init", at: float = 1.0
) -> dict[str, object]:
    return record(rank, "failed", message=message, outcome=outcome, phase=phase, failed_at=at)


def verdict(found: list[dict[str, object]], **ending: object):
    return judge(found, **{"num_processes": 2, "timed_out": False, "timeout_seconds": 60, "log": ""} | ending)


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


@pytest.mark.parametrize(("state", "outcome"), [("failed", "crash"), ("running", "hang")])
def test_a_rank_that_ended_before_the_others_is_named_and_not_its_victim(state, outcome):
    left = record(1, ended="ended by itself, after 2 of 3 optimizer steps", step_seconds=[1.0, 1.0])
    others = [
        failed(rank, "RuntimeError: Connection closed by peer") | {"state": state, "phase": "backward", "step": 3}
        for rank in (0, 2)
    ]
    found = verdict([*others, left], num_processes=3, timed_out=outcome == "hang")
    why = "rank 1 ended by itself, after 2 of 3 optimizer steps, while rank 0 was in backward of step 3, rank 2 was in"
    assert found.outcome == outcome
    assert found.explanation.removeprefix("no end after 60 s: ").startswith(why)
    assert "drop_last=True" in found.cure
    own = verdict([failed(0, "RuntimeError: of its own"), left])
    assert own.explanation == "rank 0 failed in init: RuntimeError: of its own"


def test_a_rank_between_two_steps_is_after_one():
    between = {"phase": "forward", "step": 2, "after": 1}
    found = verdict([failed(0, "RuntimeError: of its own") | between, record(1, "running")])
    assert found.explanation == "rank 0 failed after step 1: RuntimeError: of its own"
    found = verdict([record(rank, "running") | between for rank in (0, 1)], timed_out=True)
    assert found.explanation == "no end after 60 s: rank 0 was after step 1, rank 1 was after step 1"


def by_torchrun(rank: int, code: int, host: str = "") -> str:
    lines = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-30_09:51:02",
        f"  rank      : {rank} (local_rank: {rank})",
        f"  exitcode  : {code} (pid: 4711)",
        "  error_file: <N/A>",
    ]
    return "".join(f"{host}{line}\n" for line in lines)


def by_deepspeed(code: int) -> str:
    return (
        f"[2026-11-30 09:51:02,123] [ERROR] [launch.py:259:sigkill_handler] ['python', '-u', 'rank.py', "
        f"'--local_rank=1'] exits with return code = {code}\n"
    )


SLURM_MEMORY = (
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.1. Some of the step tasks have been OOM Killed."
)


@pytest.mark.parametrize(
    "log",
    [
        by_torchrun(1, -9),
        by_torchrun(1, -9, host="node-2: "),
        by_deepspeed(-9),
        # of a host's part (worker/host.py), by DeepSpeed's launcher and by srun
        "node-2: " + by_deepspeed(137),
        "srun: error: node-2: task 1: Exited with exit code 137\n",
        "srun: error: node-2: task 1: Killed\n",
        SLURM_MEMORY,
    ],
)
def test_a_killed_rank_is_host_memory(log):
    lost = failed(0, "RuntimeError: Connection reset by peer")
    found = [lost, record(1, "running", phase="backward", step=2)]
    outcome, explanation, _ = verdict(found, log=log, exit_code=1, launcher="torchrun")
    assert outcome == "host-oom"
    assert ("rank 1 was killed (SIGKILL) in backward of step 2" in explanation) == (
        "oom" not in log and "launch" not in log
    )
    assert verdict([], log=log, exit_code=1, launcher="torchrun").outcome == "host-oom"


@pytest.mark.parametrize(
    ("log", "who"),
    [
        (by_torchrun(1, -11), "rank 1 died by SIGSEGV in forward of step 1"),
        (by_deepspeed(-11), "a rank died by SIGSEGV; rank 0 was in init, rank 1 was in forward of step 1"),
        (
            "srun: error: node-2: task 1: Segmentation fault (core dumped)\n",
            "rank 1 died by SIGSEGV in forward of step 1",
        ),
    ],
)
def test_a_rank_that_dies_by_a_signal_is_named(log, who):
    found = [record(0, "running", phase="init"), record(1, "running", phase="forward", step=1)]
    outcome, explanation, cure = verdict(found, log=log, exit_code=1, launcher="torchrun")
    assert (outcome, explanation) == ("crash", who)
    assert "PYTHONFAULTHANDLER=1" in cure
    alone = verdict([record(0, "running", phase="init")], num_processes=1, exit_code=128 + 7)
    assert alone.explanation == "rank 0 died by SIGBUS in init"
    assert "--shm-size" in alone.cure


@pytest.mark.parametrize("text", ["\n", " ", "x", "rank", "Error", "a: ", "[launch.py:1:sigkill_handler] "])
def test_no_log_takes_long_to_read(text):
    began = time.monotonic()
    found = verdict([], log=text * (LOG_TAIL_BYTES // len(text)), exit_code=1, launcher="torchrun")
    assert time.monotonic() - began < 5
    assert found.outcome == "crash"
    assert len(found.explanation) < 700


def test_a_rank_that_leaves_without_a_word_is_named():
    found = [record(0, "running", phase="init"), record(1, "running", phase="the script")]
    _, explanation, cure = verdict(found, log=by_torchrun(1, 3), exit_code=1, launcher="torchrun")
    assert "rank 1 ended with exit code 3" in explanation
    assert "traceback" not in cure


@pytest.mark.parametrize(("plenty", "first"), [(True, "run it again; if nobody ended it"), (False, "fewer processes")])
def test_a_killed_rank_says_what_memory_was_free(plenty, first):
    memory = SimpleNamespace(least=19 * 2**30, plenty=plenty)
    _, explanation, cure = verdict([], log=by_torchrun(1, -9), exit_code=1, launcher="torchrun", memory=memory)
    assert explanation.startswith("rank 1 was killed (SIGKILL), as the kernel does when host memory runs out")
    assert explanation.endswith("; the least that was seen free is 19.0 GiB")
    assert cure.startswith(first)
    assert "fewer processes per node or more host memory" in cure


def test_the_least_free_memory_is_kept(monkeypatch):
    seen = iter([30, 20, None, 25])
    monkeypatch.setattr(free_memory, "free_memory", lambda *_: next(seen))
    monkeypatch.setattr(free_memory, "host_memory", lambda _: SimpleNamespace(usable_bytes=100))
    memory = free_memory.FreeMemory()
    assert (memory.least, memory.plenty) == (30, True)
    for _ in range(3):
        memory.look()
    assert (memory.least, memory.plenty) == (20, False)


@pytest.mark.parametrize(
    ("usable", "ranks", "who"), [(8 * 2**30, 1, "the rank needs"), (8 * 2**30, 2, "the 2 ranks need"), (None, 1, None)]
)
def test_ranks_far_beyond_the_memory_are_not_started(monkeypatch, usable, ranks, who):
    monkeypatch.setattr(free_memory, "free_memory", lambda *_: None)
    monkeypatch.setattr(free_memory, "host_memory", lambda _: SimpleNamespace(usable_bytes=usable))
    memory = free_memory.FreeMemory()
    assert memory.refusal(ranks, 10 * 2**30) is None
    refusal = memory.refusal(ranks, 11 * 2**30)
    assert bool(refusal) == bool(who)
    if refusal:
        assert refusal.outcome == "host-oom"
        assert refusal.explanation == (f"{who} about 11.0 GiB of host memory and there are 8.0 GiB: none was started")
        assert "--dry-run" in refusal.cure


@pytest.mark.parametrize(
    ("first", "updates", "fp16", "explanation", "cure"),
    [
        ((None, 1), 0, False, "; the loss was first not finite at step 1", "no update went before"),
        ((4, 3), 2, False, "; the loss was first not finite at step 3", "lower the learning rate"),
        ((None, None), 0, False, "", "no update went before"),
        ((1, 1), 0, True, "; the loss was first not finite at step 1", "or use bf16 instead of fp16"),
    ],
)
def test_steps_skipped_for_gradients_are_not_finite(first, updates, fp16, explanation, cure):
    found = [
        failed(rank, "", outcome="not-finite", phase="step")
        | {
            "skipped": {"searching": 0, "not_finite": 3, "first": one},
            "step_seconds": [1.0] * updates,
            "environment": {"ds_config": {"fp16": {"enabled": fp16}}},
        }
        for rank, one in enumerate(first)
    ]
    found_verdict = verdict(found)
    said = "DeepSpeed skipped 3 optimizer steps, since gradients were not finite"
    assert found_verdict[:2] == ("not-finite", said + explanation)
    assert cure in found_verdict.cure


@pytest.mark.parametrize(
    ("launcher", "exit_code", "what"),
    [
        ("torchrun", 137, "the launcher (torchrun) was killed (SIGKILL), and no rank before it: rank 0 was in build"),
        ("deepspeed", 137, "the launcher (deepspeed) was killed (SIGKILL)"),
        # its runner hands on no signal of the launcher below it
        ("deepspeed", 0, "the launcher (deepspeed) was killed, "),
        ("torchrun", -9, "zeroconf's guard of the ranks was killed (SIGKILL)"),
        ("", -9, "zeroconf's guard of the ranks was killed (SIGKILL)"),
    ],
)
def test_a_killed_launcher_is_no_lack_of_memory(launcher, exit_code, what):
    found = [record(0, "running", phase="build"), failed(1, "RuntimeError: Connection closed by peer")]
    outcome, explanation, cure = verdict(found, launcher=launcher, exit_code=exit_code)
    assert outcome == "crash"
    assert explanation.startswith(what)
    assert "dmesg" in cure


def test_words_that_the_program_prints_decide_nothing():
    printed = (
        "oom-kill event exit code 137\nexitcode  : -9 (pid: 1)\nSignal 9 (SIGKILL)\nit exits with return code = -9\n"
    )
    found = [record(0, "running", phase="forward"), record(1, "running", phase="forward")]
    assert verdict(found, log=printed, timed_out=True).outcome == "hang"
    assert verdict(found, log=printed, exit_code=1, launcher="torchrun").outcome == "crash"


@pytest.mark.parametrize(("entered_at", "hung"), [(10.0, True), (289.0, False), (295.0, False)])
def test_a_hang_behind_steps_is_not_called_slow(entered_at, hung):
    values = {"phase": "backward", "step": 3, "entered_at": entered_at, "step_seconds": [2.0, 1.0]}
    found = [record(0, "running", **values), record(1, "running", **values | {"entered_at": 5.0})]
    outcome, explanation, cure = verdict(found, timed_out=True, now=300.0)
    assert outcome == "hang"
    assert ("then nothing for 290 s" in explanation) == hung
    assert cure.startswith("it hung" if hung else "it was slow, not hung")


OFFLOAD = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}


@pytest.mark.parametrize(
    ("phase", "ds_config", "first", "offload"),
    [
        ("backward", {}, "a shorter sequence", False),
        ("forward", OFFLOAD, "a shorter sequence", True),
        ("step", OFFLOAD, "less offload", True),
        ("init", {"zero_optimization": {"cpu_offload": True}}, "less offload", True),
        ("init", {"zero_optimization": {"offload_optimizer": {"device": "none"}}}, "fewer processes", False),
        ("build", OFFLOAD, "fewer processes", False),
    ],
)
def test_what_lowers_host_memory_depends_on_phase_and_file(phase, ds_config, first, offload):
    error = failed(0, "MemoryError: ", outcome="host-oom", phase=phase)
    killed = record(1, "running", phase=phase)
    for cure in (
        verdict([error], ds_config=ds_config).cure,
        verdict([killed], log=by_torchrun(1, -9), ds_config={}, exit_code=1, launcher="torchrun").cure
        if ds_config == {}
        else verdict([killed | {"environment": {"ds_config": ds_config}}], log=by_torchrun(1, -9)).cure,
    ):
        assert cure.startswith(first)
        assert ("less offload" in cure) == offload


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: economics_2 is no data set",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/stage/genomics_train.bin'",
        "ValueError: hidden_size 100 is not divisible by num_heads 8",
        "ValueError: 100 is not divisible by 8",
        "AttributeError: load_in_4bit has been removed in v5",
        "ValueError: number of samples has to be greater than 0",
        "ValidationError: x: Extra inputs are not permitted for MyDataConfig",
        "TimeoutError: async_io timed out in my loader",
        "AttributeError: 'str' object has no attribute 'keys'",
    ],
)
def test_a_programs_own_errors_have_no_cause_in_deepspeed(message):
    own = failed(0, message) | {"by_library": False}
    _, explanation, cure = verdict([own], log="Traceback (most recent call last):\n")
    assert explanation == f"rank 0 failed in init: {message}"
    assert cure == UNEXPLAINED
    words = ("economics", "genomics", "num_heads", "v5", "samples")
    if any(word in message for word in words):  # nor would they if a library had raised them
        assert known_cause(message, by_library=True) is None


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
    by_torchrun = "[rank0]: OSError: [Errno 28] No space left on device\ntorch.distributed.ChildFailedError: \n"
    _, explanation, cure = verdict([], log=by_torchrun)
    assert "OSError: [Errno 28] No space left on device; a disk is full" in explanation
    assert "TMPDIR" in cure
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
        ("DeepSpeed's CPUAdam did not compile: RuntimeError: /bin/sh: 1: c++: not found", "DS_BUILD_CPU_ADAM=1"),
        ("DeepSpeed's AsyncIO did not compile: RuntimeError: x.cpp:1: error: libaio.h", "libaio-dev"),
        ("DeepSpeed's FusedAdam did not compile: RuntimeError: /bin/sh: 1: c++: not found", "build-essential"),
        ("DeepSpeed's CPUAdam did not compile: OSError: [Errno 28] No space left on device", "make room"),
        ("DeepSpeedConfigError: NVIDIA Apex AMP integration has been removed", "delete the block"),
        ("AssertionError: 3 is not divisible by 2", "use a divisor"),
        ("DistNetworkError: The server socket has failed to listen. port: 1, name: EADDRINUSE", "run it again"),
        ("RuntimeError: Using hostfile at x but host=a was not reachable via ssh.", "without a password"),
        ("AttributeError: 'str' object has no attribute 'keys'", "write the block as {...}"),
        ("Exception: Current loss scale already at minimum - cannot", "use bf16 instead of fp16"),
        ("ValueError: You cannot specify a scheduler in the config file and in the code", "delete the block"),
        ("ValueError: the following accelerate config variables will be ignored: ['x']", "delete those of"),
        ("ValueError: You cannot create a `DummyOptim` without specifying an optimizer", "add the"),
        ("ValueError: At least one of the dataloaders has `None` as batch size", "train_micro_batch_size_per_gpu as a"),
        ("ValueError: Can't find `model.config` entry, therefore", "write the keys that are named as numbers"),
        ("ImportError: FlashAttention2 has been toggled on, but it cannot be used", "--attention sdpa"),
    ],
)
def test_known_failures_have_a_cure(message, cure):
    assert cure in verdict([failed(0, message, outcome="rejected")]).cure


def test_every_cited_issue_is_public_and_every_pattern_compiles():
    for cause in CAUSES:
        assert re.compile(cause.pattern)
        assert cause.issue == "" or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", cause.issue)


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
