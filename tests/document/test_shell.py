"""Shell scripts as words with places, judged by bash itself where it is there; any text gives something."""

from __future__ import annotations

import random
import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.document.launches import read_launches
from zeroconf.document.read import parse_document
from zeroconf.document.shell import read_commands
from zeroconf.document.slurm import read_job

BASH = shutil.which("bash")
PIECES = (
    "a", "-b", "--c-1", "'d e'", '"f g"', "\\ ", " \\\n", "  ", '"h\\"i"', "'j\"'", "#k", "l#", "\\#", "é",
    "$V", '"$V"', "${V}w", " $W ", " ",
)  # fmt: skip


def words(text):
    return [[word.text for word in command.words] for command in read_commands(text)]


def plain(text):
    root = read_launches(text)
    return root.plain() if root else []


@pytest.mark.skipif(BASH is None, reason="no bash")
@pytest.mark.parametrize("seed", range(8))
def test_words_are_those_of_bash(seed):
    pick = random.Random(seed)  # noqa: S311  (repeatable, not secret)
    lines = ["say " + "".join(pick.choices(PIECES, k=pick.randint(1, 12))) for _ in range(40)]
    for line in lines:
        script = f'say() {{ printf "%s\\0" "$@"; }}\nV="one"\nW="two words"\n{line}\n'
        done = subprocess.run([BASH, "-c", script], capture_output=True, check=False)
        if done.returncode or done.stderr:
            continue
        expected = done.stdout.decode().split("\0")[:-1]
        commands = read_commands(f'V="one"\nW="two words"\n{line}\n')
        if all(word.is_known for word in commands[0].words):
            assert ([word.text for word in commands[0].words[1:]] or [""]) == expected, line


def test_quotes_continued_lines_comments_and_redirections():
    text = "deepspeed  \\\n --a 'b c' # no word\n--d > out 2>&1 e; f | g && h &> i\n"
    assert words(text) == [["deepspeed", "--a", "b c"], ["--d", "e"], ["f"], ["g"], ["h"]]


def test_places_are_those_of_the_written_words():
    text = 'N=8\ndeepspeed --num_gpus "$N" \\\n  train.py\n'
    (command,) = read_commands(text)
    assert [text[word.start : word.end] for word in command.words] == ["deepspeed", "--num_gpus", '"$N"', "train.py"]
    assert [word.text for word in command.words] == ["deepspeed", "--num_gpus", "8", "train.py"]


def test_options_in_variables_and_arrays_are_found_where_they_are_written():
    text = 'ARGS="--bf16 True"\nMORE=(\n  --fp16 False\n)\ndeepspeed train.py --deepspeed d.json $ARGS "${MORE[@]}"\n'
    (launch,) = read_launches(text).items
    member = launch.child("program").member("--fp16")
    assert text[member.start : member.end] == "--fp16"
    assert launch.child("program").plain() == {"--deepspeed": "d.json", "--bf16": "True", "--fp16": "False"}


@pytest.mark.parametrize(
    "text",
    [
        "N=8\nN=4\n",  # twice
        'if [ "$1" ]; then N=8; fi\n',  # perhaps
        "for N in 1 2; do :; done\n",
        "N=${1:-8}\n",
        "N=$(nproc)\n",
        "N=`nproc`\n",
        "echo $N; N=8\n",  # the environment's may have been meant
        "N+=8\n",
        "run() { N=8; }\n",
        "",
    ],
)
def test_a_value_that_only_the_shell_knows_is_unknown(text):
    (launch,) = plain(text + "deepspeed --num_gpus $N train.py\n")
    assert launch["launcher"] == {"--num_gpus": None}
    assert launch["script"] == "train.py"


