"""The command line: parse, one library call, render. Heavy imports stay inside the commands."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from zeroconf.about import VERSION
from zeroconf.cli_detect import detect
from zeroconf.cli_lint import lint, rule
from zeroconf.cli_options import (
    MODEL_OPTIONS,
    READER_OPTIONS,
    WORKLOAD_OPTIONS,
    Sectioned,
    config_path,
    counted_facts,
    current_folder,
    given_facts,
    one_config_path,
    options,
)
from zeroconf.cli_output import (
    LOUDNESS_OPTIONS,
    Loudness,
    loudness,
    print_error,
    tell_facts,
    tell_project,
    told,
    wants_colour,
)
from zeroconf.cli_report import report
from zeroconf.cli_schema import schema
from zeroconf.cli_smoke import smoke_test
from zeroconf.errors import InputError, NoPlanFits
from zeroconf.process import discard, unwinding_signals, usable_streams

if TYPE_CHECKING:
    from pathlib import Path

    from zeroconf.choices import Scheduler


_INTERRUPTED = 130
_COMPLETE = "_ZEROCONF_COMPLETE"  # set by a shell that completes a command line
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Group(click.Group):
    """A group whose output may be cut short by its reader, as by ``| head``: files are whole by then.

    ``help COMMAND`` is ``COMMAND --help``, and so is nothing at all; every command has --quiet and --verbose.
    """

    command_class = Sectioned

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        for option in LOUDNESS_OPTIONS.options:
            option(cmd)
        super().add_command(cmd, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] == "help":
            args = [*args[1:2], "--help"]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            outcome = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            discard(sys.stdout)
            return 0
        return outcome


@click.group(cls=_Group, context_settings=_HELP)
@options(LOUDNESS_OPTIONS)
@click.version_option(VERSION, "-V", "--version", prog_name="zeroconf", message="%(prog)s %(version)s")
def cli() -> None:
    """Model + hardware + network to a DeepSpeed / Accelerate configuration that runs the first time.

    \b
    zeroconf generate --model llama-3.1-8b --hardware 8xA100-80GB --accelerate accelerate.yaml
    zeroconf smoke-test ds_config.json --model tiny --num-gpus 2
    zeroconf lint ds_config.json
    """


@cli.command(short_help="Choose a configuration, and write its files.")
@options(MODEL_OPTIONS, WORKLOAD_OPTIONS, READER_OPTIONS)
@click.option(
    "-o", "--output", metavar="FILE", default="ds_config.json", help="'-' is standard output [ds_config.json]."
)
@click.option("--accelerate", metavar="FILE", help="Also write an Accelerate YAML.")
@click.option(
    "--base",
    metavar="FILE",
    callback=config_path,
    help="A ds_config.json of yours: only what the plan decides is changed.",
)
@click.option("--launch", metavar="FILE", help="Also write a launch script: bash for one node, Slurm for several.")
@click.option(
    "--scheduler",
    type=click.Choice(["slurm", "kubernetes", "jobset"]),
    help="What --launch is for: an sbatch script, or a manifest of a Job or a JobSet.",
)
@click.option(
    "--verify",
    type=click.Choice(["dry-run", "smoke"]),
    is_flag=False,
    flag_value="dry-run",
    help="Try the plan before it is written: DeepSpeed's engine on fake tensors; or =smoke, real steps here.",
)
@click.option("--explain", is_flag=True, help="Keep the reasons in the file, under _zeroconf.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--dry-run", is_flag=True, help="Print the plan; write only files that are named.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; write only files that are named.")
@click.pass_context
def generate(
    ctx: click.Context,
    /,
    output: str,
    accelerate: str | None,
    base: Path | None,
    launch: str | None,
    scheduler: Scheduler | None,
    verify: str | None,
    explain: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Choose stage, offload, batch split and buckets, write the files, and say why.

    \b
    zeroconf generate --model llama-3.1-8b --hardware 8xA100-80GB
    zeroconf generate --model 13B --hardware 4x4xA100-80GB --network 10gbe --json
    zeroconf generate --model 70B --hardware H100-80GB        how many are needed?
    """
    from zeroconf import api
    from zeroconf.cli_decision import output_names, print_decision, print_gpus_needed
    from zeroconf.files import check_outputs, write_files
    from zeroconf.generated import STDOUT, Generated

    if scheduler and launch is None:
        msg = f"--scheduler {scheduler} says what --launch writes; add --launch FILE"
        raise InputError(msg)
    if launch is not None and launch.lower().endswith((".yaml", ".yml")) and scheduler in (None, "slurm"):
        msg = f"--launch {launch} has a manifest's name, but gets a shell script; add --scheduler kubernetes or jobset"
        raise InputError(msg)
    project = current_folder()
    output, accelerate, launch = output_names(output, accelerate, launch, as_json=as_json)
    start = api.read_base(base) if base else None
    tell_project(project)
    facts, counted = api.load_facts(given, project=project, base=start)
    tell_facts(facts)
    named = ctx.get_parameter_source("output") is click.core.ParameterSource.COMMANDLINE
    if not counted:
        if named or accelerate or launch or verify:
            msg = f"a GPU type without a count gets no files; give a number, like 8x{facts.cluster.gpu.name}"
            raise InputError(msg)
        print_gpus_needed(facts, given_facts(ctx), as_json)
        return
    try:
        made = api.generate(
            facts,
            output=output,
            accelerate=accelerate,
            launch=launch,
            scheduler=scheduler,
            explain=explain,
            model=given["model"],
            params=given["params"],
            hardware=given["hardware"],
            python=given["python"],
            base=start,
        )
    except NoPlanFits as error:
        made = Generated(decision=error.decision, files={}, commands={})
        print_decision(made, [], given_facts(ctx), as_json, err=False)
        raise
    unwritten = {output} if (as_json or dry_run) and not named else set()
    paths = [path for path in made.files if path not in unwritten and path != STDOUT]
    if verify:
        check_outputs(paths, force=force)
        from zeroconf.cli_progress import Progress

        with Progress() as progress:
            made = api.verify(
                facts,
                made,
                output=output,
                how=verify,
                project=project,
                model=given["model"],
                python=given["python"] or sys.executable,
                on_progress=progress,
            )
    if paths:
        write_files({path: made.files[path] for path in paths}, force=force)
    document = made.files.get(STDOUT)
    if document is not None:
        click.echo(document, nl=False)
    if as_json or dry_run or not loudness().quiet:
        again = given_facts(ctx, "output", "accelerate", "launch", "scheduler", "explain")
        again |= {"--force": None} if paths else {}
        print_decision(made, paths, again, as_json, err=document is not None)


