from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.errors import InputError
from zeroconf.files import write_files


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_writes_all_files_and_leaves_nothing_else(tmp_path):
    write_files({str(tmp_path / "a.json"): "one\n", str(tmp_path / "b.yaml"): "zwei ü\n"}, force=False)
    assert (tmp_path / "a.json").read_bytes() == b"one\n"
    assert (tmp_path / "b.yaml").read_text(encoding="utf-8") == "zwei ü\n"
    assert _names(tmp_path) == {"a.json", "b.yaml"}


def test_new_files_have_the_usual_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        write_files({str(tmp_path / "a"): ""}, force=False)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_one_existing_output_means_that_none_is_written(tmp_path):
    (tmp_path / "b").write_text("mine")
    with pytest.raises(InputError, match=r"b' exists; --force overwrites it"):
        write_files({str(tmp_path / "a"): "x", str(tmp_path / "b"): "y"}, force=False)
    assert _names(tmp_path) == {"b"}
    assert (tmp_path / "b").read_text() == "mine"


def test_force_overwrites_and_keeps_permissions_and_links(tmp_path):
    real = tmp_path / "real.json"
    real.write_text("old")
    real.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    write_files({str(link): "new"}, force=True)
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert _names(tmp_path) == {"real.json", "link.json"}


def test_a_link_without_force_counts_as_existing_even_when_it_dangles(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InputError, match="exists"):
        write_files({str(tmp_path / "link"): "x"}, force=False)
    assert _names(tmp_path) == {"link"}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (".", "is a folder; name a file in it"),
        ("missing/a.json", "there is no folder"),
        ("file/a.json", "cannot write"),
        ("nul\0byte", "cannot write"),
        ("x" * 300, "cannot write .*choose a shorter name"),
        ("/proc/zeroconf.json", "cannot write"),
        ("", "is empty"),
        ("new/", "is a folder; name a file in it"),
        ("new/.", "is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_written_is_one_sentence_and_writes_nothing(tmp_path, monkeypatch, path, sentence, force):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("a regular file")
    with pytest.raises(InputError, match=sentence):
        write_files({"first.json": "x", path: "y"}, force=force)
    assert _names(tmp_path) == {"file"}


def test_a_device_is_never_replaced():
    with pytest.raises(InputError, match="not a regular file"):
        write_files({"/dev/null": "x"}, force=True)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_one_file_under_two_names_is_refused(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(InputError, match="one file twice"):
        write_files({str(tmp_path / "real"): "x", str(tmp_path / "link"): "y"}, force=True)
    assert (tmp_path / "real").read_text() == "old"


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
@pytest.mark.parametrize("force", [False, True])
def test_a_failure_between_two_renames_takes_the_first_back(tmp_path, monkeypatch, error, force):
    first, second = tmp_path / "a", tmp_path / "b"
    if force:
        first.write_text("old a")
        second.write_text("old b")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    rename, link = Path.replace, Path.hardlink_to

    def failing_replace(self, target):
        if target == second and self.read_text() == "new b":
            raise error
        return rename(self, target)

    def failing_link(self, target):
        if self == second:
            raise error
        link(self, target)

    monkeypatch.setattr(Path, "replace", failing_replace)
    monkeypatch.setattr(Path, "hardlink_to", failing_link)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_files({str(first): "new a", str(second): "new b"}, force=force)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_force_writes_through_hard_links_and_takes_it_back(tmp_path, monkeypatch):
    first, second, other = (tmp_path / name for name in ("a", "b", "other"))
    first.write_text("old a, longer than the new one")
    other.hardlink_to(first)
    inode = first.stat().st_ino
    write_files({str(first): "new a"}, force=True)
    assert (other.read_text(), other.stat().st_ino, first.stat().st_ino) == ("new a", inode, inode)
    rename = Path.replace

    def failing_replace(self, target):
        if target == second:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", failing_replace)
    with pytest.raises(KeyboardInterrupt):
        write_files({str(first): "newer a", str(second): "new b"}, force=True)
    assert (first.read_text(), other.read_text()) == ("new a", "new a")
    assert _names(tmp_path) == {"a", "other"}
    with pytest.raises(InputError, match="one file twice"):
        write_files({str(first): "x", str(other): "y"}, force=True)


def test_force_leaves_a_read_only_file_alone(tmp_path):
    target = tmp_path / "a"
    target.write_text("mine")
    target.chmod(0o444)
    with pytest.raises(InputError, match="a' is read-only; make it writable first"):
        write_files({str(target): "x"}, force=True)
    assert target.read_text() == "mine"
    assert _names(tmp_path) == {"a"}


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    target = tmp_path / "a"
    sync = os.fsync

    def sync_while_another_writes(descriptor):
        target.write_text("theirs")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_while_another_writes)
    with pytest.raises(InputError, match="exists"):
        write_files({str(target): "ours"}, force=False)
    assert target.read_text() == "theirs"
    assert _names(tmp_path) == {"a"}


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_system_without_hard_links_works_and_overwrites_nothing(tmp_path, monkeypatch, taken):
    def no_links(self, _target):
        if taken:
            self.write_text("theirs")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    if taken:
        with pytest.raises(InputError, match="exists"):
            write_files({str(tmp_path / "a"): "ours"}, force=False)
    else:
        write_files({str(tmp_path / "a"): "ours"}, force=False)
    assert (tmp_path / "a").read_text() == ("theirs" if taken else "ours")
    assert _names(tmp_path) == {"a"}


def test_a_full_disk_is_one_sentence(tmp_path):
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    code = limited + "import sys; from zeroconf.files import write_files\n"
    code += "write_files({sys.argv[1]: 'x' * 5000}, force=False)"
    path = tmp_path / "a"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert "InputError: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert _names(tmp_path) == set()


def test_ctrl_c_while_writing_leaves_nothing(tmp_path):
    code = "import os, sys, time, zeroconf.files as f\n"
    code += "sync = os.fsync\n"
    code += "os.fsync = lambda fd: (sync(fd), print('writing', flush=True), time.sleep(30))\n"
    code += "f.write_files({sys.argv[1]: 'x', sys.argv[2]: 'y'}, force=False)"
    command = [sys.executable, "-c", code, str(tmp_path / "a"), str(tmp_path / "b")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGINT)
        process.wait(10)
    assert _names(tmp_path) == set()
