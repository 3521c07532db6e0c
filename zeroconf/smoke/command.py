"""How the ranks are started: command lines of the launchers and the environment they get."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zeroconf.errors import SmokeTestError

if TYPE_CHECKING:
    from collections.abc import Mapping

Launcher = Literal["torchrun", "deepspeed", "accelerate", "srun"]
WORKER = Path(__file__).parent / "worker"

# what an outer launcher or batch system leaves behind would make the ranks join the wrong group
_FOREIGN = ("ACCELERATE_", "CROSS_", "GROUP_", "LOCAL_", "MASTER_", "RANK", "ROLE_", "TORCHELASTIC_", "WORLD_SIZE")


def cache_directory() -> Path:
    """Where compiled operators, logs and measurements are kept: ``$ZEROCONF_CACHE`` or ``~/.cache/zeroconf``.

    Raises:
        SmokeTestError: neither variable is set, and this user has no home, as in many a container.
    """
    if given := os.environ.get("ZEROCONF_CACHE"):
        return Path(given).absolute()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zeroconf"
    except RuntimeError as error:
        msg = "this user has no home folder for what is compiled and logged; set ZEROCONF_CACHE to a folder"
        raise SmokeTestError(msg) from error


def rank_command(scratch: Path) -> list[str]:
    """What a launcher starts for each rank."""
    return [str(WORKER / "rank.py"), "--job", str(scratch / "job.json")]


def launch_command(
    launcher: Literal["torchrun", "deepspeed", "accelerate"] | None,
    python: str,
    *,
    num_processes: int,
    port: int,
    scratch: Path,
    visible_devices: str | None = None,
    config: str | None = None,
) -> list[str]:
    """The command that starts the ranks on this machine; without a launcher, the one process that runs alone.

    Launchers run as modules of ``python``, never as scripts found on PATH, which may belong to another
    environment. ``visible_devices`` is a user's CUDA_VISIBLE_DEVICES: the deepspeed launcher would drop it.
    ``config`` is a file for accelerate launch, None for one that leaves all to the rank.
    """
    rank = rank_command(scratch)
    match launcher:
        case None:
            return [python, *rank]
        case "torchrun":
            address = ["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
            return [python, "-m", "torch.distributed.run", f"--nproc-per-node={num_processes}", *address, *rank]
        case "deepspeed":
            chosen = visible_devices.split(",")[:num_processes] if visible_devices else []
            devices = f"--include=localhost:{','.join(chosen)}" if chosen else f"--num_gpus={num_processes}"
            # a hostfile that does not exist: the default one of this machine must not join in
            where = [f"--hostfile={scratch / 'hostfile'}", f"--master_port={port}"]
            return [python, "-m", "deepspeed.launcher.runner", devices, *where, *rank]
        case "accelerate":
            where = [*_accelerate_config(config, scratch), "--num_machines=1", f"--num_processes={num_processes}"]
            where += ["--main_process_ip=127.0.0.1", f"--main_process_port={port}"]
            return [python, "-m", "accelerate.commands.launch", "--use_deepspeed", *where, *rank]


def _accelerate_config(config: str | None, scratch: Path) -> list[str]:
    """What accelerate launch is told of DeepSpeed: a user's file, or nothing."""
    plain = scratch / "accelerate.yaml"
    plain.write_text("distributed_type: DEEPSPEED\ndeepspeed_config: {}\n", encoding="utf-8")
    if config is None:
        return [f"--config_file={plain}", "--mixed_precision=no"]
    if config.endswith((".yaml", ".yml")):
        return [f"--config_file={config}"]
    return [f"--config_file={plain}", f"--deepspeed_config_file={config}"]


def launch_environment(
    base: Mapping[str, str], *, python: str, device: str, num_processes: int, scratch: Path, kept: Mapping[str, str]
) -> dict[str, str]:
    """The ranks' environment: ``base`` without an outer launcher's variables, with our caches.

    ``kept`` are the variables of what was compiled once (worker/prepare.py).
    NCCL's variables stay as they are: a smoke test must see the user's network.
    """
    environment = clean_environment(base, python=python, scratch=scratch) | rank_settings(device, kept)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_processes)))
    if device == "cpu" and Path("/sys/class/net/lo").exists():
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return environment


def clean_environment(base: Mapping[str, str], *, python: str, scratch: Path) -> dict[str, str]:
    """What a launcher gets: ``base`` without an outer launcher's variables."""
    environment = {name: value for name, value in base.items() if not name.startswith(_FOREIGN)}
    # ninja stands beside the training environment's interpreter
    path = os.pathsep.join([str(Path(python).parent), base.get("PATH", os.defpath)])
    return environment | {"PATH": path, "TMPDIR": str(scratch)}


def rank_settings(device: str, kept: Mapping[str, str]) -> dict[str, str]:
    """What the ranks need on whatever host they are."""
    settings = {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false", **kept}
    if device == "cpu":
        settings["DS_ACCELERATOR"] = "cpu"
    return settings
