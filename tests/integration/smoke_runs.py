"""What tests of failing runs share: a small model, and what is left of a run."""

from __future__ import annotations

import os
import time
from pathlib import Path

TINY = {
    "architecture": "llama",
    "kind": "decoder",
    "num_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 512,
    "tied_embeddings": False,
    "max_sequence_length": 64,
}


def processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that name the folder: guard, launcher and ranks all do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in command and int(path.parent.name) != os.getpid():
            found.append(command)
    return found


def assert_clean(folder: Path, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while (processes_of(folder) or list(folder.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []
