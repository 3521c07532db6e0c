"""ZC020 to ZC022: hostfiles that DeepSpeed's launcher refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Edit, Fix, remove_member
from zeroconf.document.holders import repeated_members
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document


@rule("ZC020", "hostfile-bad-entry", severity="error")
def hostfile_bad_entry(hostfile: Document) -> Iterator[Problem]:
    """A line is no entry of a hostfile.

    Every line that is not empty and no comment must start with `host slots=N` (deepspeed/launcher/runner.py,
    _parse_hostfile: "Hostfile contains a bad entry, unable to proceed with launching").

    Example:
        ```hostfile
        node-1 slots=8
        node-2 slot=8
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        node-2 slots=8
        ```
    """
    for mark in hostfile.marks:
        if mark.what == "bad-entry":
            fix = Fix(f"Write {mark.detail}", (Edit(mark.start, mark.end, mark.detail),)) if mark.detail else None
            cure = f"write '{mark.detail}'" if mark.detail else "an entry is a host and its GPUs, like 'node-1 slots=8'"
            yield Problem(f"no entry for DeepSpeed's launcher: {cure}", span=(mark.start, mark.end), fix=fix)


@rule("ZC021", "hostfile-host-twice", severity="error")
def hostfile_host_twice(hostfile: Document) -> Iterator[Problem]:
    """A host has two entries.

    The launcher refuses the file: "Hostfile contains multiple entries" (deepspeed/launcher/runner.py,
    _parse_hostfile).

    Example:
        ```hostfile
        node-1 slots=8
        node-1 slots=8
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        node-2 slots=8
        ```
    """
    for mark, root, before, again in repeated_members(hostfile):
        line, _ = hostfile.position(before.start)
        fix = Fix("Remove the second entry", remove_member(hostfile, root, again), safe=False)
        message = f"{mark.detail} has an entry on line {line} too: give each host one, with all of its GPUs"
        yield Problem(message, mark.path, span=(mark.start, mark.end), fix=fix)


@rule("ZC022", "hostfile-without-entries", severity="error")
def hostfile_without_entries(hostfile: Document) -> Iterator[Problem]:
    """The hostfile has no entry.

    The launcher refuses it: "Hostfile is empty or not formatted correctly" (deepspeed/launcher/runner.py,
    _parse_hostfile). Without a hostfile it uses this machine's GPUs.

    Example:
        ```hostfile
        # node-1 slots=8
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        ```
    """
    kinds = {mark.what for mark in hostfile.marks}
    if "empty" in kinds and "bad-entry" not in kinds:
        yield Problem("no entry like 'node-1 slots=8': DeepSpeed's launcher refuses the file", span=(0, 0))
