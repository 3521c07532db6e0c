"""Writing several files as one act: all of them whole, or none."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def write_files(files: Mapping[str, str], *, force: bool) -> None:
    """Writes each text (UTF-8) to its path; on any failure or Ctrl-C everything is as it was before.

    Without ``force`` nothing that exists is touched, not even in a race with another program. With it a file
    keeps its permissions, and a link keeps pointing at the file that is rewritten.

    Raises:
        InputError: a file exists, its folder is missing or not writable, or the disk is full.
    """
    targets = {path: _checked(path, force=force) for path in files}
    if len(set(targets.values())) < len(targets):
        msg = f"the outputs {', '.join(map(repr, files))} name one file twice; give each its own path"
        raise InputError(msg)
    with ExitStack() as finally_, ExitStack() as on_failure:
        staged = {path: _stage(path, targets[path], text, finally_) for path, text in files.items()}
        for path, temporary in staged.items():
            with _reported(path):
                _publish(temporary, targets[path], finally_, on_failure, force=force)
        on_failure.pop_all()


def _checked(path: str, *, force: bool) -> Path:
    """The file to write, links followed; refused when it cannot be or must not be written."""
    with _reported(path):
        target = Path(os.path.realpath(path)) if force else Path(path)
        if target.is_dir():
            msg = f"'{path}' is a folder; name a file in it"
            raise InputError(msg)
        if os.path.lexists(target):
            if not force:
                raise FileExistsError
            if not target.is_file():
                msg = f"'{path}' is not a regular file; write to another path, or to - for the terminal"
                raise InputError(msg)
        target = Path(os.path.realpath(target))
        if not target.parent.is_dir():
            msg = f"cannot write '{path}': there is no folder '{target.parent}'; create it first"
            raise InputError(msg)
    return target


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
        msg = f"cannot write '{path}' ({reason}); choose a folder that you can write to"
        raise InputError(msg) from error
