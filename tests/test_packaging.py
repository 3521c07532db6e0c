"""What is built from the tree: the wheel, the source distribution, and what becomes of both beside the mDNS library."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LLAMA = ("--model", "llama-3.1-8b", "--hardware", "8xA100-80GB")


def build(tree, folder, *targets):
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run([*command, *(f"-t{target}" for target in targets)], cwd=tree, capture_output=True, check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder, "wheel", "sdist")
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def tracked(*folders):
    """The files that git has."""
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs to the tree is known from git")
    listed = subprocess.run(["git", "ls-files", "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_symlink() or (ROOT / name).exists()}


def test_the_wheel_has_the_package_its_data_and_the_licence_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
        (licence,) = (name for name in names if name.endswith("/LICENSE"))
        assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
        (points,) = (name for name in names if name.endswith("/entry_points.txt"))
        assert b"zeroconf = zeroconf.entry:script" in wheel.read(points)
    beside = tracked("schemas", "templates/launch", "templates/report")
    data = {name for name in beside if not name.endswith((".py", ".toml"))}
    assert any(name.endswith(".sh") for name in data)
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == tracked("zeroconf") | {f"zeroconf/_data/{name}" for name in data}


def test_the_source_distribution_is_the_tree_and_builds_the_same_wheel(built, tmp_path):
    wheel, source = built
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    assert (tree / "pre-commit-hooks.yaml").readlink() == Path(".pre-commit-hooks.yaml")
    unpacked = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or path.is_file()}
    assert tracked() <= unpacked
    build(tree, tmp_path / "again", "wheel")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(tmp_path / "again" / wheel.name) as second:
        assert {name: first.read(name) for name in first.namelist()} == {
            name: second.read(name) for name in second.namelist()
        }


@pytest.fixture
def environment(tmp_path):
    """A new environment that finds the dependencies where these tests have them, behind what is installed in it."""
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = home / "bin" / "python"
    (tmp_path / "empty").mkdir()

    def run(*command):
        return subprocess.run(
            [home / "bin" / command[0], *command[1:]], cwd=tmp_path / "empty", env=variables, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def install(*what):
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--ignore-installed", *what]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    return run, install


@pytest.mark.skipif(os.name != "posix", reason="an environment's programs are in bin")
def test_the_installed_wheel_works_where_nothing_else_is(built, environment):
    run, install = environment
    installed = install("--no-deps", built[0])
    assert installed.returncode == 0, installed.stderr
    where = run("python", "-c", "import zeroconf; print(zeroconf.__file__)").stdout
    assert "/environment/" in where
    for command in (
        ("zeroconf", "generate", *LLAMA, "--accelerate", "accelerate.yaml", "--launch", "launch.sh"),
        ("python", "-m", "zeroconf", "estimate", "ds_config.json", *LLAMA, "--json"),
        ("zeroconf", "lint", ".", *LLAMA),
        ("zeroconf", "rule", "ZC103"),
        ("zeroconf", "detect"),
    ):
        ran = run(*command)
        assert (ran.returncode, ran.stderr) == (0, ""), command
        assert ran.stdout


@pytest.mark.launch
@pytest.mark.skipif(os.name != "posix", reason="an environment's programs are in bin")
@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_the_mdns_library_it_says_so_in_whatever_order(built, environment, ours_first):
    """PyPI's zeroconf has the same import name, and each overwrites files of the other."""
    run, install = environment
    if ours_first:
        install("--no-deps", built[0])
    theirs = install("zeroconf")
    if "No matching distribution" in theirs.stderr or "ConnectionError" in theirs.stderr:
        pytest.skip("no package registry can be reached")
    assert theirs.returncode == 0, theirs.stderr
    if not ours_first:
        install("--no-deps", built[0])
    for command in (("zeroconf",), ("python", "-m", "zeroconf")):
        ran = run(*command, "generate", *LLAMA)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == (
            "error: PyPI's mDNS library 'zeroconf' is installed over this one; install each in its own environment\n"
        )
