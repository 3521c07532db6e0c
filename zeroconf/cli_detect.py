"""The command ``detect``. As in cli.py, what it runs is imported when it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from zeroconf.cli_output import loudness
from zeroconf.cli_progress import MovingLine, bar
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from zeroconf.detect.findings import Findings

_STDOUT = "-"
_QUIET_SECONDS = 2.0


@click.command(short_help="Print an inventory of the hardware that is here.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of YAML; --hardware reads both.")
@click.option("-o", "--output", metavar="FILE", help="Write the inventory to a file; '-' is standard output ['-'].")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--hostfile", metavar="FILE", help="The job's hosts [Slurm's, torchrun's, or /job/hostfile].")
@click.option("--measure-network", is_flag=True, help="Time all-reduces between the job's ranks, for half a minute.")
@click.option(
    "--num-ranks", type=click.IntRange(2, 64), metavar="N", help="For that, on one machine [one per GPU; 2 without]."
)
@click.option("--python", metavar="PATH", help="For that: the training environment's interpreter [this one].")
@click.pass_context
def detect(
    ctx: click.Context,
    /,
    as_json: bool,
    output: str | None,
    force: bool,
    hostfile: str | None,
    measure_network: bool,
    num_ranks: int | None,
    python: str | None,
) -> None:
    """What hardware and network is here? Prints an inventory for --hardware.

    Every value says where it came from, and what could not be known is marked.

    \b
    zeroconf detect -o cluster.yaml
    zeroconf generate --model llama-3.1-8b --hardware cluster.yaml
    srun zeroconf detect --measure-network --python ~/train-env/bin/python -o cluster.yaml
    """
    from zeroconf import api
    from zeroconf.files import check_outputs, output_name, write_files

    if output is not None:
        output = output_name(output, stdout=_STDOUT)
        check_outputs({output} - {_STDOUT}, force=force)
    if (num_ranks or python) and not measure_network:
        msg = "--num-ranks and --python are for --measure-network; add it, or leave them out"
        raise InputError(msg)
    measured = None
    if measure_network:
        from zeroconf.detect.machine import this_machine
        from zeroconf.detect.measure import measure

        line = MovingLine(_QUIET_SECONDS)
        try:
            measured = measure(
                this_machine(),
                python=python or sys.executable,
                hostfile=hostfile,
                num_ranks=num_ranks,
                on_progress=lambda share, text: line.show(bar(share, text)),
            )
        finally:
            line.clear()
        if not measured.is_first:
            ctx.exit(0)
    findings = api.detect(hostfile=hostfile, measured=measured)
    text = _text(findings, as_json=as_json)
    if output is None or output == _STDOUT:
        click.echo(text, nl=False)
    else:
        write_files({output: text}, force=force)
        if not loudness().quiet:
            click.echo(f"Wrote {output}" + (f"; unknown: {', '.join(findings.unknown)}" if findings.unknown else ""))


def _text(findings: Findings, *, as_json: bool) -> str:
    if as_json:
        import json

        # in ASCII, so that it survives any stream
        return json.dumps(findings.to_json(), indent=2) + "\n"
    from zeroconf.render.inventory_yaml import inventory_yaml

    return inventory_yaml(findings)
