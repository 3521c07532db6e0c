"""The run's folders and logs: what is kept, for how long, and what is said where nothing can be written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from zeroconf.errors import SmokeTestError
from zeroconf.smoke import folders
from zeroconf.smoke.command import cache_directory
from zeroconf.smoke.folders import KEPT_LOGS, cut, open_log, scratch_folder, tail, told_when_full


def test_the_newest_logs_are_kept_whatever_their_age_and_those_that_are_written(tmp_path):
    old = [tmp_path / f"smoke-20260101-{number:06}-1.log" for number in range(KEPT_LOGS + 5)]
    for log in old:
        log.touch()
    # the oldest is held by a rank, whose zeroconf was killed
    code = "import fcntl, time; fcntl.flock(2, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
    with old[0].open("a") as held:
        rank = subprocess.Popen([sys.executable, "-IS", "-c", code], stdout=subprocess.PIPE, stderr=held)
    with rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == b"held\n"
        with open_log(tmp_path) as log:
            kept = {path.name for path in tmp_path.iterdir()}
        rank.kill()
    assert kept == {path.name for path in [old[0], *old[-KEPT_LOGS + 1 :], Path(log.name)]}
    with open_log(tmp_path):
        assert not old[0].exists()


def test_a_run_that_goes_on_keeps_its_log(tmp_path):
    with open_log(tmp_path) as first:
        for number in range(KEPT_LOGS + 5):
            (tmp_path / f"smoke-99990101-{number:06}-1.log").touch()
        with open_log(tmp_path):
            assert Path(first.name).exists()


def test_where_the_file_system_has_no_locks_the_age_decides(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(folders.fcntl, "flock", refuse)
    logs = [tmp_path / f"smoke-20260101-{number:06}-1.log" for number in range(KEPT_LOGS + 1)]
    for log in logs:
        log.touch()
    os.utime(logs[0], (0, 0))
    with open_log(tmp_path):
        assert [log.exists() for log in logs[:2]] == [False, True]


def test_a_long_log_loses_its_middle_while_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LONGEST_LOG_BYTES", 1000)
    monkeypatch.setattr(folders, "_LOG_START_BYTES", 100)
    monkeypatch.setattr(folders, "_LOG_END_BYTES", 300)
    path = tmp_path / "log"
    with path.open("ab", buffering=0) as rank:
        rank.write(b"first\n" + b"x" * 900)
        cut(path)
        assert path.stat().st_size == 906
        for number in range(50):
            rank.write(b"line %d %s\n" % (number, b"y" * 90))
            cut(path)
        rank.write(b"last\n")
    text = path.read_text()
    assert text.startswith("first\n")
    assert text.count("[zeroconf: output was left out here") == 1
    assert text.endswith(f"line 49 {'y' * 90}\nlast\n")
    assert len(text) < 1100


def test_a_log_is_cut_at_the_end_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LONGEST_LOG_BYTES", 1000)
    monkeypatch.setattr(folders, "_LOG_START_BYTES", 100)
    monkeypatch.setattr(folders, "_LOG_END_BYTES", 300)
    with open_log(tmp_path) as log:
        log.write("x" * 5000)
        log.flush()
    assert Path(log.name).stat().st_size < 600


FLOOD = "import sys\nwhile True: sys.stdout.write(('x' * 1000 + chr(10)) * 100)"


def test_a_flood_does_not_fill_the_disk_whatever_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LONGEST_LOG_BYTES", 10_000_000)
    monkeypatch.setattr(folders, "_LOG_START_BYTES", 1_000_000)
    monkeypatch.setattr(folders, "_LOG_END_BYTES", 2_000_000)
    sizes = []
    with open_log(tmp_path) as log:
        written = Path(log.name)
        with subprocess.Popen([sys.executable, "-IS", "-c", FLOOD], stdout=log) as rank:
            for _ in range(100):
                time.sleep(0.02)
                sizes.append(written.stat().st_size)
            rank.kill()
        total = rank.wait()
    assert total == -9
    assert max(sizes) > 10_000_000  # what is written in the tenth of a second between two looks
    assert sum(after < before for before, after in pairwise(sizes)) >= 3
    assert written.stat().st_size <= 10_000_000
    assert b"[zeroconf: output was left out here" in written.read_bytes()


ENDLESS = """
import resource
from pathlib import Path
from zeroconf.smoke.folders import LOG_TAIL_BYTES, tail

resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
assert len(tail(Path("/dev/zero"))) == LOG_TAIL_BYTES
"""


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a file that has no end")
def test_the_end_of_a_log_that_grows_faster_than_it_is_read_is_bounded():
    subprocess.run([sys.executable, "-c", ENDLESS], check=True)


def test_the_end_of_a_log_is_whole_while_it_is_cut(tmp_path):
    path, said = tmp_path / "log", []
    for _ in range(3):
        path.write_bytes(b"x" * (folders.LONGEST_LOG_BYTES + 1) + b"end")
        cutting = threading.Thread(target=cut, args=(path,))
        cutting.start()
        while cutting.is_alive():
            said.append(tail(path)[-3:])
        cutting.join()
        assert path.stat().st_size < folders.LONGEST_LOG_BYTES
    assert set(said) == {"end"}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("writes", [open_log, scratch_folder])
def test_a_cache_that_cannot_be_written_is_said_with_a_cure(tmp_path, monkeypatch, number, writes):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "x")

    # the folder is there already, as in a cache that was mounted read-only later
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    error = f"cache folder {tmp_path.parent} cannot be used .* set ZEROCONF_CACHE to another"
    with pytest.raises(SmokeTestError, match=error), writes(tmp_path):
        pass


def test_a_full_disk_is_still_said_to_be_full(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SmokeTestError, match="no space is left"), told_when_full(tmp_path), open_log(tmp_path):
        pass


def test_without_a_temporary_folder_the_cure_is_named(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(SmokeTestError, match="set TMPDIR"), scratch_folder(None):
        pass


def test_a_user_without_a_home_is_told_of_the_variable(monkeypatch):
    def nowhere() -> Path:
        msg = "Could not determine home directory."
        raise RuntimeError(msg)

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.delenv("ZEROCONF_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(SmokeTestError, match=r"no home folder.* set ZEROCONF_CACHE"):
        cache_directory()


def test_a_log_that_was_removed_is_not_made_again(tmp_path):
    cut(tmp_path / "log")
    assert not (tmp_path / "log").exists()
