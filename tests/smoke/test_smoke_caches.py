from __future__ import annotations

import errno
import subprocess
import sys
import time

import caches
import prepare
import pytest

from zeroconf.smoke.command import WORKER


def test_a_lock_without_a_living_owner_is_removed_and_an_owned_one_stays(tmp_path):
    for name in ("stale", "owned"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    with (tmp_path / "owned" / "lock").open():
        removed = caches.remove_stale_locks(tmp_path)
        assert [path.parent.name for path in removed] == ["stale"]
        assert (tmp_path / "owned" / "lock").exists()
    assert not (tmp_path / "stale" / "lock").exists()


def test_the_lock_of_a_killed_build_goes(tmp_path):
    lock = tmp_path / "fused_adam" / "lock"
    lock.parent.mkdir()
    # as torch.utils.file_baton: created and held open
    code = f"import os, time; os.open({str(lock)!r}, os.O_CREAT | os.O_EXCL); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-IS", "-c", code]) as build:
        while not lock.exists():
            time.sleep(0.01)
        assert caches.remove_stale_locks(tmp_path) == []
        build.kill()
    assert caches.remove_stale_locks(tmp_path) == [lock]


def test_a_lock_that_changes_hands_while_it_is_looked_for_is_not_stale(tmp_path, monkeypatch):
    """torch closes its lock before it removes it, and the next rank makes its own."""
    lock = tmp_path / "cpu_adam" / "lock"
    lock.parent.mkdir()
    lock.touch()

    def handed_on():
        lock.unlink()
        time.sleep(0.01)
        lock.touch()
        return set()

    monkeypatch.setattr(caches, "_open_files", handed_on)
    assert caches.remove_stale_locks(tmp_path) == []
    assert lock.exists()


def test_a_lock_falls_with_its_owner(tmp_path):
    lock = tmp_path / "build.flock"
    code = (
        f"import sys; sys.path.insert(0, {str(WORKER)!r})\n"
        "import caches, pathlib, time\n"
        f"with caches.locked(pathlib.Path({str(lock)!r})): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-IS", "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        owner.kill()
    with caches.locked(lock):
        pass


HOLDS = (
    f"import sys; sys.path.insert(0, {str(WORKER)!r})\n"
    "import caches, pathlib, time\n"
    "with caches.locked(pathlib.Path(sys.argv[1])):\n"
    "    print('held', flush=True); time.sleep(float(sys.argv[2]))\n"
    "    for stamp in sys.argv[3:]: pathlib.Path(stamp).touch()"
)


def holder(lock, seconds, *stamps):
    command = [sys.executable, "-IS", "-c", HOLDS, str(lock), str(seconds), *map(str, stamps)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "held\n"
    return owner


def test_another_build_is_waited_for_and_said(tmp_path, capsys):
    with holder(tmp_path / "build.flock", 0.5), caches.locked(tmp_path / "build.flock"):
        pass
    said = capsys.readouterr().out.splitlines()
    assert said == [f"{done}waiting for another run, which compiles the same" for done in ("", "done ")]


def test_another_build_is_not_waited_for_for_ever(tmp_path):
    with holder(tmp_path / "build.flock", 60) as owner:
        error = r"another run has compiled for more than 0\.3 s; end the process that holds .*build\.flock"
        with pytest.raises(caches.BuildError, match=error), caches.locked(tmp_path / "build.flock", 0.3):
            pass
        owner.kill()


def test_what_another_run_built_meanwhile_is_not_built_again(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "_load_op", pytest.fail)
    with holder(tmp_path / "build.flock", 0.5, tmp_path / "CPUAdamBuilder.built"):
        assert prepare.build_ops(["CPUAdamBuilder"], tmp_path) == {}


def test_a_build_that_fails_says_its_begin_its_end_and_why(tmp_path, monkeypatch, capsys):
    def refuse(_name: str) -> None:
        msg = "c++: not found"
        raise RuntimeError(msg)

    monkeypatch.setattr(prepare, "_load_op", refuse)
    assert prepare.build_ops(["CPUAdamBuilder"], tmp_path) == {"CPUAdamBuilder": "RuntimeError: c++: not found"}
    begin = "compiling DeepSpeed's CPUAdam once (about a minute)"
    assert [line for line in capsys.readouterr().out.splitlines() if begin in line] == [begin, f"done {begin}"]


def test_what_torch_compiles_is_kept_unless_the_user_keeps_it(tmp_path, monkeypatch):
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    kept = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    assert caches.kept_by_torch(tmp_path) == kept
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    del kept["TRITON_CACHE_DIR"]
    assert caches.kept_by_torch(tmp_path) == kept
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine")
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert caches.kept_by_torch(tmp_path) == {}


def test_where_files_cannot_be_locked_torch_keeps_its_own_place(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr(caches.fcntl, "flock", refuse)
    assert caches.kept_by_torch(tmp_path) == {}


def test_without_a_compiler_the_counter_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(caches.BuildError, match="no C\\+\\+ compiler"):
        caches.build_counter(tmp_path)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("yes error: no >&2", "could not compile the memory counter: error: no"),
        ("yes & yes; exit 1", "did not end within 1 s"),
        ("exec sleep 60", "did not end within 1 s"),
    ],
)
def test_a_compiler_that_says_or_takes_too_much_is_ended(tmp_path, monkeypatch, script, error):
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(caches, "COMPILE_SECONDS", 1)
    began = time.monotonic()
    with pytest.raises(caches.BuildError, match=error):
        caches.build_counter(tmp_path)
    assert time.monotonic() - began < 20


def test_builds_are_keyed_by_what_they_depend_on(tmp_path, monkeypatch):
    here = caches.build_directory(tmp_path)
    monkeypatch.setattr(caches, "processor", lambda: "another")
    assert caches.build_directory(tmp_path) != here
    assert "deepspeed" in here.name


@pytest.mark.parametrize(
    ("config", "ops"),
    [
        ({}, []),
        ({"optimizer": {"type": "AdamW"}}, ["FusedAdamBuilder"]),
        ({"optimizer": {"type": "AdamW", "params": {"torch_adam": True}}}, []),
        ({"optimizer": {"type": "SGD"}}, []),
        ({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}, ["CPUAdamBuilder"]),
        ({"zero_optimization": {"cpu_offload": True}, "optimizer": {"type": "Adam"}}, ["CPUAdamBuilder"]),
        (
            {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}, "optimizer": {"type": "Lion"}},
            ["CPULionBuilder", "AsyncIOBuilder"],
        ),
        ({"zero_optimization": "auto", "optimizer": []}, []),
    ],
)
def test_operators_are_known_before_the_ranks_start(config, ops):
    assert prepare.needed_ops(config) == ops


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare.util, "find_spec", lambda name: None if name == "deepspeed" else object())
    job = {"mode": "real", "launcher": "torchrun", "device": "cpu", "cache": str(tmp_path), "ds_config": {}}
    assert prepare.prepare(job | {"lora_rank": 0})["missing"] == ["deepspeed"]


