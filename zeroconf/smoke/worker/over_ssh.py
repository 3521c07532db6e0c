"""Runs host.py once on each host over ssh, and ends all of them when one fails.

    over_ssh.py PYTHON FOLDER NAME HOST...

Exits with the first code that is not 0. Standard library only.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

HOST = Path(__file__).with_name("host.py")
# nobody is there to type a password, or to say yes to a new host
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5"]
SSH_FAILED = 255  # ssh(1): its own code, where the remote command's is 0 to 254
POLL_SECONDS = 0.1
LONGEST_LINE = 65536  # characters; what is longer comes in parts


class Remote:
    """One ssh, whose last line of stderr is kept."""

    def __init__(self, host: str, command: list[str]) -> None:
        self.host, self.said = host, ""
        self.process = subprocess.Popen(
            [*SSH, "--", host, shlex.join(command)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stderr = self.process.stderr
        while stderr and (line := stderr.readline(LONGEST_LINE)):
            sys.stderr.write(line)
            sys.stderr.flush()
            self.said = line.strip() or self.said

    def end(self) -> None:
        """Ends it, and waits a little for what it still says."""
        if self.process.poll() is None:
            self.process.terminate()
        self._reader.join(1.0)

    def failure(self) -> str:
        """Why ssh itself failed."""
        return f"SSHError: {self.host} was not reached or was lost: {self.said or 'ssh said nothing'}"


def main(arguments: list[str]) -> int:
    """Waits for all hosts, or the first that fails."""
    python, folder, name, *hosts = arguments
    remotes = [Remote(host, [python, "-S", str(HOST), folder, name, str(node)]) for node, host in enumerate(hosts)]
    code, failed = 0, None
    while code == 0 and any(remote.process.poll() is None for remote in remotes):
        time.sleep(POLL_SECONDS)
        for remote in remotes:
            if ended := remote.process.poll():
                code, failed = ended, remote
                break
    for remote in remotes:
        remote.end()
    if failed and code == SSH_FAILED:  # last, so that what the others say does not stand behind it
        print(failed.failure(), file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
