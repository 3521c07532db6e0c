"""The launch lines of a shell script: launcher, its options, the program, and the program's options.

The document's root is a list of mappings, one for each launch: ``{"launcher": {"--num_gpus": ...}, "program": {...},
"command": "deepspeed", "script": "train.py"}``. Options have underscores and their last value, or null for none.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document.node import Member, Node
from zeroconf.document.shell import Command, Word, inner_commands, read_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

# deepspeed/launcher/runner.py, accelerate/commands/launch.py, torch/distributed/run.py: options without a value
_FLAGS = {
    "--module", "-m", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check", "--force_multi", "--save_pid",
    "--bind_cores_to_rank", "--elastic_training", "--quiet", "-q", "--cpu", "--multi_gpu", "--tpu", "--use_deepspeed",
    "--use_fsdp", "--use_parallelism_config", "--use_megatron_lm", "--same_network", "--enable_cpu_affinity",
    "--dynamo_use_fullgraph", "--dynamo_use_dynamic", "--dynamo_use_regional_compilation", "--debug", "--standalone",
    "--run_path", "--virtual_local_rank", "--use_env", "--downcast_bf16",
}  # fmt: skip
_SHORT = {"-H": "--hostfile", "-i": "--include", "-e": "--exclude"}
_WRAPPERS = {"srun", "nohup", "exec", "env", "sudo", "numactl", "stdbuf", "setsid", "ionice", "nice", "mpirun", "eval"}
_SHELLS = {"bash", "sh"}
# a condition on which of Slurm's tasks it is
_OF_ONE_TASK = re.compile(
    r"(?:\[[^\]\n]{0,200}|\btest\s[^\n;&|]{0,200}|\(\([^)\n]{0,200}|\bcase\s[^\n;]{0,200})\bSLURM_(?:LOCAL|PROC)ID\b"
)
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}


class _Started(NamedTuple):
    """What starts the program: its name, the words behind it, and what stands before it.

    ``wrapping`` are the wrappers' own options. ``condition`` is what chooses among Slurm's tasks, in the command of a
    shell; empty without one.
    """

    command: Word
    launcher: str
    rest: tuple[Word, ...]
    wrappers: tuple[str, ...]
    wrapping: tuple[Word, ...]
    assigned: frozenset[str]
    folder: str | None
    condition: str = ""


def read_launches(text: str) -> Node | None:
    """The launch lines as a list; None where there is none."""
    started = [one for command in read_commands(text) for one in _started(text, command)]
    every = [_launch(one) for one in started]
    launches = [one for one in every if _uses_deepspeed(one)]
    return Node("sequence", launches, launches[0].start, launches[-1].end) if launches else None


def _uses_deepspeed(launch: Node) -> bool:
    """Whether it can be a launch of DeepSpeed: plain python says so itself."""
    command, program = launch.child("command"), launch.child("program")
    names = {member.key for member in program.members} if program else set()
    return command is None or command.value != "python" or bool(names & {"--deepspeed", "--deepspeed_config"})


def _started(text: str, command: Command) -> Iterator[_Started]:
    words, wrappers, wrapping = command.words, list[str](), list[Word]()
    while words:
        name = words[0].text.rpartition("/")[2]
        inner = words[1:] if name == "eval" else _behind(words, "-c") if name in _SHELLS else ()
        if inner and (name != "eval" or inner[0].inside):
            begins = (inner[0].inside or (inner[0].start,))[0]
            # the word behind the text is the inner shell's name
            for found in inner_commands(text, inner[0], inner[2:], command.values):
                for one in _started(text, found):
                    condition = _OF_ONE_TASK.search(text, begins, one.command.start)
                    yield one._replace(
                        wrappers=(*wrappers, *one.wrappers),
                        wrapping=(*wrapping, *one.wrapping),
                        assigned=one.assigned | command.assigned,
                        folder=command.folder if one.folder == "" else None,
                        condition=condition[0] if condition else one.condition,
                    )
            return
        if name in _WRAPPERS:
            wrappers.append(name)
            command = command._replace(assigned=command.assigned - _unset(words) if name == "env" else command.assigned)
            following = _first_launcher(words[1:])
            wrapping += words[1 : len(words) - len(following)]
            words = following
            continue
        launcher, rest = _launcher(name, words)
        if launcher:
            yield _Started(words[0], launcher, rest, tuple(wrappers), tuple(wrapping), command.assigned, command.folder)
        return


def _unset(words: tuple[Word, ...]) -> set[str]:
    """What ``env -u NAME`` takes away."""
    texts = [word.text for word in words]
    return {name for option, name in pairwise(texts) if option in {"-u", "--unset"}}


def _behind(words: tuple[Word, ...], option: str) -> tuple[Word, ...]:
    places = [index for index, word in enumerate(words[:-1]) if word.text == option]
    return words[places[0] + 1 :] if places else ()


def _first_launcher(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """From the first word on that can start something: a wrapper's own options are passed over."""
    for index, word in enumerate(words):
        name = word.text.rpartition("/")[2]
        if name in _WRAPPERS | _SHELLS or _launcher(name, words[index:])[0]:
            return words[index:]
    return ()