@pytest.mark.parametrize(
    ("job", "missing"),
    [
        ({"launcher": "torchrun", "lora_rank": 8}, ["torch", "deepspeed", "transformers", "peft", "accelerate"]),
        ({"launcher": "accelerate"}, ["torch", "deepspeed", "transformers", "accelerate"]),
        ({"launcher": "torchrun", "script": "train.py"}, ["torch", "deepspeed"]),
    ],
)
def test_one_installation_brings_all_that_is_missing(monkeypatch, job, missing):
    monkeypatch.setattr(prepare.util, "find_spec", lambda _name: None)
    assert prepare.prepare({"mode": "real", **job})["missing"] == missing


# what defines fake tensors or wraps torch needs it imported; rank.py loads them when it starts
FAKES = {"ledger", "fake_gpu", "gpu_kernels", "parts", "dry_run", "sent", "operators"}


def test_the_worker_imports_nothing_of_zeroconf():
    names = [path.stem for path in WORKER.glob("*.py") if path.stem not in FAKES]
    code = f"import sys; sys.path.insert(0, {str(WORKER)!r}); import {', '.join(names)}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "rank" in loaded
    # an editable install's finder is named after the distribution, not after the package
    assert not [name for name in loaded if name == "zeroconf" or name.startswith("zeroconf.")]
    assert "torch" not in loaded


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "Error building extension 'cpu_adam': [1/3] c++ -MMD\nFAILED: x.o\n/bin/sh: 1: c++: not found\n",
            "/bin/sh: 1: c++: not found",
        ),
        ("x.cpp:1: error: a\ncollect2: error: ld returned 1 exit status", "x.cpp:1: error: a"),
        (
            "ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status",
            "ld: final link failed: No space left on device",
        ),
        (
            "Unable to JIT load the cpu_adam op due to ninja not being installed.",
            "Unable to JIT load the cpu_adam op due to ninja not being installed.",
        ),
        ("", ""),
    ],
)
def test_of_a_failed_build_the_reason_is_told(output, line):
    assert caches.telling_line(output) == line


@pytest.mark.skipif(sys.platform != "linux", reason="/dev")
@pytest.mark.parametrize(
    ("names", "may"), [((), False), (("null", "tty"), False), (("nvidiactl",), True), (("dxg",), True)]
)
def test_torch_is_asked_for_gpus_where_a_driver_is(tmp_path, names, may):
    for name in names:
        (tmp_path / name).touch()
    assert prepare.may_have_gpu(tmp_path) is may
