"""Looks at the training environment and compiles what the ranks will need, before any rank starts.

    prepare.py JOB ANSWER

Prints progress lines and writes its answer as JSON: ``missing`` packages, ``versions``, the ``device`` and
``num_devices``, the ``kept`` variables of what is compiled once, the ``counter`` (or null), ``unbuilt`` operators with
their error, ``notes``. Compiling here keeps it out of the ranks' time limit and off their shared locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # mypy's names; this runs by path, where the siblings stand alone
    from zeroconf.smoke.worker import caches
    from zeroconf.smoke.worker.fill import block
else:
    import caches
    from fill import block

PACKAGES = ("torch", "deepspeed", "transformers")
# NVIDIA's, those of its boards (Jetson), Windows's to Linux (WSL), AMD's
_GPU_DEVICES = ("nvidia*", "nvhost*", "nvmap", "nvgpu*", "dxg", "kfd")
_GPU_OPS = {"adam": "FusedAdamBuilder", "adamw": "FusedAdamBuilder", "lion": "FusedLionBuilder"}
_CPU_OPS = {"adam": "CPUAdamBuilder", "adamw": "CPUAdamBuilder", "lion": "CPULionBuilder"}


def offload_device(config: dict[str, Any]) -> str:
    """Where the optimizer goes: none, cpu or nvme."""
    if block(config, "zero_optimization").get("cpu_offload") is True:
        return "cpu"
    return str(block(config, "zero_optimization", "offload_optimizer").get("device", "none"))


def needed_ops(config: dict[str, Any]) -> list[str]:
    """DeepSpeed's operator builders that this file will compile (engine.py: _configure_basic_optimizer).

    Without an optimizer block the client optimizer is torch's AdamW, or DeepSpeedCPUAdam with offload.
    """
    optimizer = block(config, "optimizer")
    name = str(optimizer.get("type", "")).lower()
    if block(optimizer, "params").get("torch_adam"):
        return []
    offload = offload_device(config)
    if offload == "none":
        return [_GPU_OPS[name]] if name in _GPU_OPS else []
    ops = [_CPU_OPS[name]] if name in _CPU_OPS else ["CPUAdamBuilder"] if not name else []
    return [*ops, "AsyncIOBuilder"] if offload == "nvme" else ops


def may_have_gpu(devices: Path) -> bool:
    """Whether ``/dev`` has what a driver of GPUs makes; unknown, so yes, where it is no Linux."""
    return sys.platform != "linux" or any(next(devices.glob(name), None) for name in _GPU_DEVICES)


def find_device(wanted: str) -> tuple[str, int]:
    """The device and how many there are; torch, which takes seconds, is imported only when a GPU could be meant."""
    if wanted == "cuda" or (wanted == "auto" and may_have_gpu(Path("/dev"))):
        import torch

        if torch.cuda.is_available():
            return "cuda", int(torch.cuda.device_count())
    return "cpu", os.cpu_count() or 1


def driver() -> str:
    """The release of NVIDIA's kernel driver; empty without one."""
    with contextlib.suppress(OSError):
        return Path("/sys/module/nvidia/version").read_text(encoding="utf-8").strip()
    return ""


def build_ops(names: list[str], extensions: Path) -> dict[str, str]:
    """Compiles operators that are not there yet; those that failed, with the reason."""
    unbuilt = {}
    for name in names:
        stamp = extensions / f"{name}.built"
        if stamp.exists():
            continue
        try:
            with caches.locked(extensions / "build.flock"):
                if not stamp.exists():  # the run that was waited for may have compiled it
                    _build_op(name, extensions)
                    stamp.touch()
        except caches.BuildError as error:
            unbuilt[name] = str(error)
        except (RuntimeError, OSError, ImportError, AttributeError, ValueError) as error:
            with contextlib.suppress(OSError):  # the log's disk may be full
                print(error, file=sys.stderr, flush=True)
            unbuilt[name] = f"{type(error).__name__}: {caches.telling_line(str(error))}"
    return unbuilt


def _build_op(name: str, extensions: Path) -> None:
    what = f"compiling DeepSpeed's {name.removesuffix('Builder')} once (about a minute)"
    with caches.told(what), _stdout_to_stderr():
        # the lock is ours: what a killed build left behind can go
        caches.remove_stale_locks(extensions)
        _load_op(name)


def _load_op(name: str) -> None:
    from deepspeed.accelerator import get_accelerator

    builder = get_accelerator().create_op_builder(name)
    if builder is None:
        msg = f"this DeepSpeed has no {name} for {get_accelerator().device_name()}"
        raise RuntimeError(msg)
    builder.load()


@contextlib.contextmanager
def _stdout_to_stderr() -> Any:
    # compilers write to the file descriptor, past sys.stdout
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def prepare(job: dict[str, Any]) -> dict[str, Any]:
    """The answer for one job."""
    # what a user's program imports is its own
    wanted = [name for name in PACKAGES if "script" not in job or name != "transformers"]
    wanted += ["accelerate"] if job["launcher"] == "accelerate" and job["mode"] == "real" else []
    wanted += ["peft"] if job.get("lora_rank") else []
    missing = [name for name in wanted if util.find_spec(name) is None]
    if missing and "script" not in job and "accelerate" not in wanted and util.find_spec("accelerate") is None:
        missing.append("accelerate")  # the Trainer's, without which this would not be the job's environment
    answer: dict[str, Any] = {
        "missing": missing,
        "versions": {name: caches.version(name) for name in (*PACKAGES, "accelerate", "peft")},
        "python": platform.python_version(),
        "driver": driver(),
        "counter": None,
        "unbuilt": {},
        "notes": [],
    }
    if answer["missing"]:
        return answer
    if job["mode"] == "dry-run":
        return answer | {"device": "cpu", "num_devices": 1, "kept": {}}
    directory = caches.build_directory(Path(job["cache"]))
    extensions = directory / "extensions"
    extensions.mkdir(parents=True, exist_ok=True)
    answer["device"], answer["num_devices"] = find_device(job["device"])
    os.environ["TORCH_EXTENSIONS_DIR"] = str(extensions)
    answer["kept"] = caches.kept_by_torch(directory) | {"TORCH_EXTENSIONS_DIR": str(extensions)}
    # /proc shows this host's builds; one that goes on on another host that shares the cache holds build.flock
    with caches.locked_if_free(extensions / "build.flock") as free:
        stale = caches.remove_stale_locks(extensions) if free else []
    answer["notes"] += [f"removed the lock that a killed build of {path.parent.name} left behind" for path in stale]
    if answer["device"] == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
        try:
            answer["counter"] = str(caches.build_counter(directory))
        except caches.BuildError as error:
            answer["notes"].append(f"memory is read from the resident set, not counted: {error}")
    answer["unbuilt"] = build_ops(needed_ops(job.get("ds_config") or {}), extensions)
    return answer


def main(arguments: list[str]) -> None:
    """Reads the job, writes the answer whole or not at all; a file before it says that this is Python."""
    job_path, answer_path = map(Path, arguments)
    answer_path.with_suffix(".begun").touch()
    answer = prepare(json.loads(job_path.read_text(encoding="utf-8")))
    partial = answer_path.with_suffix(".part")
    partial.write_text(json.dumps(answer), encoding="utf-8")
    partial.replace(answer_path)


if __name__ == "__main__":
    main(sys.argv[1:])
