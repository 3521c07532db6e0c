"""A smoke test of the user's own program, as its launcher would run it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from zeroconf.config_file import read_config
from zeroconf.errors import InputError
from zeroconf.inputs.text import is_file, shown_path
from zeroconf.smoke.hosts import find_hosts
from zeroconf.smoke.job import ProgramJob
from zeroconf.smoke.launch import run_smoke_test
from zeroconf.smoke.trial import num_local_gpus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zeroconf.smoke.command import Launcher
    from zeroconf.smoke.measured import SmokeResult

_SHELL: Final = (".sh", ".bash", ".zsh", ".sbatch", ".slurm")
_STEPS: Final = 3
# arguments by which the Trainer, DeepSpeed's own parser and their like are given a file
_READS: Final = re.compile(r"(--(?:deepspeed|deepspeed[_-]config|ds[_-]config))(?:=(.+))?")


def smoke_test_program(
    script: Path,
    arguments: Sequence[str] = (),
    *,
    config: Path | None = None,
    steps: int | None = None,
    num_processes: int | None = None,
    launcher: Launcher = "torchrun",
    hostfile: Path | None = None,
    **run_options: Any,
) -> SmokeResult:
    """Runs a Python program with its arguments until DeepSpeed has done ``steps`` (3) steps; what it measured.

    It really runs, and writes what it writes. ``config`` is for the accelerate launcher alone, which gives its
    configuration to the program; the others leave that to the program's arguments. ``num_processes`` None is one per
    GPU of this machine, one without any. ``run_options`` are those of ``zeroconf.smoke.launch.run_smoke_test``.

    Raises:
        InputError: there is no such program, or the configuration would not reach it.
        SmokeTestError: it could not start: a package or launcher is missing.
    """
    name = shown_path(script)
    if script.suffix in _SHELL:
        msg = f"{name} is a shell script; --script takes the Python program that it starts, with its arguments after --"
        raise InputError(msg)
    if not is_file(script):
        msg = f"there is no program {name}; --script takes the path of a Python file"
        raise InputError(msg)
    _check_configuration(name, arguments, config, launcher)
    if config is not None:
        read_config(config)
    hosts = find_hosts(launcher, hostfile, num_processes)
    job = ProgramJob(
        script=script,
        arguments=tuple(arguments),
        config=config,
        steps=steps or _STEPS,
        world_size=hosts.num_ranks if hosts else num_processes or num_local_gpus() or 1,
    )
    return run_smoke_test(job, launcher=launcher, hosts=hosts, **run_options)


def _check_configuration(name: str, arguments: Sequence[str], config: Path | None, launcher: Launcher) -> None:
    """Whether the program gets a configuration, and gets CONFIG.

    Raises:
        InputError: CONFIG would not reach it, or the accelerate launcher has none to give.
    """
    if launcher == "accelerate" and config is None:
        msg = (
            f"accelerate launch gives {name} its configuration, and there is none; give CONFIG, an Accelerate YAML or "
        )
        msg += "a ds_config.json, or use --launcher torchrun for a program that brings its own"
        raise InputError(msg)
    if launcher == "accelerate" or config is None:
        return
    given = shown_path(config)
    if read := _configuration_in(arguments):
        msg = f"{name} reads the file of its own arguments ({' '.join(read)}), and {given} would not reach it; "
        msg += f"leave {given} out, or put it there"
        raise InputError(msg)
    msg = f"{name} reads its own configuration, and {given} would not reach it; give it among the script's arguments "
    msg += f"(-- --deepspeed {given} for the Trainer, --deepspeed_config for DeepSpeed's own parser), or use "
    msg += "--launcher accelerate"
    raise InputError(msg)


def _configuration_in(arguments: Sequence[str]) -> tuple[str, str] | None:
    """The argument that names a DeepSpeed configuration, and the file, as far as their names tell."""
    for word, following in pairwise([*arguments, ""]):
        if found := _READS.fullmatch(word):
            # --deepspeed alone is a switch of DeepSpeed's own parser
            file = found[2] or ("" if following.startswith("-") else following)
            if file:
                return found[1], file
    return None
