"""The command ``smoke-test``. As in cli.py, what it runs is imported when it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from zeroconf.cli_options import NumberRange, Tokens, config_path, current_folder
from zeroconf.cli_output import loudness, tell_project
from zeroconf.cli_progress import Progress
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from zeroconf.smoke.measured import SmokeResult

# options of a smoke test that have no effect on a --script, which brings its own model and data
_OF_SHAPES = (
    "model",
    "params",
    "seq_len",
    "dry_run",
    "hardware",
    "world_size",
    "activation_checkpointing",
    "attention",
    "lora_rank",
    "no_zero_init",
    "until_fits",
)
_ARGUMENTS = "script_arguments"


class _WithProgram(click.Command):
    """A command whose words after ``--`` are a program's, where ``--script`` names one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, dashes, others = _split(args)
        if dashes and any(word == "--script" or word.startswith("--script=") for word in own):
            ctx.meta[_ARGUMENTS] = others
            return super().parse_args(ctx, own)
        return super().parse_args(ctx, args)


def _split(words: list[str]) -> tuple[list[str], bool, list[str]]:
    if "--" not in words:
        return words, False, []
    at = words.index("--")
    return words[:at], True, words[at + 1 :]


@click.command("smoke-test", cls=_WithProgram, short_help="Train a configuration for a few steps.")
@click.argument("config", required=False, type=click.Path(), callback=config_path)
@click.option("--model", metavar="MODEL", help="As for generate, or tiny.")
@click.option("--params", metavar="N", help="As for generate.")
@click.option("--seq-len", type=Tokens(1, 10**7), metavar="N", help="Tokens per sequence [the model's, at most 4096].")
@click.option("--steps", type=click.IntRange(1, 1000), metavar="N", help="Optimizer steps [3; 2 for a dry run].")
@click.option("--num-gpus", type=click.IntRange(1, 64), metavar="N", help="Processes [all GPUs; 1 without GPUs].")
@click.option("--script", metavar="FILE", help="Your own program in the place of CONFIG; its arguments follow --.")
@click.option("--dry-run", is_flag=True, help="DeepSpeed's engine on fake tensors: no GPU, no weights, any size.")
@click.option("--hardware", metavar="HW", help="For a dry run: what it has to fit, as for generate.")
@click.option(
    "--world-size", type=click.IntRange(1, 100_000), metavar="N", help="Beyond --num-gpus: one process as rank 0 of N."
)
@click.option(
    "--launcher",
    type=click.Choice(["torchrun", "deepspeed", "accelerate", "srun"]),
    default="torchrun",
    help="What starts the processes; srun in a Slurm job, on all its nodes [torchrun].",
)
@click.option("--hostfile", metavar="FILE", help="Several hosts, as lines: HOST slots=N.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Auto takes GPUs where there are any [auto].",
)
@click.option(
    "--activation-checkpointing",
    type=click.Choice(["none", "full"]),
    help="Recompute activations in the backward pass [none].",
)
@click.option("--attention", type=click.Choice(["flash", "sdpa", "eager"]), help="The attention kernel [sdpa].")
@click.option("--lora-rank", type=click.IntRange(0, 65_536), metavar="N", help="Train adapters, as for generate [0].")
@click.option("--no-zero-init", is_flag=True, help="Stage 3 partitions the model only once it is built whole.")
@click.option(
    "--timeout", type=NumberRange(1, 86400), metavar="SECONDS", default=600, help="How long the run may take [600]."
)
@click.option("--python", metavar="PATH", help="The training environment's interpreter [this one].")
@click.option("--until-fits", is_flag=True, help="After what does not fit try the next configuration, at most 5.")
@click.option("-o", "--output", metavar="FILE", help="With --until-fits: where the configuration that fits is written.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def smoke_test(
    ctx: click.Context,
    /,
    config: Path | None,
    script: str | None,
    hostfile: str | None,
    until_fits: bool,
    output: str | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train CONFIG for a few steps with random weights on this machine's GPUs, or its CPU; measure.

    With --script your own program runs instead, unedited, and is ended after those steps.

    \b
    zeroconf smoke-test ds_config.json --model llama-3.1-8b --python ~/train-env/bin/python
    zeroconf smoke-test ds_config.json --model llama-3.1-70b --dry-run --hardware 8x8xH100-80GB
    zeroconf smoke-test ds_config.json --model tiny --num-gpus 2 --device cpu --json
    zeroconf smoke-test ds_config.json --model llama-3.1-8b --until-fits -o proven.json
    zeroconf smoke-test --script train.py -- --deepspeed ds_config.json --output_dir /tmp/out
    zeroconf smoke-test accelerate.yaml --launcher accelerate --script train.py
    """
    from pathlib import Path

    run_options = {
        "num_processes": given.pop("num_gpus"),
        "timeout_seconds": given.pop("timeout"),
        "python": given.pop("python") or sys.executable,
        "launcher": given.pop("launcher"),
        "hostfile": None if hostfile is None else Path(hostfile),
        "device": given.pop("device"),
        "steps": given.pop("steps"),
    }
    _check_output(config, output, until_fits=until_fits, force=force)
    proven = ""
    with Progress() as run_options["on_progress"]:
        if script is not None:
            result = _program(ctx, script, config, run_options)
        elif config is None:
            msg = "a ds_config.json, an Accelerate YAML or --script is missing; give one of them"
            raise InputError(msg)
        else:
            result, proven = _configuration(ctx, config, run_options, until_fits=until_fits, **given)
    _print(result, as_json=as_json)
    if output and proven:
        from zeroconf.files import write_files

        write_files({output: proven}, force=force)
        if not loudness().quiet:
            click.echo(f"\nWrote {output}", err=as_json)
    ctx.exit(0 if result.outcome in {"fits", "ran"} else 1)


def _program(ctx: click.Context, script: str, config: Path | None, run_options: dict[str, Any]) -> SmokeResult:
    """The smoke test of a user's program."""
    from pathlib import Path

    from zeroconf import api

    _refuse(ctx, _OF_SHAPES, "the script brings its own model, data and configuration")
    return api.smoke_test_program(Path(script), ctx.meta.get(_ARGUMENTS, ()), config=config, **run_options)


def _configuration(
    ctx: click.Context,
    config: Path,
    run_options: dict[str, Any],
    *,
    until_fits: bool,
    seq_len: int | None,
    activation_checkpointing: str | None,
    no_zero_init: bool,
    **given: Any,
) -> tuple[SmokeResult, str]:
    """The smoke test of a file with a model's shapes, and the text of the file that was proven, if one was sought."""
    from zeroconf import api

    if given["dry_run"]:
        _refuse(ctx, ("num_gpus", "launcher", "hostfile", "device"), "a dry run is one process without a device")
    else:
        _refuse(ctx, ("hardware",), "it is what a --dry-run has to fit")
        from zeroconf.smoke.trial import num_local_gpus

        ranks = given["world_size"] or 0
        if not run_options["hostfile"] and ranks > (run_options["num_processes"] or num_local_gpus() or 1):
            _refuse(ctx, ("launcher",), f"one process stands for rank 0 of {ranks}, and none is launched")
    project = current_folder()
    tell_project(project)
    settings = {
        "project": project,
        "sequence_length": seq_len,
        "activation_checkpointing": None if activation_checkpointing is None else activation_checkpointing == "full",
        "zero_init": not no_zero_init,
        **run_options,
        **given,
    }
    return api.until_fits(config, **settings) if until_fits else (api.smoke_test(config, **settings), "")


def _check_output(config: Path | None, output: str | None, *, until_fits: bool, force: bool) -> None:
    """Refuses an output that would not be written, before anything runs: the user's own file is never written over.

    Raises:
        InputError: there is no use for it, or it is there already.
    """
    from pathlib import Path

    from zeroconf.files import check_outputs

    if output is None:
        if force:
            msg = "--force has no effect here: it overwrites what -o names; leave it out"
            raise InputError(msg)
        return
    if not until_fits:
        msg = "-o has no effect here: it takes the configuration that --until-fits finds; leave it out"
        raise InputError(msg)
    if config is not None and Path(output).exists() and config.exists() and config.samefile(output):
        msg = f"{output} is the configuration itself, which stays as it is; give -o another file"
        raise InputError(msg)
    check_outputs([output], force=force)


def _print(result: SmokeResult, *, as_json: bool) -> None:
    if as_json:
        from zeroconf.render.json import dumps, estimate_json
        from zeroconf.smoke.result import to_json

        predicted = estimate_json(result.predicted) if result.predicted else None
        click.echo(dumps(to_json(result, predicted)), nl=False)
    else:
        from zeroconf.smoke.text import to_text

        click.echo(to_text(result))


def _refuse(ctx: click.Context, names: tuple[str, ...], why: str) -> None:
    """Refuses options that have no effect on this smoke test, where the command line names them."""
    for name in names:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            msg = f"--{name.replace('_', '-')} has no effect here: {why}; leave it out"
            raise InputError(msg)
