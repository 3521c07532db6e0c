"""What a shell gets when it asks for completions, as bash asks: through the process that it starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _asked(line, *, program="bash"):
    """The answers to the last word of a line."""
    words = line.split(" ")
    request = {"_ZEROCONF_COMPLETE": f"{program}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "zeroconf"]
    done = subprocess.run(command, env=os.environ | request, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("zeroconf sm", ["plain,smoke-test"]),
        ("zeroconf generate --sched", ["plain,--scheduler"]),
        ("zeroconf generate --model llama-3.1-8", ["plain,llama-3.1-8b"]),
        ("zeroconf smoke-test a.json --model LLAMA-3.1-8", ["plain,llama-3.1-8b"]),
        ("zeroconf generate --hardware 2x8xh100-n", ["plain,2x8xH100-NVL-94GB"]),
        ("zeroconf estimate --hardware 2xp4de", ["plain,2xp4de.24xlarge"]),
        ("zeroconf generate --hardware aut", ["plain,auto"]),
        ("zeroconf generate --hardware 8xaut", ["file,8xaut"]),
        ("zeroconf generate --network ib-ndr2", ["plain,ib-ndr200"]),
        ("zeroconf generate --intra-node nvlink4-h8", ["plain,nvlink4-h800"]),
        ("zeroconf lint --select ZC1,ZC00", [f"plain,ZC1,ZC00{number}" for number in range(1, 10)]),
        ("zeroconf rule ZC401", ["plain,ZC401"]),
        ("zeroconf schema ds", ["plain,ds_config"]),
        ("zeroconf generate --model ./my", ["file,./my"]),
        ("zeroconf lint my", ["file,my"]),
        ("zeroconf generate --base my", ["file,my"]),
        ("zeroconf generate --seq-len 4", [""]),
    ],
)
def test_the_last_word_is_completed(line, answers):
    assert _asked(line) == answers


def test_a_rule_is_shown_with_its_name():
    assert _asked("zeroconf rule ZC401", program="zsh") == ["plain", "ZC401", "stage-too-slow-for-link"]
