from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from emit_builders import facts, plan

from zeroconf.emit.ds_config import ds_config
from zeroconf.emit.launch import hostfile, launch_commands, launch_script
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_PATHS = {"ds_config_path": "my dir/ds 'x'.json", "accelerate_path": "my dir/$acc.yaml", "script": "train it.py"}


def _commands(**given):
    return _launch(launch_commands, facts(**given), plan(2, activation_checkpointing=True))


def _launch(made, given, chosen, **paths):
    return made(given, chosen, ds_config(given, chosen), **(_PATHS | paths))


def test_trainer_lines_repeat_the_sizes_of_the_file():
    commands = _commands()
    assert list(commands) == ["accelerate", "deepspeed", "torchrun"]
    flags = "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 true --gradient_checkpointing true"
    assert commands["torchrun"] == (
        f"""torchrun --standalone --nproc_per_node 8 'train it.py' --deepspeed 'my dir/ds '"'"'x'"'"'.json' {flags}"""
    )
    assert shlex.split(commands["deepspeed"])[:4] == ["deepspeed", "--num_gpus", "8", "train it.py"]
    assert commands["accelerate"] == (
        f"accelerate launch --config_file 'my dir/$acc.yaml' 'train it.py' {flags}"  # the YAML names the JSON
    )


def test_trainer_lines_repeat_every_value_that_it_compares():
    given, chosen = facts(), plan(2)
    config = ds_config(given, chosen) | {
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": "auto", "weight_decay": 0}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-5, "warmup_num_steps": 100}},
    }
    line = launch_commands(given, chosen, config, **_PATHS)["torchrun"]
    own = "--max_grad_norm 0.5 --bf16 true --learning_rate 1e-05 --adam_beta1 0.9 --adam_beta2 0.95 --weight_decay 0"
    assert line.endswith(f"--gradient_accumulation_steps 4 {own} --warmup_steps 100")


def test_liger_is_asked_for_where_the_plan_rests_on_it():
    given = facts()
    given = replace(given, workload=replace(given.workload, cross_entropy="fused-linear"))
    assert "--use_liger_kernel true" in _launch(launch_commands, given, plan(2))["torchrun"]


def test_several_nodes():
    commands = _commands(num_nodes=4, reader="deepspeed")
    assert list(commands) == ["accelerate", "deepspeed", "torchrun"]
    assert '--machine_rank "$NODE_RANK" --main_process_ip "$MASTER_ADDR"' in commands["accelerate"]
    assert commands["deepspeed"].startswith("deepspeed --hostfile hostfile --num_nodes 4 --num_gpus 8 'train it.py'")
    assert '--nnodes 4 --nproc_per_node 8 --node_rank "$NODE_RANK"' in commands["torchrun"]
    for name in ("accelerate", "deepspeed", "torchrun"):
        assert shlex.split(commands[name])[-3:] == ["--deepspeed", "--deepspeed_config", "my dir/ds 'x'.json"]
    assert hostfile(facts(num_nodes=2).cluster, ("a",)) == "a slots=8\nnode-2 slots=8\n"


def test_accelerate_scripts_get_their_environment_from_other_launchers():
    commands = _commands(reader="accelerate")
    assert shlex.split(commands["torchrun"])[:2] == [
        "ACCELERATE_USE_DEEPSPEED=true",
        "ACCELERATE_DEEPSPEED_CONFIG_FILE=my dir/ds 'x'.json",
    ]
    assert "--no_local_rank" in commands["deepspeed"]
    assert "deepspeed" not in _commands(reader="accelerate", num_nodes=2)  # ssh would not carry it


def test_without_yaml_there_is_no_accelerate_line():
    commands = _launch(launch_commands, facts(), plan(2), accelerate_path=None)
    assert list(commands) == ["deepspeed", "torchrun"]


@pytest.mark.parametrize("field", ["ds_config_path", "accelerate_path", "script"])
def test_a_line_break_in_a_path_is_refused(field):
    with pytest.raises(InputError, match="line break"):
        _launch(launch_commands, facts(), plan(2), **{field: "a\nb"})


