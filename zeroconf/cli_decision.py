"""What ``generate`` prints, and where its documents go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeroconf.cli_output import loudness
from zeroconf.errors import InputError, NoNumberFits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.generated import Generated
    from zeroconf.types import Facts


def output_names(output: str, *others: str | None, as_json: bool) -> list[Any]:
    """The names with /dev/stdout as ``-``, which only one document can have."""
    from zeroconf.files import output_name
    from zeroconf.generated import STDOUT

    names = [None if path is None else output_name(path, stdout=STDOUT) for path in (output, *others)]
    if as_json and STDOUT in names:
        msg = f"--json and the output '{STDOUT}' both want standard output; give the output a file, or leave out --json"
        raise InputError(msg)
    if names.count(STDOUT) > 1:
        msg = "two outputs want standard output; give all but one a file"
        raise InputError(msg)
    return names


def print_decision(
    made: Generated, written: list[str], given: Mapping[str, str | None], as_json: bool, err: bool
) -> None:
    """The plan with its reasons, and what was written; with --quiet the plan alone, or what would make one fit.

    ``given`` are the options of the facts and of the files, which the command for a faster tight plan repeats.
    """
    if as_json:
        from zeroconf.render.json import decision_json, dumps

        click.echo(dumps(decision_json(made.decision, made.files, made.changes, made.verified)), nl=False, err=err)
        return
    from zeroconf.render.text import changes_text, decision_text, files_text, plan_text

    quiet = loudness().quiet
    blocks = [
        plan_text(made.decision) if quiet else decision_text(made.decision, given),
        changes_text(made.changes),
        click.style("Verified ", fg="green", bold=True) + made.verified if made.verified else "",
        "" if quiet else files_text(written, made.commands, made.smoke_test, "" if made.verified else made.dry_run),
    ]
    click.echo("\n\n".join(block for block in blocks if block), err=err)


def print_gpus_needed(facts: Facts, given: Mapping[str, str | None], as_json: bool) -> None:
    """The answer for a GPU type without a count; ``given`` are the facts' options.

    Raises:
        NoNumberFits: what was printed says that no number is enough.
    """
    from zeroconf import api

    needed = api.gpus_needed(facts)
    if as_json:
        from zeroconf.render.json import dumps, needed_json

        click.echo(dumps(needed_json(facts, needed)), nl=False)
    else:
        from zeroconf.render.needed_text import needed_text

        click.echo(needed_text(facts, needed, given, alone=loudness().quiet))
    if not any(entry.num_gpus for entry in needed):
        gpu = facts.cluster.gpu.name
        msg = f"no number of {gpu} is enough for {facts.model.name}; give one, like 8x{gpu}, to see what would help"
        raise NoNumberFits(msg)
