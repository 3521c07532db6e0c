"""ZC293 to ZC297: hostfiles that DeepSpeed's launcher takes, with hosts that do not train."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, remove, rename
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document

_PLACEHOLDER = re.compile(
    r"[<{$].*|.*\b(your|todo|placeholder|change_?me)\b.*|.*your_.*|x+(\.x+)+|(node_?|host_?|machine_?)?ip[_-]?\d*|hostname[_-]?\d*",
    re.IGNORECASE,
)
_PUNCTUATION = ",;:"
_CUT = re.compile(r"[.\w]+")
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


@rule("ZC293", "host-with-punctuation", severity="error")
def host_with_punctuation(hostfile: Document) -> Iterator[Problem]:
    """A comma or colon behind a host is part of its name.

    The launcher takes everything before the blank for the host (deepspeed/launcher/runner.py, _parse_hostfile), and no
    host of that name is there to log in to: "not reachable via ssh".

    Example:
        ```hostfile
        node-1, slots=8
        node-2 slots=8
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        node-2 slots=8
        ```
    """
    for member in hostfile.root.members if hostfile.root else []:
        name = member.key.rstrip(_PUNCTUATION)
        if name and name != member.key and not member.key.endswith("::"):
            is_free = hostfile.root is not None and hostfile.root.member(name) is None
            fix = Fix(f"Write {name}", rename(hostfile, (member.key,), name)) if is_free else None
            message = f"the launcher takes '{member.key}' for the host, with its '{member.key[-1]}': write {name}"
            yield Problem(message, (member.key,), on_key=True, fix=fix)


@rule("ZC294", "slots-cut-short", severity="warning")
def slots_cut_short(hostfile: Document) -> Iterator[Problem]:
    """Of the slots only the first digits are read.

    The launcher looks for digits behind slots= and passes over what follows them (deepspeed/launcher/runner.py,
    _parse_hostfile): 8.5 is 8 GPUs, and 1e1 is one.

    Example:
        ```hostfile
        node-1 slots=8.5
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        ```
    """
    for member in hostfile.root.members if hostfile.root else []:
        if cut := _CUT.match(hostfile.text, member.node.end):
            read = hostfile.text[member.node.start : member.node.end]
            yield Problem(f"slots={read}{cut.group()} is read as {read}: write a whole number of GPUs", (member.key,))


@rule("ZC295", "host-without-slots", severity="warning")
def host_without_slots(hostfile: Document) -> Iterator[Problem]:
    """slots=0 keeps a host in the list but starts nothing on it.

    The launcher gives it an empty list of GPUs (deepspeed/launcher/runner.py, parse_inclusion_exclusion) and still
    logs in there. The first host is the master's address (launcher/runner.py, main): with no process of rank 0 on
    it, the others wait for good, an error.

    Example:
        ```hostfile
        node-1 slots=8
        node-2 slots=0
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        node-2 slots=8
        ```
    """
    members = hostfile.root.members if hostfile.root else []
    for index, member in enumerate(members):
        if member.node.value != 0:
            continue
        path = (member.key,)
        fix = Fix("Remove the host", remove(hostfile, path), safe=False) if len(members) > 1 else None
        if index == 0:
            message = f"{member.key} is the master's address but starts nothing: rank 0 would run on another host"
            yield Problem(message, path, fix=fix, severity="error")
        else:
            yield Problem(f"{member.key} has no slots: nothing starts there", path, fix=fix)


@rule("ZC296", "this-machine-among-hosts", severity="info")
def this_machine_among_hosts(hostfile: Document) -> Iterator[Problem]:
    """The name localhost beside other hosts means whichever machine runs the launcher.

    It works from that machine alone; from another one the same file trains elsewhere. A host's own name says which
    is meant, and lets the others reach it as the master (deepspeed/launcher/runner.py, main).

    Example:
        ```hostfile
        localhost slots=8
        node-2 slots=8
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        node-2 slots=8
        ```
    """
    members = hostfile.root.members if hostfile.root else []
    if len(members) > 1:
        for member in members:
            if member.key.lower() in _THIS_MACHINE:
                message = f"{member.key} is whichever machine starts the launcher: name the host"
                yield Problem(message, (member.key,), on_key=True)


@rule("ZC297", "placeholder-host", severity="info")
def placeholder_host(hostfile: Document) -> Iterator[Problem]:
    """A host has the name of a template's placeholder.

    The launcher takes any word for a host and fails only as it logs in: "not reachable via ssh"
    (deepspeed/launcher/runner.py, main).

    Example:
        ```hostfile
        your_ip_0 slots=8
        your_ip_1 slots=8
        ```

    Use instead:
        ```hostfile
        node-1 slots=8
        node-2 slots=8
        ```
    """
    for member in hostfile.root.members if hostfile.root else []:
        if _PLACEHOLDER.fullmatch(member.key):
            yield Problem(f"'{member.key}' looks like a placeholder: fill in the host", (member.key,), on_key=True)
