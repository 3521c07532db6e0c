"""The commands ``lint`` and ``rule``. As in cli.py, what they run is imported when they run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from zeroconf.cli_options import MODEL_OPTIONS, WORKLOAD_OPTIONS, Sectioned, options
from zeroconf.cli_output import loudness, print_error, tell_project
from zeroconf.cli_progress import MovingLine
from zeroconf.errors import InputError
from zeroconf.process import ESCAPED

if TYPE_CHECKING:
    from zeroconf.lint.run import Change, Fixing, Report

_STDIN = "-"
_QUIET_SECONDS = 2.0
_SEVERITIES = ["error", "warning", "info"]


@click.command(cls=Sectioned, short_help="Find what is wrong in configurations.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option("--select", multiple=True, metavar="RULES", help="Only these: codes, prefixes (ZC1), names; with commas.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Leave these out.")
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), help="The least severity that makes the exit code 1 [error]."
)
@click.option("--fix", is_flag=True, help="Apply the safe fixes: they cannot change what was meant.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: also fixes that may not be what was meant.")
@click.option("--diff", is_flag=True, help="Print what --fix would change; write nothing.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "concise", "json", "sarif", "github"]),
    default="text",
    help="As concise, a line for each finding; as github, annotations [text].",
)
@click.option("--baseline", metavar="FILE", help="An earlier --format json report: its findings are not shown.")
@click.option("--no-baseline", is_flag=True, help="Show also what the project file's baseline holds.")
@click.option("--sniff", is_flag=True, help="Pass over files that are no configuration (for hooks).")
@click.option("--stdin-filename", metavar="NAME", help="The name of what '-' reads.")
@click.option(
    "--for",
    "reader",
    type=click.Choice(["trainer", "accelerate", "deepspeed"]),
    help="Who reads the files [as far as they show it].",
)
@click.option("--deepspeed-version", metavar="X.Y.Z", help="Release to check against [the newest].")
@click.option("--accelerate-version", metavar="X.Y.Z", help="Release to check against [the newest].")
@click.option("--python", metavar="PATH", help="The training environment's interpreter: its releases.")
@options(MODEL_OPTIONS, WORKLOAD_OPTIONS)
@click.pass_context
def lint(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    output_format: str,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    sniff: bool,
    stdin_filename: str | None,
    no_baseline: bool,
    **given: Any,
) -> None:
    """Find what is wrong, without effect or out of date in DeepSpeed and Accelerate configurations.

    In a folder every .json, .yaml, .yml and hostfile that is a configuration is read; '-' is standard input.
    Warnings and infos are shown, but only errors fail, unless --fail-on says otherwise. With --model and --hardware
    (or a project file that names them) it is also checked whether the plan fits, and is the right one for the network.

    \b
    zeroconf lint ds_config.json
    zeroconf lint configs/ --for trainer --fix
    zeroconf lint ds_config.json --model llama-3.1-8b --hardware 2x8xA100-80GB --network 25gbe
    zeroconf lint . --format sarif > zeroconf.sarif
    """
    from zeroconf.lint.run import lint_files
    from zeroconf.lint.settings import Options

    if diff and output_format != "text":
        msg = f"--diff prints a diff, not {output_format}; leave out one of the two"
        raise InputError(msg)
    if unsafe_fixes and not (fix or diff):
        msg = "--unsafe-fixes goes with --fix, which applies them, or --diff, which shows them; add one of the two"
        raise InputError(msg)
    if stdin_filename == "":
        msg = "--stdin-filename is empty; give the name of what '-' reads"
        raise InputError(msg)
    facts = {name: given.pop(name) for name in given.keys() - set(Options._fields)}
    fixing: Fixing = "none" if not (fix or diff) else "unsafe" if unsafe_fixes else "safe"
    line = MovingLine(_QUIET_SECONDS)
    _tell_projects(files)
    report = lint_files(
        files,
        Options(use_baseline=not no_baseline, facts=facts, **given),
        fixing=fixing,
        write=None if diff else _write,
        only_configurations=sniff,
        stdin_name=stdin_filename or "<stdin>",
        on_progress=lambda done, total: line.show(f"{done:,} of {total:,} files") if total > 1 else None,
    )
    line.clear()
    for failure in report.failures:
        print_error(failure)
    fixed_stdin = fix and not diff and _STDIN in files
    if diff:
        _print_diff(report)
    elif fixed_stdin:
        _print_fixed_stdin(report, stdin_filename or "<stdin>")
    if not diff:
        _echo(_rendered(report, output_format, unsafe=unsafe_fixes), err=fixed_stdin)
    elif not loudness().quiet:
        _echo(_diff_summary(report, unsafe=unsafe_fixes), err=True)
    if output_format == "concise":
        from zeroconf.render.findings_text import unusable_text

        _echo(unusable_text(report), err=True)
    ctx.exit(report.exit_code)


def _tell_projects(names: tuple[str, ...]) -> None:
    if loudness().verbose:
        from pathlib import Path

        tell_project(*(path if path.is_dir() else path.parent for path in map(Path, names)))


def _write(change: Change) -> None:
    from zeroconf.files import write_files

    write_files({change.path: change.after}, force=True)


def _diff_summary(report: Report, *, unsafe: bool) -> str:
    from zeroconf.render.concise import findings_concise
    from zeroconf.render.findings_text import summary_text

    return findings_concise(report) + summary_text(report, unsafe=unsafe, fixed="Would fix") + "\n"


def _rendered(report: Report, output_format: str, *, unsafe: bool) -> str:
    if output_format == "text":
        from zeroconf.render.findings_text import findings_text

        text = findings_text(report, unsafe=unsafe, summary=not loudness().quiet)
        return text and text + "\n"
    if output_format == "concise":
        from zeroconf.render.concise import findings_concise

        return findings_concise(report)
    if output_format == "github":
        from zeroconf.render.github import findings_github

        return findings_github(report)
    if output_format == "sarif":
        from zeroconf.render.sarif import findings_sarif

        return _json(findings_sarif(report))
    from zeroconf.render.findings_json import findings_json

    return _json(findings_json(report))


def _json(value: object) -> str:
    """In ASCII, so that it survives any stream and any name."""
    import json

    return json.dumps(value, indent=2) + "\n"


@click.command(short_help="List the rules of lint, or explain one.")
@click.argument("code", metavar="[RULE]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rule(code: str | None, as_json: bool) -> None:
    """List the rules, or those that a prefix like ZC2 begins, or print the page of one, with examples.

    \b
    zeroconf rule
    zeroconf rule ZC2
    zeroconf rule ZC240
    """
    from zeroconf.lint.pages import describe_all, find_rules
    from zeroconf.render.rule_page import plain, rule_json, rule_markdown, rules_table

    found = describe_all() if code is None else find_rules(code)
    if isinstance(found, list):
        _echo(_json([rule_json(one) for one in found]) if as_json else rules_table(found) + "\n")
    else:
        _echo(_json(rule_json(found)) if as_json else plain(rule_markdown(found)))


def _print_diff(report: Report) -> None:
    from zeroconf.render.diff import unified_diff

    for change in report.changes:
        _echo(unified_diff(change.path, change.before, change.after))


def _print_fixed_stdin(report: Report, name: str) -> None:
    for change in report.changes:
        if change.path == name:
            _echo(change.after)


def _echo(text: str, *, err: bool = False) -> None:
    """Prints text as it is; what the stream's encoding has no bytes for becomes an escape."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, ESCAPED).decode(encoding), nl=False, err=err)
