"""What DeepSpeed, the Trainer and Accelerate really do with a file: one process for any number of files.

Run as a script: ``judge.py FOLDER``. Each line of stdin is a case: ``reader``, ``syntax``, ``text``, perhaps
``beside`` (the JSON that an Accelerate YAML names as DS_CONFIG) and ``engine`` (start the real engine and train one
step too). Each line of stdout is its verdict: ``accepted`` (null: not to be judged here), ``where`` it ended,
``error``, and ``parsed``, what DeepSpeed's parser made of the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # the libraries print to stdout as well

from judge_readers import READERS, Initialize, sizes_of  # noqa: E402  (after the path)
from judge_world import at_world_size  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

WORLDS = (1, 2, 4, 8, 3, 16, 64)
LARGEST_WORLD = 65536
# what only another machine, model or program could tell
NOT_JUDGED = (
    "NotJudgedError",
    "FP8 is not available",
    "Could not find a transformer layer class",
    # the command line may say it
    "You need to manually pass in `--num_processes`",
    "base 10: 'None'",
    "'>' not supported between instances of 'NoneType' and 'int'",
    "//: 'NoneType' and 'int'",
    "a real number, not 'NoneType'",
    # a machine with GPUs, or with several processes
    "Cuda is not available",
    "GDS currently only supported for CUDA",
    "Torch not compiled with CUDA",
    "CROSS_SIZE",
    # another file
    "Expected a string path to an existing deepspeed config",
)


def world_sizes(case: dict[str, Any]) -> Iterator[int]:
    """World sizes that could satisfy the file's batch sizes: the one that they imply first."""
    batch, micro, steps = sizes_of(case["beside"] or case["text"])
    implied = batch // ((micro or 1) * (steps or 1)) if batch else 1
    yield from dict.fromkeys((max(implied, 1), *WORLDS) if micro or steps else WORLDS)


def verdict(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The answer at the first world size that the file is accepted at, else the first refusal."""
    first: dict[str, Any] | None = None
    for world_size in world_sizes(case):
        if world_size > LARGEST_WORLD:
            return {"accepted": None, "where": "file", "error": f"{world_size} ranks", "parsed": None}
        answer = at(world_size, case, folder)
        if answer["accepted"] or answer["accepted"] is None:
            return answer
        first = first or answer
        if not any(words in answer["error"] for words in ("batch", "hf gradient_accumulation", "divisible")):
            break
    assert first
    return first


def at(world_size: int, case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The answer at one world size."""
    at_world_size(world_size)
    path = folder / f"case.{case['syntax']}"
    beside = folder / "ds_config.json"
    text = case["text"].replace("DS_CONFIG", str(beside)).replace('"/nvme', f'"{folder}/nvme')
    path.write_bytes(text.encode())  # a text file would translate line ends
    beside.write_text(json.dumps(case["beside"]) if case["beside"] else "", encoding="utf-8")
    initialize = Initialize(engine=case.get("engine", False))
    environment = dict(os.environ)
    try:
        READERS[case["reader"], case["syntax"]](path, world_size, initialize)
    except Exception as error:  # noqa: BLE001  (any refusal is a verdict)
        said = f"{type(error).__name__}: {error}"
        not_here = any(words in f"{said} {error.__cause__}" for words in NOT_JUDGED)
        return {
            "accepted": None if not_here else False,
            "where": initialize.where,
            "error": said,
            "parsed": initialize.parsed,
        }
    finally:
        os.environ.clear()
        os.environ.update(environment)
    return {"accepted": True, "where": initialize.where, "error": None, "parsed": initialize.parsed}


def main() -> None:
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        case = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            answer = verdict({"beside": None, **case}, folder)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
