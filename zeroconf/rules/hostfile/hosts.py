"""ZC295 to ZC297: hostfiles that DeepSpeed's launcher takes, with hosts that do not train."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, remove
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document

_PLACEHOLDER = re.compile(
    r"[<{$].*|.*\b(your|todo|placeholder|change_?me)\b.*|.*your_.*|x+(\.x+)+|(node_?|host_?|machine_?)?ip[_-]?\d*|hostname[_-]?\d*",
    re.IGNORECASE,
)
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


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
