"""``zeroconf smoke-test`` as a whole process: a Trainer's file with "auto" everywhere, measured beside predicted."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

import jsonschema
import pytest

from zeroconf.resources import data_path

TRAINER_FILE = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {
        "type": "WarmupLR",
        "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"},
    },
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
    },
}


def smoke_test(folder, *arguments, **environment):
    return zeroconf(folder, "smoke-test", *arguments, **environment)


def zeroconf(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "zeroconf", *arguments],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.launch
def test_a_trainers_file_trains_and_the_prediction_is_of_what_ran(tmp_path):
    (tmp_path / "ds_config.json").write_text(json.dumps(TRAINER_FILE), encoding="utf-8")
    (tmp_path / "tiny").mkdir()  # a folder of the model's name is not the model
    arguments = ("ds_config.json", "--model", "tiny", "--num-gpus", "2", "--device", "cpu", "--json")
    ran = smoke_test(tmp_path, *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    jsonschema.validate(answer, json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8")))
    assert answer["outcome"] == "fits"
    assert abs(answer["relative_error"]) < 0.1
    for rank in answer["ranks"]:
        assert rank["losses"][-1] < rank["losses"][0]
        assert all(0 < part < step for part, step in zip(rank["update_seconds"], rank["step_seconds"], strict=True))
    assert answer["environment"]["zero_stage"] == 3
    (tmp_path / "measured.json").write_text(ran.stdout, encoding="utf-8")
    calibrating(tmp_path, answer)


def calibrating(folder, answer):
    """What was measured moves the estimate of the same run on a described card of that name, and no other's."""
    model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]} | {
        name: answer["facts"]["architecture"][name]
        for name in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
    }
    model |= {"num_hidden_layers": answer["facts"]["architecture"]["num_layers"], "max_position_embeddings": 4096}
    (folder / "config.json").write_text(json.dumps(model), encoding="utf-8")
    card = "gpus_per_node: 2\ngpu: {name: cpu, memory: 8GiB, bf16_tflops: 0.05, memory_bandwidth: 10GB/s}\n"
    (folder / "cpu.yaml").write_text(card, encoding="utf-8")
    (folder / "ran.json").write_text(json.dumps(answer["environment"]["ds_config"]), encoding="utf-8")
    job = ("ran.json", "--model", "./config.json", "--seq-len", "128", "--attention", "sdpa")
    again = ("--activation-checkpointing", "none", "--for", "deepspeed", "--calibrate", "measured.json")
    other = zeroconf(folder, "estimate", *job, *again, "--hardware", "8xA100-80GB")
    assert other.returncode == 2
    assert "measured on cpu, and this cluster has A100-SXM4-80GB" in other.stderr
    assert other.stderr.count("\n") == 1
    same = zeroconf(folder, "estimate", *job, *again, "--hardware", "cpu.yaml", "--json")
    assert same.returncode == 0, same.stderr
    slowest = [max(times) for times in zip(*(rank["step_seconds"] for rank in answer["ranks"]), strict=True)]
    step = json.loads(same.stdout)["step"]["total_seconds"]
    assert step == pytest.approx(statistics.median(slowest[1:]), rel=1e-6)


def test_what_cannot_start_says_so_before_anything_runs(tmp_path):
    (tmp_path / "ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 1}', encoding="utf-8")
    longer = smoke_test(tmp_path, "ds_config.json", "--model", "gpt2", "--seq-len", "4096")
    assert longer.returncode == 2
    assert "1024 positions" in longer.stderr
    no_cache = smoke_test(tmp_path, "ds_config.json", "--model", "tiny", ZEROCONF_CACHE="/proc/x")
    assert no_cache.returncode == 4
    assert "ZEROCONF_CACHE" in no_cache.stderr
    assert no_cache.stderr.count("\n") == 1


@pytest.mark.launch
@pytest.mark.parametrize("options", [(), ("--num-gpus", "2"), ("--world-size", "8")])
def test_a_model_far_beyond_this_machines_memory_is_not_started(tmp_path, options):
    (tmp_path / "ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 1}', encoding="utf-8")
    large = ("--model", "llama-3.1-405b", "--device", "cpu", "--seq-len", "64")
    ran = smoke_test(tmp_path, "ds_config.json", *large, *options, "--json")
    assert ran.returncode == 1, ran.stderr
    answer = json.loads(ran.stdout)
    assert (answer["outcome"], answer["ranks"]) == ("host-oom", [])
    assert "none was started" in answer["explanation"]
    assert "starting" not in ran.stderr
