"""The command ``schema``. As in cli.py, what it runs is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".schema.json"


def schema_files() -> dict[str, Path]:
    """The schemas by name."""
    from zeroconf.resources import data_path

    return {path.name.removesuffix(_SUFFIX): path for path in sorted(data_path("schemas").glob(f"*{_SUFFIX}"))}


@click.command(short_help="JSON Schemas for editors.")
@click.argument("name", metavar="[SCHEMA]", required=False)
@click.option("--path", "as_path", is_flag=True, help="Print the path of the file, for an editor's settings.")
def schema(name: str | None, as_path: bool) -> None:
    """Print a JSON Schema by which an editor completes and checks a file, or list them.

    \b
    zeroconf schema
    zeroconf schema ds_config > ds_config.schema.json
    zeroconf schema accelerate --path
    """
    import json

    from zeroconf.inputs.text import did_you_mean

    files = schema_files()
    if name is None:
        width = max(map(len, files))
        titles = {one: json.loads(path.read_bytes())["title"] for one, path in files.items()}
        lines = [str(path) if as_path else f"{one:{width}}  {titles[one]}" for one, path in files.items()]
        click.echo("\n".join(lines))
        return
    if name not in files:
        msg = f"there is no schema '{name}'{did_you_mean(name, files)}; zeroconf schema lists them"
        raise InputError(msg)
    click.echo(str(files[name]) if as_path else files[name].read_text(encoding="utf-8"), nl=as_path)
