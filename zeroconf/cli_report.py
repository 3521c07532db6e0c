"""The command ``report``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeroconf.cli_options import (
    MODEL_OPTIONS,
    READER_OPTIONS,
    WORKLOAD_OPTIONS,
    Sectioned,
    counted_facts,
    given_facts,
    one_config_path,
    options,
)
from zeroconf.cli_output import loudness

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_SECONDS = 1.0


@click.command(cls=Sectioned, short_help="One HTML file that shows the choice and its alternatives.")
@click.argument("config", required=False, type=click.Path(), nargs=-1, metavar="[CONFIG]", callback=one_config_path)
@options(MODEL_OPTIONS, WORKLOAD_OPTIONS, READER_OPTIONS)
@click.option("-o", "--output", metavar="FILE", default="report.html", help="'-' is standard output [report.html].")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.pass_context
def report(ctx: click.Context, /, config: Path | None, output: str, force: bool, **given: Any) -> None:
    """One HTML file: memory by stage, traffic, time, other numbers of GPUs and networks, and the way to the choice.

    The plan of CONFIG stands beside. The page needs no network and no server: open it in a browser, print it, send it.

    \b
    zeroconf report --model llama-3.1-8b --hardware 8xA100-80GB
    zeroconf report ds_config.json --model llama-3.1-8b --hardware 8xA100-80GB
    zeroconf report --model 13B --hardware 4x4xA100-80GB --network 10gbe -o 13b.html
    """
    from zeroconf import api
    from zeroconf.cli_progress import MovingLine, bar
    from zeroconf.files import check_outputs, output_name, write_files

    output = output_name(output, stdout="-")
    facts = counted_facts(given)
    if output != "-":
        check_outputs([output], force=force)
    line = MovingLine(after_seconds=_PATIENCE_SECONDS)
    try:
        page = api.report(
            facts, config, given=given_facts(ctx), on_progress=lambda share, words: line.show(bar(share, words))
        )
    finally:
        line.clear()
    if output == "-":
        click.echo(page, nl=False)
        return
    write_files({output: page}, force=force)
    if not loudness().quiet:
        click.echo(click.style("Wrote ", bold=True) + output)