@pytest.mark.parametrize(
    ("line", "command", "launcher", "program"),
    [
        ("deepspeed --num_gpus=8 -H h t.py --x", "deepspeed", {"--num_gpus": "8", "--hostfile": "h"}, {"--x": True}),
        ("A=1 exec /opt/bin/torchrun --nproc-per-node 4 t.py", "torchrun", {"--nproc_per_node": "4"}, {}),
        ("python3 -u -m torch.distributed.run t.py --lr -1e-3", "torchrun", {}, {"--lr": "-1e-3"}),
        ("torchrun --standalone t.py", "torchrun", {"--standalone": True}, {}),
        ("accelerate launch --quiet -m pkg.t --x=y=z", "accelerate", {"--quiet": True, "-m": True}, {"--x": "y=z"}),
        ("python -m accelerate launch t.py", "accelerate", {}, {}),
        ("python t.py --deepspeed d.json", "python", {}, {"--deepspeed": "d.json"}),
        ("srun -N 2 bash -c 'torchrun --nnodes 2 \"$@\"' name t.py --a b", "torchrun", {"--nnodes": "2"}, {"--a": "b"}),
        ("nohup deepspeed $EXTRA t.py --learning-rate 1e-4 > log 2>&1 &", "deepspeed", {}, {"--learning_rate": "1e-4"}),
    ],
)  # fmt: skip
def test_launch_lines(line, command, launcher, program):
    (launch,) = plain(line + "\n")
    assert (launch["command"], launch["launcher"], launch["program"]) == (command, launcher, program)


@pytest.mark.parametrize(
    "text",
    [
        "echo deepspeed t.py",
        "# deepspeed t.py",
        "cat <<X\ndeepspeed t.py\nX",
        "python t.py -x 3",
        "pip install deepspeed",
    ],
)
def test_lines_that_launch_nothing(text):
    assert read_launches(text) is None


def test_a_script_is_told_by_its_content():
    launch = b"deepspeed --num_gpus 8 train.py --deepspeed ds.json\n"
    for name in ("run.sh", "job.sbatch", "run", "<stdin>"):
        assert parse_document(launch, name).kind == "script"
    document = parse_document(b"#!/bin/bash\nls\n", "run.sh")
    assert document.kind == "unknown"
    assert "without a launch line" in document.note
    assert parse_document(b'{"train_batch_size": 8}', "<stdin>").kind == "ds_config"
    assert parse_document(b"node-1 slots=8\n", "hosts").kind == "hostfile"
    assert parse_document(b"command: deepspeed train.py\ndistributed_type: DEEPSPEED\n", "<stdin>").kind == "accelerate"


TOKENS = (
    "deepspeed ", "torchrun ", " ", "\n", "\\\n", "'", '"', "$", "(", ")", "{", "}", "`", "<<E", "E", "=", "A", "$A",
    "${A[@]}", "--x", "#", ";", "&", ">", "2", "|", "bash -c ", "srun ", "python -m ", "if ", "fi", "\r\n", "é", "[",
)  # fmt: skip
SHELL = st.lists(st.sampled_from(TOKENS), max_size=30)
ARRAYS = "".join(f"A{i}=({f'${{A{i - 1}[@]}} ' * 20})\n" for i in range(1, 12))


@settings(deadline=None)
@given(SHELL.map("".join))
def test_any_text_gives_words_inside_it(text):
    for command in read_commands(text):
        for word in command.words:
            assert 0 <= word.start <= word.end <= len(text)
    read_launches(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "$(" * 10_000,
        '"' * 9_999,
        "A=$A\n" * 5_000,
        "deepspeed t.py " + "--a b " * 20_000,
        "A0=("
        + "x " * 20
        + ")\n"
        + "".join(f"A{i}=({f'${{A{i - 1}[@]}} ' * 20})\n" for i in range(1, 12))
        + "deepspeed ${A11[@]}",
    ],
    ids=["brackets", "substitutions", "quotes", "assignments", "long", "arrays-of-arrays"],
)
def test_time_grows_with_the_text_alone(text):
    start = time.perf_counter()
    read_launches(text)
    assert time.perf_counter() - start < 5


SLURM = """#!/bin/bash
#SBATCH --nodes=4                   # number of nodes
#SBATCH --gres=gpu:a100:8
export GPUS_PER_NODE=8
head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="accelerate launch \\
    --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \\
    --num_machines $SLURM_NNODES \\
    --main_process_ip $head_node_ip \\
    "
export ACCELERATE_DIR="${ACCELERATE_DIR:-/accelerate}"
export SCRIPT="${ACCELERATE_DIR}/examples/complete_nlp_example.py"
export SCRIPT_ARGS=" \\
    --mixed_precision fp16 \\
    --output_dir ${ACCELERATE_DIR}/examples/output \\
    "
export CMD="$LAUNCHER $SCRIPT $SCRIPT_ARGS"
"""


