"""How much a command says, of what goes wrong too, and in which colours: --quiet, --verbose, NO_COLOR, FORCE_COLOR."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zeroconf.errors import InputError, OutputError, ZeroconfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zeroconf.types import Facts


OWN = "Options"  # above those that are a command's own


class OptionGroup(NamedTuple):
    """Options that several commands have, and what stands above them in their help."""

    title: str
    options: list[Callable[[Any], Any]]


class Loudness:
    """What --quiet and --verbose ask for, before or behind the command's name."""

    __slots__ = ("quiet", "verbose")

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose


def loudness() -> Loudness:
    """That of the running command."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Loudness)) or Loudness()


def _heed(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    asked = ctx.ensure_object(Loudness)
    setattr(asked, str(param.name), True)
    if asked.quiet and asked.verbose:
        msg = "--quiet and --verbose contradict each other; leave out one of the two"
        raise InputError(msg)


LOUDNESS_OPTIONS = OptionGroup(OWN, [
    click.option("-q", "--quiet", is_flag=True, expose_value=False, is_eager=True, callback=_heed,
                 help="Print errors and the answer, nothing else."),
    click.option("-v", "--verbose", is_flag=True, expose_value=False, is_eager=True, callback=_heed,
                 help="Also print where facts come from, times, and the traceback of a fault."),
])  # fmt: skip


def wants_colour() -> bool | None:
    """Whether the environment wants colours; None leaves it to each stream: a terminal has them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") != "0":
        return True
    return False if os.environ.get("TERM") == "dumb" else None


def moves() -> bool:
    """Whether stderr is a terminal on which a line can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def print_error(message: str) -> None:
    """One line on stderr."""
    click.echo(click.style("error: ", fg="red", bold=True) + message, err=True, color=wants_colour())


def told(error: Exception, *, verbose: bool) -> tuple[str, int]:
    """What is said of an error, and the exit code."""
    if isinstance(error, ZeroconfError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        said = " ".join(error.format_message().split()).removesuffix(".")
        context = error.ctx if isinstance(error, click.UsageError) else None
        see = f"{' See' if said.endswith('?') else '; see'} {context.command_path} --help" if context else ""
        return said + see, InputError.exit_code
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'input or output failed'}", InputError.exit_code
    import traceback

    if verbose:
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119  (start-up)
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    how = "report the command and the lines above" if verbose else "run it again with -v, and report what it prints"
    return f"a fault in zeroconf, not in what you gave: {what} ({place}); {how}", OutputError.exit_code


def tell_project(*folders: Path) -> None:
    """With --verbose: the project files that these folders have, and what they set."""
    if not loudness().verbose:
        return
    from zeroconf.inputs.project import find_project

    found = {path: settings for one in map(find_project, folders) if one for path, settings in [one]}
    for path, settings in found.items():
        click.echo(f"project file {path}: {', '.join(sorted(settings)) or 'empty'}", err=True)
    if not found:
        click.echo("project file: none", err=True)


def tell_facts(facts: Facts) -> None:
    """With --verbose: where the facts' figures come from."""
    if not loudness().verbose:
        return
    from zeroconf.units import release_text

    cluster, versions = facts.cluster, facts.versions
    click.echo(f"model {facts.model.name}: {facts.model.source}", err=True)
    click.echo(f"GPU {cluster.gpu.name}: {cluster.gpu.source} ({cluster.gpu.confidence})", err=True)
    for link in (cluster.intra_node, cluster.network):
        if link:
            click.echo(f"link {link.name}: {link.source} ({link.confidence})", err=True)
    releases = f"DeepSpeed {release_text(versions.deepspeed)}, Accelerate {release_text(versions.accelerate)}"
    click.echo(f"releases: {releases} ({versions.source})", err=True)