@cli.command(short_help="Memory, traffic and time of a configuration.")
@click.argument("config", required=False, type=click.Path(), nargs=-1, metavar="[CONFIG]", callback=one_config_path)
@options(MODEL_OPTIONS, WORKLOAD_OPTIONS, READER_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def estimate(config: Path | None, as_json: bool, **given: Any) -> None:
    """Memory, traffic and time of CONFIG, or of the best plan of every stage.

    \b
    zeroconf estimate --model llama-3.1-8b --hardware 8xA100-80GB
    zeroconf estimate ds_config.json --model llama-3.1-8b --hardware 8xA100-80GB --json
    """
    from zeroconf import api

    facts, estimates = api.estimate(counted_facts(given), config)
    if as_json:
        from zeroconf.render.json import dumps, estimates_json

        click.echo(dumps(estimates_json(facts, estimates, one=config is not None)), nl=False)
    else:
        from zeroconf.render.estimate_text import estimate_text

        one = config is not None
        cures = api.estimate_cures(facts, estimates, one=one)
        click.echo(estimate_text(facts, estimates, cures, one=one, alone=loudness().quiet))


cli.add_command(detect)
cli.add_command(lint)
cli.add_command(report)
cli.add_command(rule)
cli.add_command(schema)
cli.add_command(smoke_test)


def main() -> None:
    """Runs the command line and exits with its code, whatever signals and standard streams do."""
    with usable_streams():
        sys.exit(_run())


def _run() -> int:
    """Runs the group; every failure becomes one line and its exit code."""
    if os.path.exists(os.path.join(os.path.dirname(__file__), "_services")):  # noqa: PTH110, PTH118, PTH120  (start-up)
        message = "PyPI's mDNS library 'zeroconf' is installed over this one; install each in its own environment"
        return _failed(message, InputError.exit_code)
    asked, start = Loudness(), time.monotonic()
    if _COMPLETE in os.environ:
        from zeroconf.cli_completion import complete_values

        complete_values(cli)
    try:
        with unwinding_signals():
            code = cli.main(standalone_mode=False, complete_var=_COMPLETE, color=wants_colour(), obj=asked)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _failed("interrupted", _INTERRUPTED)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is told in one sentence)
        return _failed(*told(error, verbose=asked.verbose))
    if asked.verbose:
        click.echo(f"{time.monotonic() - start:.2f} s in all", err=True)
    return code if isinstance(code, int) else 0


def _failed(message: str, exit_code: int) -> int:
    print_error(message)
    return exit_code