@pytest.mark.parametrize(
    "line", ["srun $CMD", 'srun bash -c "$CMD"', 'bash -c "$CMD"', 'eval "$CMD"', "eval $CMD", "$CMD", "time ${CMD} &"]
)
def test_a_command_in_variables_is_read_where_its_words_stand(line):
    text = SLURM + line + "\n"
    (launch,) = read_launches(text).items
    assert launch.child("launcher").plain() == {
        "--num_processes": "32",
        "--num_machines": "4",
        "--main_process_ip": None,
    }
    assert launch.child("program").plain() == {"--mixed_precision": "fp16", "--output_dir": None}
    assert launch.child("script").value.endswith("complete_nlp_example.py")
    machines = launch.child("launcher").child("--num_machines")
    assert text[machines.start : machines.end] == "$SLURM_NNODES"


def test_a_quoted_command_gets_the_variables_of_the_shell_that_quotes_it():
    outer = 'N=2\nsrun bash -c "torchrun --nnodes $N --node_rank \\$SLURM_NODEID t.py"\n'
    assert plain(outer)[0]["launcher"]["--nnodes"] == "2"
    # a variable that is not exported is empty in there
    assert plain(outer.replace('"', "'"))[0]["launcher"]["--nnodes"] is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("$((2 * 4))", "8"), ("$((N * 4))", "12"), ("$(( $N * ${N} ))", "9"), ("${N:-1}", "3"), ("$((N + 1))", None),
        ("$((M * 2))", None), ("${M:-8}", None), ("$(echo 8)", None),
    ],
)  # fmt: skip
def test_products_and_defaults_of_known_values(value, number):
    (launch,) = plain(f"N=3\ndeepspeed --num_gpus {value} t.py\n")
    assert launch["launcher"] == {"--num_gpus": number}


@pytest.mark.parametrize(
    ("directives", "job"),
    [
        ("#SBATCH --nodes=2 --gres=gpu:8", (2, 8, None)),
        ("#SBATCH -N 2\n#SBATCH --gpus-per-node=h100:4", (2, 4, None)),
        ("#SBATCH -N2\n\n# a word\n#SBATCH --gres gpu:a100:8,nvme:1", (2, 8, None)),
        ("#SBATCH --gres=gpu:a100:4(S:0-1)", (None, 4, None)),
        ("#SBATCH --nodes=1\n#SBATCH --nodes=2", (2, None, None)),
        ("#SBATCH --nodes=2-4", (None, None, None)),
        ("#SBATCH --gres=nvme:1", (None, None, None)),
        ("#SBATCH --gpus=16", (None, None, None)),
        ("##SBATCH --nodes=2", (None, None, None)),
        ("ls\n#SBATCH --nodes=2", (None, None, None)),
        ("#SBATCH --nodes=2\n#SBATCH --array=0-3", (None, None, None)),
        ("#SBATCH --nodes=2\n#SBATCH hetjob\n#SBATCH --nodes=1", (None, None, None)),
        ("#SBATCH --exclusive\n#SBATCH -N 2 --ntasks-per-node=4", (2, None, 4)),
        ("#SBATCH -p gpu-n8 --ntasks-per-node=4\n#SBATCH -N 4 -n 4", (4, None, 1)),
        ("#SBATCH --ntasks=8 --ntasks-per-node=8", (None, None, None)),
        ("#SBATCH -N 2 -n 3", (2, None, None)),
        ("#SBATCH --ntasks-per-node=2 --gpus-per-task=4", (None, None, None)),
    ],
)
def test_what_a_script_asks_of_slurm(directives, job):
    text = f"#!/bin/bash\n{directives}\n"
    found = read_job(text)
    assert tuple(one.number if one else None for one in found) == job
    for one in filter(None, found[:2]):
        assert str(one.number) in text[one.start : one.end]


def test_a_script_may_give_slurms_names_other_values():
    text = "#SBATCH --nodes=4\nif true; then SLURM_NNODES=2; fi\ntorchrun --nnodes $SLURM_NNODES t.py\n"
    assert plain(text)[0]["launcher"] == {"--nnodes": None}
    options = "--nnodes $SLURM_JOB_NUM_NODES --nproc_per_node=$SLURM_GPUS_ON_NODE"
    text = f"#SBATCH --nodes=4 --gpus-per-node 2\ntorchrun {options} t.py\n"
    assert plain(text)[0]["launcher"] == {"--nnodes": "4", "--nproc_per_node": "2"}
