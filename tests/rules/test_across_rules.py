"""ZC5xx: the Trainer's and Accelerate's own code as judge, the places of findings, and what is not known."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import pytest
from with_facts import findings

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.lint.siblings import among

ZERO = {"zero_optimization": {"stage": 2}}
# TrainingArguments' defaults of what the Trainer compares (transformers/training_args.py)
DEFAULTS = {
    "world_size": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "max_grad_norm": 1.0,
    "learning_rate": 5e-5, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.0,
    "save_on_each_node": False, "fp16": False, "fp16_full_eval": False, "bf16": False, "bf16_full_eval": False,
}  # fmt: skip


def lint(line, **files):
    document = parse_document(f"#!/bin/bash\n{line}\n".encode(), "run.sh")
    texts = {
        name.replace("_", "."): text if isinstance(text, str) else json.dumps(text) for name, text in files.items()
    }
    return lint_document(document, siblings=among(texts))


def codes(line, **files):
    return {(one.rule.code, one.pointer) for one in lint(line, **files).findings}


FILES = [
    {"train_micro_batch_size_per_gpu": 4},
    {"gradient_accumulation_steps": 2},
    {"gradient_clipping": 0.5},
    {"gradient_clipping": "auto", "bf16": {"enabled": "auto"}},
    {"bf16": {"enabled": True}},
    {"fp16": {"enabled": True}},
    {"fp16": {"enabled": False}},
    {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}},
    {"train_batch_size": 64},
]
ARGUMENTS = [
    {"per_device_train_batch_size": 4},
    {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    {"gradient_accumulation_steps": 2},
    {"max_grad_norm": 0.5},
    {"bf16": True},
    {"bf16": False},
    {"learning_rate": 1e-4, "weight_decay": 0.1},
    {"learning_rate": 2e-4, "adam_beta2": 0.95},
    {"fp16": True},
]


@pytest.mark.parametrize("given", ARGUMENTS, ids=str)
@pytest.mark.parametrize("content", FILES, ids=str)
def test_the_trainer_refuses_what_draws_an_error(content, given):
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig  # noqa: PLC0415  (seconds to import)

    line = "deepspeed --num_gpus 8 t.py --deepspeed ds.json " + " ".join(f"--{k} {v}" for k, v in given.items())
    drawn = {one for one in codes(line, ds_json={**content, **ZERO}) if one[0] in {"ZC505", "ZC506"}}
    judge = HfTrainerDeepSpeedConfig({**json.loads(json.dumps(content)), **ZERO})
    judge.trainer_config_process(SimpleNamespace(**{**DEFAULTS, **given}))
    # the program may have other defaults, so that only what the line says is compared
    mismatches = [one for one in judge.mismatches if any(f" {name}" in one.replace("+", " ") for name in given)]
    mismatches += [one for one in judge.mismatches if "fp16.enabled" in one and given.get("bf16")]
    mismatches += [one for one in judge.mismatches if "bf16.enabled" in one and (given.get("fp16") or "bf16" in given)]
    if len({"per_device_train_batch_size", "gradient_accumulation_steps"} & given.keys()) == 2:
        mismatches += [one for one in judge.mismatches if "train_batch_size (calculated)" in one]
    assert bool(drawn) == bool(mismatches), (drawn, judge.mismatches)


@pytest.mark.parametrize(
    ("precision", "content", "severity"),
    [
        ("bf16", {"fp16": {"enabled": True}}, "error"),
        ("fp16", {"bf16": {"enabled": True}}, "error"),
        ("bf16", {"bf16": {"enabled": False}}, "warning"),
        ("bf16", {"bf16": {"enabled": True}}, None),
        ("bf16", {"bf16": {"enabled": "auto"}}, None),
        ("bf16", {}, None),
        ("no", {"fp16": {"enabled": True}}, None),
    ],
)
def test_accelerate_refuses_another_precision(precision, content, severity):
    from accelerate.utils import DeepSpeedPlugin  # noqa: PLC0415  (seconds to import)

    line = f"accelerate launch --deepspeed_config_file ds.json --mixed_precision {precision} t.py"
    found = [one.severity for one in lint(line, ds_json={**content, **ZERO}).findings if one.rule.code == "ZC509"]
    assert found == ([severity] if severity else [])
    plugin = DeepSpeedPlugin(hf_ds_config=json.loads(json.dumps({**content, **ZERO})))
    try:
        plugin.set_mixed_precision(precision)
        refused = False
    except ValueError:
        refused = True
    assert refused == (severity == "error")
    if not refused and precision == "bf16":
        assert (plugin.deepspeed_config["bf16"]["enabled"] is True) == (severity is None)


def test_findings_stand_on_the_options_line():
    text = "#!/bin/bash\ndeepspeed --num_gpus 8 t.py \\\n  --deepspeed ds.json \\\n  --gradient_accumulation_steps 4\n"
    document = parse_document(text.encode(), "run.sh")
    files = {"ds.json": json.dumps({"gradient_accumulation_steps": 2, **ZERO})}
    (found,) = lint_document(document, siblings=among(files)).findings
    assert document.position(found.start) == (4, 33)
    assert found.pointer == "--gradient_accumulation_steps"


WORLDS = {
    "deepspeed --num_gpus 8 t.py": 8,
    "deepspeed --num_gpus 8 --num_nodes 2 t.py": 16,
    "deepspeed --include localhost:0,1,3 t.py": 3,
    "deepspeed --include a:0,1@b:0,1 t.py": 4,
    "deepspeed --hostfile hosts t.py": 8,
    "deepspeed --hostfile hosts --num_gpus 2 t.py": 4,
    "deepspeed --hostfile hosts --num_nodes 1 t.py": 4,
    "deepspeed --hostfile elsewhere --num_gpus 8 t.py": None,
    "deepspeed t.py": None,
    "torchrun --nproc_per_node 4 t.py": 4,
    "torchrun --nproc-per-node=4 --nnodes=2 t.py": 8,
    "torchrun --nproc_per_node auto t.py": None,
    "torchrun --nproc_per_node 4 --nnodes $N t.py": None,
    "torchrun --nproc_per_node 4 --nnodes 1:4 t.py": None,
    "torchrun --nproc_per_node 4 $REST t.py": None,
    "accelerate launch --num_processes 6 t.py": 6,
    "accelerate launch --config_file acc.yaml t.py": 2,
    "accelerate launch --config_file acc.yaml --num_processes 6 t.py": 6,
    "accelerate launch --config_file missing.yaml t.py": None,
}


@pytest.mark.parametrize(("line", "world"), WORLDS.items())
def test_the_number_of_processes_is_read_from_the_line_and_its_files(line, world):
    files = {"hosts": "a slots=4\nb slots=4\n", "acc_yaml": "distributed_type: DEEPSPEED\nnum_processes: 2\n"}
    for size in (1, 2, 3, 4, 6, 8, 16):
        batch = {"train_batch_size": size, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
        drawn = {code for code, _ in codes(f"{line} --deepspeed --deepspeed_config ds.json", ds_json=batch, **files)}
        assert ("ZC506" in drawn) == (world is not None and size != world), size


def test_a_file_that_is_not_there_is_a_reason_not_a_finding():
    linted = lint("deepspeed --num_gpus 8 t.py --deepspeed ds.json --bf16 true")
    assert linted.findings == ()
    assert {one.needs for one in linted.skipped if one.code == "ZC505"} == {"ds.json, which is named, is not there"}
    # a name that only the shell knows, and a flag without a file
    assert lint("deepspeed --num_gpus 8 t.py --deepspeed $CONFIG").findings == ()
    assert lint("deepspeed --num_gpus 8 t.py --deepspeed").findings == ()


def test_plain_python_is_right_below_something_that_gives_ranks():
    batch = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
    line = "python t.py --deepspeed ds.json"
    assert ("ZC507", "--deepspeed") in codes(line, ds_json=batch)
    for before in ("srun -n 8 ", "mpirun -np 8 ", "RANK=0 WORLD_SIZE=8 "):
        assert "ZC507" not in {code for code, _ in codes(before + line, ds_json=batch)}


def test_suppressions_work_in_scripts():
    line = "deepspeed --num_gpus 4 t.py --deepspeed_config ds.json"
    batch = json.dumps({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1})
    for text in (
        f"#!/bin/bash\n# zeroconf: ignore[ZC506] for the other cluster\n{line}\n",
        f"{line} # zeroconf: ignore[ZC506] so\n",
    ):
        linted = lint_document(parse_document(text.encode(), "run.sh"), siblings=among({"ds.json": batch}))
        assert [one.finding.rule.code for one in linted.suppressed] == ["ZC506"]
        assert linted.findings == ()


@pytest.mark.parametrize(("processes", "train"), list(itertools.product((1, 4, 8), (8, 16))))
def test_a_yamls_processes_against_its_json(processes, train):
    batch = {"train_batch_size": train, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, **ZERO}
    yaml = f"distributed_type: DEEPSPEED\nnum_processes: {processes}\n"
    yaml += "deepspeed_config: {deepspeed_config_file: d.json}\n"
    found = findings(yaml, name="acc.yaml", files={"d.json": json.dumps(batch)})
    assert {one.rule.code for one in found} == ({"ZC501"} if train != 2 * processes else set())


def test_a_named_file_that_accelerate_cannot_read_is_one_finding():
    yaml = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: d.json}\n"
    for text in ('{"train_batch_size": 8, "zero_optimization": {"stage": 2}, // x\n}', '{"train_batch_size": 8}'):
        (found,) = findings(yaml, name="acc.yaml", files={"d.json": text})
        assert (found.rule.code, found.pointer) == ("ZC502", "/deepspeed_config/deepspeed_config_file")


AUTO = {
    "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3},
}  # fmt: skip
TRAIN = "t.py --deepspeed ds.json --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --bf16 true"
GIGABIT = {"model": "llama-3.2-1b", "hardware": "8x1xA100-80GB", "network": "1gbe", "seq_len": 1024}


def plan_codes(line, content=AUTO, **facts):
    files = {"ds.json": json.dumps(content)}
    found = findings(f"#!/bin/bash\n{line}\n", name="run.sh", files=files, **{**GIGABIT, **facts})
    return {(one.rule.code, one.pointer) for one in found if one.rule.code[:3] in {"ZC3", "ZC4"}}


def test_the_trainers_arguments_complete_the_plan_of_a_file_that_leaves_them_open():
    launcher = "torchrun --nnodes 8 --nproc_per_node 1 "
    assert plan_codes(launcher + TRAIN) == {("ZC401", "--deepspeed")}
    assert plan_codes(launcher + TRAIN, {**AUTO, "zero_optimization": {"stage": 0}}) == set()
    # the file's own batch is linted where it stands, and some lines are for another job than the facts speak of
    closed = {**AUTO, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 16}
    assert plan_codes(launcher + TRAIN, closed) == set()
    for other in ("--use_lora true", "--optim adamw_8bit", "--quantization 4"):
        assert plan_codes(f"{launcher}{TRAIN} {other}") == set()
    assert plan_codes("torchrun --nnodes 4 --nproc_per_node 1 " + TRAIN) == {("ZC314", "--nproc_per_node")}


def test_the_micro_batch_of_a_line_that_does_not_fit_is_at_its_argument():
    line = "deepspeed --num_gpus 8 " + TRAIN.replace("batch_size 1", "batch_size 512")
    facts = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "network": None, "seq_len": 4096}
    assert ("ZC301", "--per_device_train_batch_size") in plan_codes(line, **facts)


@pytest.mark.parametrize(
    ("line", "hardware", "flagged"),
    [
        ("--num_processes 8 --deepspeed_config_file ds.json", "4xA100-80GB", {("error", "--num_processes")}),
        ("--num_processes 32", "4x4xA100-80GB", {("error", "--num_processes")}),
        ("--num_processes 32 --config_file acc.yaml", "4x4xA100-80GB", {("error", "--num_processes")}),
        ("--config_file acc.yaml", "4x4xA100-80GB", {("error", "--config_file")}),
        ("--config_file acc.yaml --num_machines 8", "4x4xA100-80GB", {("warning", "--config_file")}),
        ("--config_file acc.yaml --num_machines 4", "4x8xA100-80GB", set()),
        ("--num_processes 8 --num_machines 1", "2x4xA100-80GB", {("error", "--num_processes")}),
        # the user's own default file may say how many machines there are
        ("--num_processes 8", "2x4xA100-80GB", set()),
        ("--num_processes $N", "2x4xA100-80GB", set()),
        ("--num_processes 8 --num_machines $N", "2x4xA100-80GB", set()),
        ("--cpu --num_processes 8", "4xA100-80GB", set()),
    ],
)
def test_the_processes_of_accelerate_launch_against_the_gpus(line, hardware, flagged):
    yaml = "distributed_type: DEEPSPEED\nnum_machines: 4\nnum_processes: 32\n"
    files = {"acc.yaml": yaml, "ds.json": json.dumps(AUTO)}
    found = findings(f"accelerate launch {line} train.py", name="run.sh", files=files, hardware=hardware)
    assert {(one.severity, one.pointer) for one in found if one.rule.code == "ZC314"} == flagged


@pytest.mark.parametrize(
    "line", ["torchrun --nnodes 8 --nproc_per_node 4", "accelerate launch --num_machines 8 --num_processes 32"]
)
def test_more_nodes_than_there_are_is_a_warning(line):
    found = findings(f"{line} train.py", name="run.sh", hardware="4x4xA100-80GB")
    assert [(one.rule.code, one.severity) for one in found] == [("ZC314", "warning")]


@pytest.mark.parametrize("precision", ["--mixed_precision bf16", ""])
@pytest.mark.parametrize("through", ["--deepspeed_config_file ds.json", "--config_file acc.yaml"])
def test_the_programs_arguments_complete_the_plan_below_accelerate_launch(through, precision):
    yaml = "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config: {deepspeed_config_file: ds.json}\n"
    line = f"accelerate launch --num_processes 8 --num_machines 8 {precision} {through} t.py"
    batch = "--per_device_train_batch_size 1 --gradient_accumulation_steps 16"
    files = {"ds.json": json.dumps(AUTO), "acc.yaml": yaml}
    found = findings(f"{line} {batch}", name="run.sh", files=files, **GIGABIT)
    assert [(one.rule.code, one.pointer) for one in found] == [("ZC401", through.split()[0])]
    other = [one.rule.code for one in findings(line, name="run.sh", files=files, **GIGABIT)]
    assert other == []


@pytest.mark.parametrize(
    ("line", "flagged"),
    [
        ("torchrun --nnodes 4 --nproc_per_node 4 t.py", {"--nnodes"}),
        ("srun torchrun --nnodes 2 --nproc_per_node 16 t.py", {"--nproc_per_node"}),
        ("deepspeed --num_gpus 16 t.py", {"--num_gpus"}),
        ("accelerate launch --num_machines 4 --num_processes 16 t.py", {"--num_machines"}),
        ("accelerate launch --num_machines 2 --num_processes 32 t.py", {"--num_processes"}),
        ("torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 t.py", set()),
        ("torchrun --nnodes 1:4 --nproc_per_node 8 t.py", set()),
        # a server may have the others
        ("torchrun --nproc_per_node 7 t.py", set()),
        ("srun torchrun --nnodes 4 --node_rank $SLURM_NODEID --nproc_per_node 8 t.py", {"--nnodes"}),
        # submitted once for each node, or a hostfile that says which there are
        ("torchrun --nnodes 4 --node_rank $1 --nproc_per_node 8 t.py", set()),
        ("deepspeed --num_nodes 4 --num_gpus 8 t.py", set()),
        ("torchrun $MORE --nnodes 4 --nproc_per_node 16 t.py", set()),
        ("accelerate launch --cpu --num_processes 64 --num_machines 1 t.py", set()),
    ],
)
def test_a_launch_line_against_what_its_script_asks_of_slurm(line, flagged):
    found = findings(f"#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:8\n{line}\n", name="job.slurm")
    assert {one.pointer for one in found if one.rule.code == "ZC515"} == flagged


IN_EACH_TASK = "srun torchrun --nnodes 2 --nproc_per_node 8 t.py"
TASKS = "--nodes=2 --gres=gpu:8 --ntasks-per-node=8"


@pytest.mark.parametrize(
    ("asked", "line", "flagged"),
    [
        (TASKS, IN_EACH_TASK, {("command", "error")}),
        ("-N 2 -n 16 --gpus-per-node=8", IN_EACH_TASK, {("command", "error")}),
        (TASKS, f"srun --container-image=x bash -c '{IN_EACH_TASK[5:]}'", {("command", "error")}),
        (TASKS, "srun --jobid $SLURM_JOB_ID accelerate launch --num_machines 2 --num_processes 16 t.py",
         {("command", "error")}),
        ("--nodes=4 --gres=gpu:8", IN_EACH_TASK, {("--nnodes", "warning")}),
        ("--nodes=2 --gres=gpu:8", "srun torchrun --nproc_per_node 8 t.py", {("command", "warning")}),
        ("--nodes=2 --gres=gpu:8 --ntasks-per-node=1", IN_EACH_TASK, set()),
        # beside --ntasks it is only the most
        (f"{TASKS} --ntasks=2", IN_EACH_TASK, set()),
        (f"{TASKS} -p gpu-n8 -n 2", IN_EACH_TASK, set()),
        # a torchrun for each GPU, or each with GPUs of its own
        (TASKS, "srun torchrun --nnodes 16 --nproc_per_node 1 t.py", set()),
        (TASKS, "srun --ntasks-per-node=1 torchrun --nnodes 2 --nproc_per_node 8 t.py", set()),
        ("-N 1 --gres=gpu:8 -n 2 --gpus-per-task=4", "srun torchrun --nnodes 1 --nproc_per_node 4 t.py", set()),
        # only the batch script's node starts it, or only those that srun is told
        (TASKS, "torchrun --nnodes 2 --nproc_per_node 8 t.py", set()),
        ("--nodes=4 --gres=gpu:8", "srun -N2 torchrun --nnodes 2 --nproc_per_node 8 t.py", set()),
        (TASKS, "srun $OPTIONS torchrun --nnodes 2 --nproc_per_node 8 t.py", set()),
        (TASKS, "srun python t.py --deepspeed ds.json", set()),
        # one task of a node starts it
        (TASKS, f"srun bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then {IN_EACH_TASK[5:]}; fi'", set()),
        (TASKS, f'srun bash -c "[[ \\$SLURM_LOCALID == 0 ]] && {IN_EACH_TASK[5:]}"', set()),
        (TASKS, f"srun bash -c 'test $SLURM_PROCID = 0 && {IN_EACH_TASK[5:]}'", set()),
        (TASKS, f"srun bash -c '((SLURM_LOCALID == 0)) && {IN_EACH_TASK[5:]}'", set()),
        (TASKS, f"srun bash -c '[ -d x ] && RANK=$SLURM_PROCID {IN_EACH_TASK[5:]}'", {("command", "error")}),
        (TASKS, f"srun bash -c '{IN_EACH_TASK[5:]}; [ $SLURM_LOCALID = 0 ]'", {("command", "error")}),
    ],
)  # fmt: skip
def test_srun_starts_a_launch_line_in_each_task_of_its_job(asked, line, flagged):
    found = findings(f"#!/bin/bash\n#SBATCH {asked}\n{line}\n", name="job.slurm")
    assert {(one.pointer, one.severity) for one in found if one.rule.code == "ZC515"} == flagged


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("torchrun --nproc_per_node 8 t.py", "for 1 node, but srun starts it on all 4 (line 2); --nnodes"),
        ("accelerate launch --num_machines 2 --num_processes 16 t.py",
         "for 2 nodes, but srun starts it on all 4 (line 2); --num_machines"),
    ],
)  # fmt: skip
def test_a_launch_for_fewer_nodes_is_told_its_own_launchers_option(line, told):
    (found,) = findings(f"#!/bin/bash\n#SBATCH --nodes=4 --gres=gpu:8\nsrun {line}\n", name="job.slurm")
    assert found.message == f"the launch is {told} $SLURM_NNODES takes them all"


def test_the_nodes_of_the_job_count_in_the_batch():
    batch = {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}
    line = "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 t.py --deepspeed_config ds.json"
    for nodes, expected in ((1, set()), (2, {"ZC506"})):
        text = f"#!/bin/bash\n#SBATCH --nodes={nodes}\n{line}\n"
        found = findings(text, name="job.slurm", files={"ds.json": json.dumps(batch)})
        assert {one.rule.code for one in found} == expected


def reasons(text, **files):
    linted = lint_document(parse_document(text.encode(), "run.sh"), siblings=among(files))
    return {one.needs for one in linted.skipped if not one.needs.startswith("--")}


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("torchrun --nproc_per_node 8 t.py --deepspeed c/nope.json", "c/nope.json"),
        ("accelerate launch --deepspeed_config_file nope.json t.py", "nope.json"),
        ("accelerate launch --config_file nope.yaml t.py", "nope.yaml"),
        ("deepspeed --hostfile nope t.py", "nope"),
        ("C=nope.json\ndeepspeed t.py --deepspeed $C", "nope.json"),
        ("deepspeed --hostfile $HOSTS t.py --deepspeed $CONFIG/ds.json", None),
        ("accelerate launch --config_file $CONFIG t.py", None),
        ("cd ..\ndeepspeed --hostfile nope t.py --deepspeed nope.json", None),
        ("if x; then cd y && accelerate launch --config_file nope.yaml t.py; fi", None),
        ("#SBATCH --chdir=/work\naccelerate launch --config_file nope.yaml t.py", None),
        ("printf 'a slots=8' > nope\ndeepspeed --hostfile nope t.py", None),
        ("cp base.json nope.json\ndeepspeed t.py --deepspeed nope.json", None),
        ("deepspeed t.py", None),
    ],
)
def test_a_named_file_that_is_not_there_is_said(line, absent):
    expected = {f"{absent}, which is named, is not there"} if absent else set()
    assert reasons(line) == expected


def test_a_hostfile_that_is_none_is_said():
    assert reasons("deepspeed --hostfile h t.py", h="[1, 2]\n") == {"h, which is named, is no hostfile"}
    assert reasons("deepspeed --hostfile h t.py", h="a slots=8\n") == set()


WRONG = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, **ZERO}
RIGHT = {**WRONG, "train_batch_size": 32}
LINE = "deepspeed --num_gpus 4 train.py --deepspeed ds.json"


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        (LINE, True),
        (f"cd sub && {LINE}", False),
        (f"pushd sub; {LINE}; popd", False),
        (f"pushd sub; popd; {LINE}", True),
        (f"(cd sub; {LINE})", False),
        (f"(cd sub; true)\n{LINE}", True),
        (f"cd ./sub/\n{LINE}", False),
        # where it leads is not known, and the file there may be another
        (f'cd "$DIR" && {LINE}', False),
        (f"if true; then cd sub; fi\n{LINE}", False),
        (f"#SBATCH --chdir=sub\n{LINE}", False),
        (f"bash -c 'cd sub; {LINE}'", False),
        (f"cd sub && {LINE.replace('ds.json', '../ds.json')}", False),
    ],
)
def test_files_are_looked_for_in_the_folder_that_a_script_went_to(text, is_wrong):
    files = {"ds.json": json.dumps(WRONG), "sub/ds.json": json.dumps(RIGHT)}
    document = parse_document(f"#!/bin/bash\n{text}\n".encode(), "run.sh")
    drawn = {one.rule.code for one in lint_document(document, siblings=among(files)).findings}
    assert ("ZC506" in drawn) == is_wrong


@pytest.mark.parametrize(
    ("before", "is_told"),
    [
        ("export CUDA_VISIBLE_DEVICES=2,3\n", True),
        ("CUDA_VISIBLE_DEVICES=2,3 ", True),
        ("export CUDA_VISIBLE_DEVICES=0,1\npython eval.py\nunset CUDA_VISIBLE_DEVICES\n", False),
        ("( export CUDA_VISIBLE_DEVICES=0,1; python eval.py )\n", False),
        ("export CUDA_VISIBLE_DEVICES=\n", False),
        ("CUDA_VISIBLE_DEVICES= ", False),
        ("export CUDA_VISIBLE_DEVICES=2,3\nCUDA_VISIBLE_DEVICES= ", False),
        ("export CUDA_VISIBLE_DEVICES=2,3\nenv -u CUDA_VISIBLE_DEVICES ", False),
        ("export CUDA_VISIBLE_DEVICES=2\nexport -n CUDA_VISIBLE_DEVICES\n", False),
    ],
)
def test_only_a_variable_that_the_launcher_gets_is_ignored_by_it(before, is_told):
    assert ("ZC513" in {code for code, _ in codes(before + LINE)}) == is_told


def test_only_training_leaves_gpus_idle():
    facts = {"hardware": "8xA100-80GB", "name": "run.sh", "files": {"ds.json": json.dumps(ZERO)}}
    idle = {
        line: [one.rule.code for one in findings(f"#!/bin/bash\n{line}\n", **facts)]
        for line in (
            "torchrun --nproc_per_node 2 eval.py",
            "deepspeed --num_gpus 2 serve.py --model x",
            "deepspeed --num_gpus 2 train.py --deepspeed ds.json",
        )
    }
    assert [("ZC314" in drawn) for drawn in idle.values()] == [False, False, True]
