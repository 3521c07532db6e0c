"""Rebuilds the key tables and the JSON Schemas of configuration files.

    python schemas/update.py            reads the sources of every release listed in releases.toml (the registry is
                                        asked for those not yet in --cache) and writes tables and schemas
    python schemas/update.py --check    without the network: the schemas are what the tables give

What a program cannot read in the sources stands in deepspeed_facts.toml and accelerate_facts.toml. A key that a
new release reads and the facts do not describe stops the update and is named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import key_schemas
import tables
from extract_source import Package

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
SCHEMAS: dict[str, tuple[str, Callable[[key_schemas.Schema], key_schemas.Schema]]] = {
    "deepspeed": ("ds_config.schema.json", key_schemas.ds_config_schema),
    "accelerate": ("accelerate.schema.json", key_schemas.accelerate_schema),
}


def main() -> int:
    """Runs the update or the check; the exit code."""
    parser = argparse.ArgumentParser(description="Rebuild the key tables and schemas.")
    parser.add_argument("--check", action="store_true", help="only compare the schemas with the tables")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "zeroconf-releases", help="where sources are kept"
    )
    options = parser.parse_args()
    if not options.check:
        releases = tomllib.loads((HERE / "releases.toml").read_text(encoding="utf-8"))
        for library in SCHEMAS:
            packages = {release: sources(library, release, options.cache) for release in releases[library]}
            (HERE / f"{library}_keys.json").write_text(tables.text(tables.build(library, packages)), encoding="utf-8")
    stale = [name for name, text in schema_texts().items() if text != _current(name)]
    for name in stale:
        if options.check:
            sys.stderr.write(f"{name} is not what the key table gives: run python schemas/update.py\n")
        else:
            (HERE / name).write_text(schema_texts()[name], encoding="utf-8")
    return 1 if stale and options.check else 0


def schema_texts() -> dict[str, str]:
    """What each schema file should hold."""
    texts = {}
    for library, (name, schema) in SCHEMAS.items():
        table = json.loads((HERE / f"{library}_keys.json").read_text(encoding="utf-8"))
        texts[name] = key_schemas.text(schema(table))
    return texts


def sources(library: str, release: str, cache: Path) -> Package:
    """A release's Python sources, downloaded by pip unless the cache has them.

    DeepSpeed publishes sdists only: pip asks their setup.py for metadata, in a throw-away environment.
    """
    folder = cache / f"{library}-{release}"
    if not folder.exists():
        archives = cache / "archives"
        kind = ["--no-binary", library] if library == "deepspeed" else ["--only-binary", library]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind]
        subprocess.run([*command, "--dest", str(archives), f"{library}=={release}"], check=True)
        (archive,) = archives.glob(f"{library}-{release}[-.]*")
        _unpack(archive, library, folder)
    return Package(folder / library)


def _current(name: str) -> str:
    path = HERE / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _unpack(archive: Path, library: str, folder: Path) -> None:
    """Writes the package's Python files, which stand below a folder of their own in an sdist."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            files = {name: wheel.read(name) for name in wheel.namelist()}
    else:
        with tarfile.open(archive) as sdist:
            members = [member for member in sdist if member.isfile()]
            files = {member.name.partition("/")[2]: sdist.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    for name, content in files.items():
        if name.startswith(f"{library}/") and name.endswith(".py") and ".." not in name:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
