"""What every command has in common: help with examples, --quiet and --verbose, colours, and a fault in one sentence."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from terminal import on_a_terminal

from zeroconf import api
from zeroconf.cli import cli

LLAMA = ("--model", "llama-3.1-8b", "--hardware", "8xA100-80GB")
ENTRY = [sys.executable, "-m", "zeroconf"]
CONFIG = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}
WRONG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads a closed pseudo-terminal to its end")
OPTIONS = [
    pytest.param(option, id=f"{name} {option.opts[-1]}")
    for name, command in cli.commands.items()
    for option in command.params
    if isinstance(option, click.Option)
]


@pytest.fixture
def files(run):
    """In the folder of ``run``."""
    Path("ds_config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    Path("wrong.json").write_text(json.dumps(WRONG), encoding="utf-8")
    return run


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_says_what_it_is_in_a_sentence(option):
    assert not option.help[0].islower(), option.help
    assert option.help.endswith("."), option.help
    assert not option.show_default, "the default stands in brackets at the end of the help"
    if not option.is_flag and not isinstance(option.type, click.Choice):
        assert option.metavar


def test_what_several_commands_have_looks_alike_in_all():
    shapes = {}
    for name, command in cli.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and option.metavar:
                shapes.setdefault(option.opts[-1], {}).setdefault(option.metavar, []).append(name)
    assert {option: found for option, found in shapes.items() if len(found) > 1} == {}


def examples():
    """The words behind ``zeroconf`` of each line in a help."""
    for command in (cli, *cli.commands.values()):
        for line in re.findall(r"^ *(?:srun )?zeroconf (.*)$", command.help, re.MULTILINE):
            yield tuple(shlex.split(re.split(r"\s{2,}| > ", line)[0]))


EXAMPLES = list(dict.fromkeys(examples()))
# without a GPU and without torch; a report takes seconds, and is made in its own tests
RUNNABLE = [words for words in EXAMPLES if words[0] not in {"smoke-test", "report"} and "--python" not in words]


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("generate", ["Model and hardware", "Workload", "Reader", "Options"]),
        ("lint", ["Options", "Model and hardware", "Workload"]),
        ("rule", ["Options"]),
    ],
)
def test_shared_options_stand_under_their_title(run, name, titles):
    shown = run(name, "--help")[1]
    assert re.findall(r"^(\S.*):$", shown, re.MULTILINE) == titles
    for option in (option for param in cli.commands[name].params for option in param.opts if option.startswith("--")):
        assert len(re.findall(rf"^  (?:-\w, )?{option}\b(?!-)", shown, re.MULTILINE)) == 1, option


@pytest.mark.parametrize("name", cli.commands)
def test_no_help_shows_a_bound_that_is_none(run, name):
    assert "None" not in run(name, "--help")[1]


@pytest.mark.parametrize("name", cli.commands)
def test_every_command_shows_an_example_of_itself(name):
    assert f"zeroconf {name}" in cli.commands[name].help


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_the_examples_in_the_help_are_understood(words):
    cli.commands[words[0]].make_context(words[0], list(words[1:]))  # a usage error names the option


@pytest.mark.parametrize("words", RUNNABLE, ids=" ".join)
def test_the_examples_in_the_help_run(files, words):
    Path("configs").mkdir()
    if words[0] in {"generate", "detect"}:
        Path("cluster.yaml").write_text("gpu: A100-80GB\ngpus_per_node: 8\n", encoding="utf-8")
        words += () if words[-1] == "H100-80GB" else ("--force",)
    code, out, err = files(*words)
    assert code == int(words[0] == "lint" and words[1] == "."), err  # the folder with wrong.json
    assert out


def test_help_is_also_a_word(run):
    assert run("help") == run() == run("--help")
    assert run("help", "lint")[1] == run("lint", "--help")[1]


@pytest.mark.parametrize(
    ("words", "meant"), [(("lnt", "a.json"), "'lint'"), (("lint", "--fxi", "a.json"), "'--fix'"), (("-X",), "-X")]
)
def test_what_is_mistyped_is_named_with_what_may_be_meant(run, words, meant):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert meant in err
    assert re.fullmatch(r"error: No such .* [Ss]ee zeroconf( lint)? --help\n", err)


def test_a_sequence_length_with_a_unit_is_told_the_number(run):
    for command in ("generate", "smoke-test"):
        code, _, err = run(command, "--seq-len", "4k")
        assert code == 2
        assert "'4k' is not a valid integer; write 4096" in err


# --- quiet and verbose ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", cli.commands)
def test_quiet_and_verbose_stand_before_or_behind_the_command(run, name):
    arguments = ["rule"] if name == "rule" else [name, "--help"]
    assert run("-q", *arguments)[0] == run(*arguments, "-v")[0] == 0
    for both in (("-q", *arguments[:1], "-v"), (*arguments[:1], "-qv")):
        code, out, err = run(*both)
        assert (code, out) == (2, "")
        assert err == "error: --quiet and --verbose contradict each other; leave out one of the two\n"


def test_quiet_is_the_answer_alone(files):
    assert files("generate", *LLAMA, "-q", "-o", "new.json") == (0, "", "")
    assert json.loads(Path("new.json").read_text(encoding="utf-8"))["zero_optimization"]["stage"] == 2
    assert "chosen" in files("generate", *LLAMA, "-q", "--dry-run")[1]
    code, out, err = files("generate", "--model", "70B", "--hardware", "1xT4", "-q")
    assert (code, err.count("\n")) == (3, 1)
    assert out.startswith("with ")  # the cures
    assert files("lint", "-q", "ds_config.json") == (0, "", "")
    code, out, _ = files("lint", "-q", "wrong.json")
    assert code == 1
    assert "ZC240" in out
    assert "Found" not in out
    assert "Rules not checked" not in out
    assert files("lint", "-q", "wrong.json", "--diff")[2] == ""
    assert files("detect", "-q", "-o", "found.yaml") == (0, "", "")
    assert Path("found.yaml").exists()


def test_quiet_leaves_out_notes_and_reasons(files):
    Path("one.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for command in (("generate", *LLAMA, "--dry-run"), ("estimate", *LLAMA), ("estimate", *LLAMA, "one.json")):
        (_, every, _), (_, answer, _) = files(*command), files(*command, "-q")
        assert answer.strip() in every
        for heading in ("Notes", "Why", "Textbook", "Launch", "Workload"):
            assert heading not in answer
    every, answer = (files("generate", *LLAMA[:3], "A100-80GB", *words)[1] for words in ((), ("-q",)))
    assert answer.strip() in every
    assert "zeroconf generate" not in answer


def test_where_no_number_of_gpus_is_enough_the_command_asks_what_would_help(files):
    asked = ("generate", "--model", "405B", "--hardware", "T4", "--zero-stage", "0")
    code, answer, err = files(*asked)
    assert (code, err.count("\n")) == (3, 1)
    assert "no number of T4-16GB is enough for 405B" in err
    assert "No number is enough at any stage; what would help, for one node:\n" in answer
    assert answer.endswith("  zeroconf generate --model 405B --hardware 8xT4-16GB --zero-stage 0\n")
    code, document, same = files(*asked, "--json")
    assert (code, same) == (3, err)
    assert [stage["num_gpus"] for stage in json.loads(document)["stages"]] == [None]


def test_verbose_says_on_stderr_where_the_facts_come_from_and_how_long_it_took(files):
    Path("zeroconf.toml").write_text('hardware = "2x8xA100-80GB"\nnetwork = "ib-ndr"\n', encoding="utf-8")
    for command in ("generate", "estimate"):
        code, out, err = files(command, "--model", "7B", "--json", "-v")
        assert code == 0
        json.loads(out)
        assert f"project file {Path('zeroconf.toml').absolute()}: hardware, network\n" in err
        for line in ("model 7B: a bare size", "GPU A100-SXM4-80GB: ", "link ib-ndr: "):
            assert f"\n{line}" in err
        assert re.search(r"\nreleases: DeepSpeed \d+\.\d+\.\d+, Accelerate .* \(the newest .*\)\n", err)
        assert re.search(r"\n\d+\.\d\d s in all\n$", err)
    code, out, err = files("lint", "-v", "ds_config.json")
    assert "project file " in err
    assert out == files("lint", "ds_config.json")[1]


@pytest.mark.parametrize("loud", [(), ("-v",)])
def test_a_fault_is_one_sentence_and_shows_its_traceback_only_when_asked(files, monkeypatch, loud):
    def faulty(*_arguments, **_options):
        return {}["some\nkey"]

    monkeypatch.setattr(api, "load_facts", faulty)
    with pytest.raises(AssertionError, match="a fault in zeroconf") as failed:
        files("estimate", *LLAMA, *loud)
    err = str(failed.value)
    assert ("Traceback" in err) == bool(loud)
    assert "KeyError: 'some\\nkey' (test_cli_output.py:" in err
    assert ("run it again with -v, and report what it prints" in err) != bool(loud)


# --- colours -------------------------------------------------------------------------------------


@on_linux
@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False),
     ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False)],
)  # fmt: skip
@pytest.mark.usefixtures("files")
def test_colours_on_a_terminal(environment, coloured):
    environment = {**os.environ, "TERM": "xterm", **environment}
    assert ("\x1b[" in on_a_terminal([*ENTRY, "lint", "wrong.json"], env=environment)) == coloured
    assert ("\x1b[" in on_a_terminal([*ENTRY, "estimate", "--model", "nobody"], env=environment)) == coloured


@on_linux
@pytest.mark.usefixtures("files")
def test_each_stream_is_looked_at_by_itself():
    """The sentence of an error goes to stderr, what lint finds to stdout."""
    environment = {**os.environ, "TERM": "xterm"}
    command = [*ENTRY, "lint", "wrong.json", "missing.json"]
    assert "\x1b[" in on_a_terminal(command, streams=["stderr"], env=environment)
    assert "\x1b[" in on_a_terminal(command, streams=["stdout"], env=environment)
    assert "\x1b[" not in on_a_terminal([*ENTRY, "lint", "--format", "json", "wrong.json"], env=environment)


def test_forced_colours_go_into_a_pipe(files, monkeypatch):
    assert "\x1b[" not in files("lint", "wrong.json")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in files("lint", "wrong.json")[1]
    monkeypatch.setenv("FORCE_COLOR", "0")
    assert "\x1b[" not in files("lint", "wrong.json")[1]
    json.loads(files("lint", "--format", "json", "wrong.json")[1])
