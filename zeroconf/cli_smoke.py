"""The command ``smoke-test``. As in cli.py, what it runs is imported when it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from zeroconf.cli_options import config_path, current_folder
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@click.command("smoke-test")
@click.argument("config", type=click.Path(), callback=config_path)
@click.option("--model", metavar="MODEL", help="As for generate, or tiny.")
@click.option("--params", metavar="N", help="As for generate.")
@click.option("--seq-len", type=click.IntRange(1, 10**7), help="Tokens per sequence [the model's, at most 4096].")
@click.option("--steps", type=click.IntRange(1, 1000), help="Optimizer steps [3; 2 for a dry run].")
@click.option("--num-gpus", type=click.IntRange(1, 64), help="Processes [all GPUs; 1 without GPUs].")
@click.option("--dry-run", is_flag=True, help="DeepSpeed's engine on fake tensors: no GPU, no weights, any size.")
@click.option("--hardware", metavar="HW", help="For a dry run: what it has to fit, as for generate.")
@click.option("--world-size", type=click.IntRange(1, 100_000), help="Beyond --num-gpus: one process as rank 0 of N.")
@click.option(
    "--launcher",
    type=click.Choice(["torchrun", "deepspeed", "accelerate", "srun"]),
    default="torchrun",
    show_default=True,
    help="srun: in a Slurm job, on all its nodes.",
)
@click.option("--hostfile", metavar="FILE", callback=config_path, help="Several hosts, as lines: HOST slots=N.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--activation-checkpointing", type=click.Choice(["none", "full"]), help="[none]")
@click.option("--attention", type=click.Choice(["flash", "sdpa", "eager"]), help="[sdpa]")
@click.option("--lora-rank", type=click.IntRange(0, 65_536), help="Train adapters, as for generate [0].")
@click.option("--no-zero-init", is_flag=True, help="Stage 3 partitions the model only once it is built whole.")
@click.option("--timeout", type=click.FloatRange(1, 86400), default=600, show_default=True, help="Seconds.")
@click.option("--python", metavar="PATH", help="The training environment's interpreter [this one].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def smoke_test(
    ctx: click.Context,
    /,
    config: Path,
    seq_len: int | None,
    num_gpus: int | None,
    activation_checkpointing: str | None,
    no_zero_init: bool,
    timeout: float,
    python: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Train CONFIG for a few steps with random weights on this machine's GPUs, or its CPU; measure.

    \b
    zeroconf smoke-test ds_config.json --model llama-3.1-8b --python ~/train-env/bin/python
    zeroconf smoke-test ds_config.json --model llama-3.1-70b --dry-run --hardware 8x8xH100-80GB
    zeroconf smoke-test ds_config.json --model tiny --num-gpus 2 --device cpu --json
    """
    from zeroconf import api

    _check_used(ctx, dry_run=given["dry_run"])
    result = api.smoke_test(
        config,
        project=current_folder(),
        sequence_length=seq_len,
        num_processes=num_gpus,
        activation_checkpointing=None if activation_checkpointing is None else activation_checkpointing == "full",
        zero_init=not no_zero_init,
        timeout_seconds=timeout,
        python=python or sys.executable,
        on_progress=lambda line: click.echo(line, err=True),
        **given,
    )
    if as_json:
        from zeroconf.render.json import dumps, estimate_json
        from zeroconf.smoke.result import to_json

        predicted = estimate_json(result.predicted) if result.predicted else None
        click.echo(dumps(to_json(result, predicted)), nl=False)
    else:
        from zeroconf.smoke.text import to_text

        click.echo(to_text(result))
    ctx.exit(0 if result.outcome in {"fits", "ran"} else 1)


def _check_used(ctx: click.Context, *, dry_run: bool) -> None:
    """Refuses options of a smoke test that have no effect on this one, where the command line names them."""
    unused = ("num_gpus", "launcher", "device") if dry_run else ("hardware",)
    why = "a dry run is one process without a device" if dry_run else "it is what a --dry-run has to fit"
    for name in unused:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            msg = f"--{name.replace('_', '-')} has no effect here: {why}; leave it out"
            raise InputError(msg)
