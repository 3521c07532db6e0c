"""``--fix`` and ``--diff``: what is written, what is left alone, and what is told."""

from __future__ import annotations

import os
import stat

import pytest
from lint_texts import NEW, OLD, refuses_small_batches, renames


@pytest.fixture
def old_name(make_rule):
    return make_rule(renames)


@pytest.mark.usefixtures("old_name")
def test_the_file_is_rewritten(write, zeroconf):
    folder = write(**{"a.json": OLD, "b.json": NEW})
    before = (folder / "b.json").stat().st_mtime_ns
    code, out, _ = zeroconf("lint", "--fix", "a.json", "b.json")
    assert (code, out) == (0, "Fixed 1. No problems in 2 files.\n  a.json: ZC901 rename it\n")
    assert (folder / "a.json").read_text() == NEW
    assert (folder / "b.json").stat().st_mtime_ns == before
    assert {path.name for path in folder.iterdir()} == {"a.json", "b.json"}


@pytest.mark.usefixtures("old_name")
def test_marks_line_ends_permissions_and_links_stay(write, zeroconf):
    text = "\ufeff" + OLD.replace(", ", ",\r\n ").replace("\n", "\r\n").replace("\r\r", "\r")
    folder = write(**{"real/a.json": text})
    (folder / "real/a.json").chmod(0o640)
    (folder / "link.json").symlink_to("real/a.json")
    assert zeroconf("lint", "--fix", "link.json")[0] == 0
    assert (folder / "real/a.json").read_bytes().decode() == text.replace("train_batch", "train_batch_size")
    assert stat.S_IMODE((folder / "real/a.json").stat().st_mode) == 0o640
    assert (folder / "link.json").is_symlink()


@pytest.mark.usefixtures("old_name")
def test_without_fix_the_way_to_it_is_named(write, zeroconf):
    write(**{"a.json": OLD})
    code, out, _ = zeroconf("lint", "a.json")
    assert code == 1
    assert "= fix: rename it\n" in out
    assert "1 fixable with --fix.\n" in out


@pytest.mark.usefixtures("old_name")
def test_diff_writes_nothing(write, zeroconf):
    folder = write(**{"a.json": OLD.rstrip("\n")})
    code, out, err = zeroconf("lint", "--diff", "--fix", "a.json")
    assert code == 1  # the file is as it was
    no_end = "\\ No newline at end of file\n"
    assert out == f"--- a.json\n+++ a.json\n@@ -1 +1 @@\n-{OLD}{no_end}+{NEW}{no_end}"
    assert "Would fix 1." in err
    assert (folder / "a.json").read_text() == OLD.rstrip("\n")


def test_a_fix_left_out_is_named_and_not_counted(write, zeroconf, make_rule):
    make_rule(renames)
    make_rule(refuses_small_batches, code="ZC903")
    folder = write(**{"a.json": OLD})
    code, out, _ = zeroconf("lint", "--fix", "a.json")
    assert code == 1
    assert "= fix: rename it (left out)\n" in out
    assert "\nLeft out at a.json:1:2: rename it would bring an error: ZC903 too small.\n" in out
    assert "fixable" not in out
    assert (folder / "a.json").read_text() == OLD
    code, out, err = zeroconf("lint", "--diff", "a.json")
    assert (code, out) == (1, "")
    found, summary, left_out = err.splitlines()[:3]
    assert found.startswith("a.json:1:2: ZC901 error ")
    assert (summary, left_out[:42]) == ("Found 1 error in 1 file.", "Left out at a.json:1:2: rename it would br")


@pytest.mark.usefixtures("old_name")
def test_a_read_only_file_is_left_alone(write, zeroconf):
    folder = write(**{"a.json": OLD})
    (folder / "a.json").chmod(0o444)
    code, out, err = zeroconf("lint", "--fix", "a.json")
    assert (code, err) == (2, "error: 'a.json' is read-only; make it writable first (chmod u+w)\n")
    assert "ZC901" in out
    assert (folder / "a.json").read_text() == OLD
    assert stat.S_IMODE((folder / "a.json").stat().st_mode) == 0o444


@pytest.mark.usefixtures("old_name")
def test_a_file_with_several_names_keeps_them(write, zeroconf):
    text = OLD.replace("\n", " " * 40 + "\n")
    folder = write(**{"a.json": text})
    (folder / "b").hardlink_to(folder / "a.json")
    (folder / "a.json").chmod(0o640)
    before = (folder / "a.json").stat()
    assert zeroconf("lint", "--fix", "a.json")[0] == 0
    after = (folder / "b").stat()
    assert (
        (folder / "b").read_text() == (folder / "a.json").read_text() == text.replace("train_batch", "train_batch_size")
    )
    assert (after.st_ino, after.st_mode, after.st_nlink) == (before.st_ino, before.st_mode, 2)
    assert {path.name for path in folder.iterdir()} == {"a.json", "b"}


@pytest.mark.usefixtures("old_name")
def test_standard_input_is_fixed_to_standard_output(write, zeroconf):
    write()
    code, out, err = zeroconf("lint", "--fix", "-", stdin=OLD)
    assert (code, out) == (0, NEW)
    assert "Fixed 1" in err
    assert zeroconf("lint", "--fix", "-", stdin=NEW)[:2] == (0, NEW)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.usefixtures("old_name")
def test_a_file_that_cannot_be_written_is_reported(write, zeroconf):
    folder = write(**{"a.json": OLD})
    folder.chmod(0o500)
    code, out, err = zeroconf("lint", "--fix", "a.json")
    folder.chmod(0o700)
    assert code == 2
    assert "cannot write 'a.json'" in err
    assert "ZC901" in out


@pytest.mark.usefixtures("old_name")
def test_a_pipe_is_not_rewritten(write, zeroconf):
    write()
    reader, writer = os.pipe()
    os.write(writer, OLD.encode())
    os.close(writer)
    code, out, err = zeroconf("lint", "--fix", f"/dev/fd/{reader}")
    os.close(reader)
    assert code == 2
    assert "not a regular file" in err
    assert "ZC901" in out


@pytest.mark.usefixtures("old_name")
def test_a_file_that_is_no_utf8_is_not_rewritten(write, zeroconf):
    content = OLD.encode("utf-16")
    folder = write(**{"a.json": content})
    zeroconf("lint", "--fix", "a.json")
    assert (folder / "a.json").read_bytes() == content