def _launcher(name: str, words: tuple[Word, ...]) -> tuple[str, tuple[Word, ...]]:
    """The launcher that the first words are, and what follows; an empty name where they are none."""
    if name in {"deepspeed", "torchrun"}:
        return name, words[1:]
    if name == "accelerate" and len(words) > 1 and words[1].text == "launch":
        return name, words[2:]
    return _by_python(words[1:]) if _PYTHON.fullmatch(name) else ("", ())


def _by_python(rest: tuple[Word, ...]) -> tuple[str, tuple[Word, ...]]:
    while rest and rest[0].text.startswith("-") and rest[0].text != "-m":
        rest = rest[1:]
    if len(rest) > 1 and rest[0].text == "-m":
        module = rest[1].text
        if module in _MODULES:
            return _MODULES[module], rest[2:]
        if module == "accelerate" and len(rest) > 2 and rest[2].text == "launch":
            return "accelerate", rest[3:]
        return "python", rest
    return ("python", rest) if rest and rest[0].text.endswith(".py") else ("", ())


def _launch(started: _Started) -> Node:
    """One launch as a mapping."""
    words, index = started.rest, 0
    own: list[Member] = []
    hidden: list[Word] = []
    while index < len(words) and started.launcher != "python":
        if _may_be_options(words[index]) and index + 1 < len(words):
            hidden.append(words[index])  # options that only the shell knows
            index += 1
            continue
        if not words[index].text.startswith("-"):
            break
        member, taken = _option(words, index, flags=_FLAGS)
        own.append(member)
        index += taken
    is_module = bool(words) and started.launcher == "python" and words[0].text == "-m"
    index += is_module
    start, end = started.command.start, max(word.end for word in (started.command, *words))
    script = [words[index]] if index < len(words) else []
    program = _options(words[index + 1 :])
    parts = {
        "command": _scalar(started.launcher, started.command),
        "launcher": Node("mapping", own, start, end),
        "program": Node("mapping", program, script[0].end if script else end, end),
        "wrappers": _scalar(" ".join(started.wrappers), started.command),
        "wrapping": _scalar(" ".join(word.text for word in started.wrapping), started.command),
        "environment": _scalar(" ".join(sorted(started.assigned)), started.command),
        "folder": _scalar("?" if started.folder is None else started.folder, started.command),
        "condition": _scalar(started.condition, started.command),
        "hidden": _scalar(" ".join(word.text for word in hidden), started.command),
    }
    if script:
        parts["script"] = _scalar(script[0].text, script[0])
    command = started.command
    return Node("mapping", [Member(key, command.start, command.end, node) for key, node in parts.items()], start, end)


def _may_be_options(word: Word) -> bool:
    return not word.is_known and word.text.startswith("$") and not word.text.endswith(".py")


def _options(words: tuple[Word, ...]) -> list[Member]:
    found, index = list[Member](), 0
    while index < len(words):
        if words[index].text.startswith("-") and len(words[index].text) > 1 and not _is_number(words[index].text):
            member, taken = _option(words, index, flags=set())
            found.append(member)
            index += taken
        else:
            index += 1
    return found


def _option(words: tuple[Word, ...], index: int, *, flags: set[str]) -> tuple[Member, int]:
    """The option here with its value, and how many words it takes."""
    word = words[index]
    written, equals, value = word.text.partition("=")
    name = _SHORT.get(
        written, written.replace("-", "_").replace("__", "--", 1) if written.startswith("--") else written
    )
    if equals:
        node = Node("scalar", value if word.is_known else None, word.start, word.end)
        return Member(name, word.start, word.end, node), 1
    following = words[index + 1] if index + 1 < len(words) else None
    takes_one = name not in flags and following is not None and _is_value(following)
    if not takes_one or following is None:
        return Member(name, word.start, word.end, Node("scalar", True, word.start, word.end)), 1
    node = Node("scalar", following.text if following.is_known else None, following.start, following.end)
    return Member(name, word.start, word.end, node), 2


def _is_value(word: Word) -> bool:
    return not word.text.startswith("-") or _is_number(word.text)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d+)?(e-?\d+)?", text) is not None


def _scalar(text: str, word: Word) -> Node:
    return Node("scalar", text, word.start, word.end)
