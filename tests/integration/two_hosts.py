"""Two network namespaces as two hosts: each has a name and an address, and only what ssh reaches runs there.

The stand-in of sshd runs in the namespace and starts each command in a session of its own, with a bare environment. As
with sshd, a command outlives the ssh that asked for it: what ends it has to come from elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES, ADDRESSES = ("node-0", "node-1"), ("10.214.0.1", "10.214.0.2")

_SSHD = """
import json, os, socket, subprocess, sys, threading
folder = os.path.dirname(sys.argv[1])
def serve(client):
    command, streams, _, _ = socket.recv_fds(client, 1_000_000, 3)
    with open(os.path.join(folder, "environment.json")) as given:
        environment = json.load(given)
    stdin, stdout, stderr = streams
    process = subprocess.Popen(["/bin/sh", "-c", command.decode()], stdin=stdin, stdout=stdout, stderr=stderr,
                               env=environment, start_new_session=True)
    for stream in streams:
        os.close(stream)
    code = process.wait()
    try:
        client.sendall(str(code if code >= 0 else 128 - code).encode())
    except OSError:
        pass
    client.close()
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(64)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""

_SSH = """#!{python} -IS
import os, socket, sys
words = sys.argv[1:]
while words and words[0].startswith("-"):
    option = words.pop(0)
    if option == "--":
        break
    if option in ("-o", "-p", "-l"):
        words.pop(0)
host, command = words[0], " ".join(words[1:])
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(os.path.join({folder!r}, host))
except OSError:
    print(f"ssh: connect to host {{host}} port 22: Connection refused", file=sys.stderr)
    sys.exit(255)
socket.send_fds(client, [command.encode()], [0, 1, 2])
answer = client.recv(16)
sys.exit(int(answer) if answer else 255)
"""


@dataclass(frozen=True)
class TwoHosts:
    """``folder`` holds the stand-in of ssh; the ``hostfile`` gives one slot to each."""

    folder: Path
    hostfile: Path

    @property
    def temporary(self) -> Path:
        """Where programs on the hosts put their temporary files."""
        return self.folder / "tmp"

    def environment(self, **more: str) -> dict[str, str]:
        """In which ssh is the stand-in."""
        return os.environ | {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"} | more

    def give(self, **variables: str) -> None:
        """What commands on the hosts find in their environment."""
        bare = {"PATH": f"{self.folder}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        bare["TMPDIR"] = str(self.temporary)
        (self.folder / "environment.json").write_text(json.dumps(bare | variables), encoding="utf-8")


def can_make_hosts() -> bool:
    """Whether this machine lets us make network namespaces."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return False
    name = f"zeroconf-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return made


@contextlib.contextmanager
def two_hosts(folder: Path) -> Iterator[TwoHosts]:
    """Both, gone afterwards with all that runs in them."""
    spaces = [f"zeroconf-{os.getpid()}-{side}" for side in range(2)]
    ends = [f"zc{os.getpid()}-{side}" for side in range(2)]
    hosts = TwoHosts(folder, folder / "hosts")
    hosts.hostfile.write_text("".join(f"{name} slots=1\n" for name in NAMES), encoding="utf-8")
    hosts.temporary.mkdir()
    hosts.give()
    names = "".join(f"{address} {name}\n" for address, name in zip(ADDRESSES, NAMES, strict=True))
    (folder / "etc-hosts").write_text(f"127.0.0.1 localhost\n{names}", encoding="utf-8")
    (folder / "sshd.py").write_text(_SSHD, encoding="utf-8")
    (folder / "ssh").write_text(_SSH.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    (folder / "ssh").chmod(0o755)
    with contextlib.ExitStack() as stack:
        for space in spaces:
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "delete", space)
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for space, end, name, address in zip(spaces, ends, NAMES, ADDRESSES, strict=True):
            _ip("link", "set", end, "netns", space)
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", end)
            _ip("-n", space, "link", "set", end, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            become = f"hostname {name} && mount --bind {folder}/etc-hosts /etc/hosts"
            listen = shlex.join([sys.executable, "-IS", str(folder / "sshd.py"), str(folder / name)])
            private = ["unshare", "--uts", "--mount", "sh", "-c", f"{become} && exec {listen}"]
            server = subprocess.Popen(["nsenter", f"--net=/run/netns/{space}", *private])
            stack.callback(server.wait)
            stack.callback(server.kill)
        deadline = time.monotonic() + 10
        while not all((folder / name).exists() for name in NAMES) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield hosts


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
