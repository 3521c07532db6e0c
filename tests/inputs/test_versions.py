from __future__ import annotations

import sys
from importlib import metadata

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.versions import read_versions
from zeroconf.types import Versions


def environment(folder, package="deepspeed", version="0.16.4+cu121"):
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    (folder / "bin" / "python").touch()
    info = folder / "lib" / "python3.11" / "site-packages" / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
    return folder / "bin" / "python"


def test_the_newest_known_without_any_option():
    assert read_versions(None, None, None) == Versions()


def test_named_releases_win():
    read = read_versions("0.17.0", "v1.2", None)
    assert (read.deepspeed, read.accelerate) == ((0, 17, 0), (1, 2))
    assert "as named" in read.source


def test_installed_releases_are_read_not_imported(tmp_path):
    python = environment(tmp_path / "env")
    for written in (str(python), str(tmp_path / "env")):
        read = read_versions(None, None, written)
        assert read.deepspeed == (0, 16, 4)
        assert read.accelerate == Versions().accelerate
        assert "accelerate: the newest" in read.source
    assert read_versions("0.17.0", None, str(python)).deepspeed == (0, 17, 0)


def test_this_interpreter():
    read = read_versions(None, None, sys.executable)
    assert ".".join(map(str, read.deepspeed)) == metadata.version("deepspeed")
    assert ".".join(map(str, read.accelerate)) == metadata.version("accelerate")


@pytest.mark.parametrize(
    "options",
    [
        ("new", None, None),
        ("", None, None),
        (None, "1..2", None),
        (None, None, "/no/such/python"),
        (None, None, "\x00"),
    ],
)
def test_nonsense_is_refused(options):
    with pytest.raises(InputError):
        read_versions(*options)
