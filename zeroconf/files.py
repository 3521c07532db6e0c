"""Writing several files as one act: all of them whole, or none."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_STDOUT = 1
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # as many as Linux follows
_CURES = {
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOSPC: "free some space, or choose another disk",
    errno.EDQUOT: "free some space, or choose another disk",
}


def write_files(files: Mapping[str, str], *, force: bool) -> None:
    """Writes each text (UTF-8) to its path; on any failure or Ctrl-C everything is as it was before.

    Without ``force`` nothing that exists is touched, not even in a race with another program. With it a file
    keeps its permissions and its other names, and a link keeps pointing at the file that is rewritten.

    Raises:
        InputError: a file exists or is read-only, its folder is missing or not writable, or the disk is full.
    """
    targets = {path: _checked(path, force=force) for path in files}
    if len({_file_at(target) for target in targets.values()}) < len(targets):
        msg = f"the outputs {', '.join(map(repr, files))} name one file twice; give each its own path"
        raise InputError(msg)
    with ExitStack() as finally_, ExitStack() as on_failure:
        staged = {path: _stage(path, targets[path], text, finally_) for path, text in files.items()}
        for path, temporary in staged.items():
            with _reported(path):
                _publish(temporary, targets[path], finally_, on_failure, force=force)
        on_failure.pop_all()


def check_outputs(paths: Iterable[str], *, force: bool) -> None:
    """Before work that takes long: whether ``write_files`` could write there.

    Raises:
        InputError: as there.
    """
    for path in paths:
        _checked(path, force=force)


def output_name(path: str, *, stdout: str) -> str:
    """The path as it was given, or ``stdout`` for one that means standard output, like /dev/stdout.

    Raises:
        InputError: it holds bytes that are no text in this locale.
    """
    try:
        path.encode()
    except UnicodeEncodeError as error:
        name = "".join(c if c.isprintable() else "?" for c in path)
        encoding = sys.getfilesystemencoding()
        msg = f"the name '{name}' is not valid in this locale ({encoding}); rename it, or set LC_ALL=C.UTF-8"
        raise InputError(msg) from error
    return stdout if open_descriptor(path) == _STDOUT else path


def open_descriptor(path: str) -> int | None:
    """The open descriptor that a path like /dev/stdout or /proc/self/fd/1 stands for, links followed."""
    if "\0" in path:
        return None
    folders = {"/dev/fd", os.path.realpath("/dev/fd"), os.path.realpath("/proc/self/fd")}
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        if os.path.realpath(folder) in folders and name.isdecimal():
            return int(name)
        if not os.path.islink(path):  # noqa: PTH114  (Path.is_symlink raises for names that are too long)
            break
        path = os.path.join(folder, os.readlink(path))  # noqa: PTH115, PTH118  (as above)
    return None


def _checked(path: str, *, force: bool) -> Path:
    """The file to write, links followed; refused when it cannot be or must not be written."""
    with _reported(path):
        if not path:
            msg = "the name of an output is empty; give it a file"
            raise InputError(msg)
        target = Path(os.path.realpath(path)) if force else Path(path)
        if os.path.basename(path) in {"", ".", ".."} or target.is_dir():  # noqa: PTH119  (Path drops a last slash)
            msg = f"'{path}' is a folder; name a file in it"
            raise InputError(msg)
        if open_descriptor(path) is not None or (target.exists() and not target.is_file()):
            msg = f"'{path}' is not a regular file; write to another path, or to - for standard output"
            raise InputError(msg)
        if os.path.lexists(target) and not force:
            raise FileExistsError
        target = Path(os.path.realpath(target))
        if target.exists() and _is_read_only(target):
            msg = f"'{path}' is read-only; make it writable first (chmod u+w)"
            raise InputError(msg)
        if not target.parent.is_dir():
            msg = f"cannot write '{path}': there is no folder '{target.parent}'; create it first"
            raise InputError(msg)
    return target


def _file_at(target: Path) -> object:
    """What two names of one file have in common; the path itself for a file that is yet to be made."""
    return (target.stat().st_dev, target.stat().st_ino) if target.exists() else target


def _is_read_only(target: Path) -> bool:
    """Whether nobody, or not this user, may write the file: root may, whatever its mode says."""
    return not target.stat().st_mode & _ANY_WRITE or not os.access(target, os.W_OK)


def _stage(path: str, target: Path, text: str, finally_: ExitStack) -> Path:
    """A complete, synced copy beside the target, gone when ``finally_`` closes."""
    with _reported(path):
        temporary = _name_beside(target, finally_)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            old = target.stat()
            with contextlib.suppress(PermissionError):
                os.chown(temporary, old.st_uid, old.st_gid)
            temporary.chmod(stat.S_IMODE(old.st_mode))
    return temporary


def _publish(temporary: Path, target: Path, finally_: ExitStack, on_failure: ExitStack, *, force: bool) -> None:
    """Puts the staged file in place; what undoes it is registered before it is done."""
    if force and target.exists() and target.stat().st_nlink > 1:
        # a new file would take the name from the others; filling the old one can end halfway, so its text is kept
        on_failure.callback(_fill, target, target.read_bytes())
        _fill(target, temporary.read_bytes())
        return
    if force and target.exists():
        backup = _name_beside(target, finally_)
        with contextlib.suppress(OSError):  # a file system without hard links has no way back
            backup.hardlink_to(target)
            on_failure.callback(backup.replace, target)
        temporary.replace(target)
        return
    on_failure.callback(_withdraw, target, temporary.stat().st_ino)
    if force:
        temporary.replace(target)
        return
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # no hard links here: claim the name, then fill it
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as claim:
            on_failure.callback(_withdraw, target, os.fstat(claim.fileno()).st_ino)
        temporary.replace(target)


def _fill(target: Path, content: bytes) -> None:
    """Makes the content that of the very file."""
    with target.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _withdraw(target: Path, inode: int) -> None:
    """Removes the target if it is the file that was staged as ``inode``."""
    with contextlib.suppress(OSError):
        if target.lstat().st_ino == inode:
            target.unlink()


def _name_beside(target: Path, finally_: ExitStack) -> Path:
    """An unused name in the target's folder, removed when ``finally_`` closes."""
    name = target.parent / f".zeroconf-{secrets.token_hex(8)}.tmp"
    finally_.callback(name.unlink, missing_ok=True)
    return name


@contextlib.contextmanager
def _reported(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        msg = f"'{path}' exists; --force overwrites it"
        raise InputError(msg) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        cure = _CURES.get(getattr(error, "errno", None) or 0, "choose a folder that you can write to")
        msg = f"cannot write '{path}' ({reason}); {cure}"
        raise InputError(msg) from error