_STUB = """#!/bin/bash
{ for word in "$(basename "$0")" "$@"; do printf '%s\\0' "$word"; done; printf '\\36'; } >> "$RECORD"
env | grep ^ACCELERATE > "$RECORD.env" || true
"""
_SRUN = """#!/bin/bash
while [[ "$1" == --* ]]; do shift; done
for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done
"""


def _run(script: str, folder: Path, *arguments: str) -> list[list[str]]:
    """Runs the script with recording launchers; the words that each launcher got."""
    tools = folder / "bin"
    tools.mkdir()
    stubs = {"torchrun": _STUB, "accelerate": _STUB, "srun": _SRUN, "scontrol": "#!/bin/bash\nprintf 'n1\\nn2\\n'\n"}
    for name, text in stubs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    path = folder / "launch.sh"
    path.write_text(script)
    record = folder / "record"
    job = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "45678", "RECORD": str(record)}
    environment = os.environ | job | {"PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-n", path], check=True)
    subprocess.run(["bash", path, *arguments], check=True, env=environment, cwd=folder)
    return [call.split("\0")[:-1] for call in record.read_text().split("\36") if call]


@pytest.mark.parametrize("reader", ["trainer", "accelerate", "deepspeed"])
def test_the_script_of_one_node_hands_every_word_over(tmp_path, reader):
    script = _launch(launch_script, facts(reader=reader), plan(2))
    (call,) = _run(script, tmp_path, "--output_dir", "my out", "")
    assert "train it.py" in call
    assert call[-3:] == ["--output_dir", "my out", ""]
    if reader != "deepspeed":
        assert call[:4] == ["accelerate", "launch", "--config_file", "my dir/$acc.yaml"]
    else:
        assert call[:4] == ["torchrun", "--standalone", "--nproc_per_node", "8"]
        assert "my dir/ds 'x'.json" in call


def test_an_accelerate_script_without_yaml_exports_the_environment(tmp_path):
    script = _launch(launch_script, facts(reader="accelerate"), plan(2), accelerate_path=None)
    (call,) = _run(script, tmp_path)
    assert call == ["torchrun", "--standalone", "--nproc_per_node", "8", "train it.py"]
    assert "ACCELERATE_DEEPSPEED_CONFIG_FILE=my dir/ds 'x'.json\n" in (tmp_path / "record.env").read_text()


@pytest.mark.parametrize("reader", ["trainer", "accelerate", "deepspeed"])
def test_the_slurm_script_gives_each_node_its_rank(tmp_path, reader):
    script = _launch(launch_script, facts(reader=reader, num_nodes=2), plan(3))
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n" in script
    first, second = _run(script, tmp_path, "--output_dir", "my out")
    rank = "--node_rank" if reader == "deepspeed" else "--machine_rank"
    assert [call[call.index(rank) + 1] for call in (first, second)] == ["0", "1"]
    for call in (first, second):
        address = "--master_addr" if reader == "deepspeed" else "--main_process_ip"
        assert call[call.index(address) + 1] == "n1"
        assert "25678" in call  # the port: 20000 + 45678 % 20000
        assert "train it.py" in call
        assert call[-2:] == ["--output_dir", "my out"]


def test_a_model_name_cannot_break_out_of_the_script():
    given = facts()
    object.__setattr__(given.model, "name", "a\nrm -rf x; $(b) 'c'")
    script = _launch(launch_script, given, plan(2))
    assert "\nrm" not in script
    assert "# a rm -rf x; $(b) 'c' on 1 x 8 GPUs: ZeRO stage 2\n" in script


def test_fp16_on_pascal_is_allowed_where_it_starts(tmp_path):
    given = facts()
    gpu = replace(given.cluster.gpu, architecture="Pascal", bf16=False)
    given = replace(given, cluster=replace(given.cluster, gpu=gpu), workload=replace(given.workload, precision="fp16"))
    assert all(
        line.startswith("DS_ALLOW_DEPRECATED_FP16=1 ") for line in _launch(launch_commands, given, plan(2)).values()
    )
    assert "export DS_ALLOW_DEPRECATED_FP16=1\n" in _launch(launch_script, given, plan(2))
