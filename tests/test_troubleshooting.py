"""The messages of docs/troubleshooting.md are those of the libraries, and the rules that it names exist."""

from __future__ import annotations

import json
import re
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from with_facts import config, linted
from with_writers import ROOT

from zeroconf.rules import RULES

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
INSTALLED = Path(sysconfig.get_path("purelib"))
RELEASES = {"deepspeed": "0.19.8", "accelerate": "1.15.0", "transformers": "5.24.0", "torch": "2.13.0"}
PARAGRAPHS = re.sub(r"(?<!\n)\n(?!\n)", " ", PAGE)
ENTRIES = re.findall(r"^### (?:`` (.*) ``|`(.*)`)\n\n\*(\w.*?)\.\*\s", PARAGRAPHS, re.MULTILINE)
FROM_FILES = [(spaced or plain, source) for spaced, plain, source in ENTRIES if "/" in source]

A100, LLAMA = {"hardware": "8xA100-80GB"}, {"model": "llama-3.1-8b"}
BF16, FP16 = ({name: {"enabled": True}} for name in ("bf16", "fp16"))
YAML = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
NAMED = f"{YAML}  deepspeed_config_file: ds.json\n"
SCRIPT = "deepspeed --num_gpus 8 train.py --deepspeed ds.json"
CPU = {"offload_optimizer": {"device": "cpu"}}


def script(**more):
    """A launch script beside the file that it names."""
    return {"name": "a.sh", "files": {"ds.json": json.dumps({**config(), **more})}}


def swapped(**more):
    return config(3, offload_param={"device": "nvme", "nvme_path": "/scratch", **more}, **CPU)


def scheduled(kind, **parameters):
    return {**config(), "scheduler": {"type": kind, "params": parameters}}


def built(kind, **parameters):
    return {**config(), "optimizer": {"type": kind, "params": {"lr": 1e-4, **parameters}}}


# how a message begins, the rule that finds its cause, and where: a file, its name and what it names, facts
CAUGHT = [
    ("CUDA out of memory", "ZC301", config(0), {**LLAMA, **A100}),
    ("More elements", "ZC304", swapped(buffer_size=10**7), {**LLAMA, **A100, "nvme": "/scratch:9TB"}),
    ("Check batch", "ZC201", {**config(), "train_batch_size": 30, "train_micro_batch_size_per_gpu": 4}, {}),
    ("Check batch", "ZC307", {**config(micro=4, steps=2), "train_batch_size": 32}, A100),
    ("Check batch", "ZC507", "python train.py --deepspeed ds.json", script()),
    ("Micro batch size", "ZC307", {**BF16, "train_batch_size": 4}, A100),
    ("Either train_batch", "ZC202", {**BF16, "gradient_accumulation_steps": 4}, {}),
    ("'>' not supported", "ZC008", config(steps="8"), {}),
    ("'>' not supported", "ZC121", config(micro="auto"), {"reader": "deepspeed"}),
    ("batch_size should", "ZC203", {**BF16, "train_batch_size": 4.0}, {}),
    (
        "Please correct",
        "ZC505",
        f"{SCRIPT} --per_device_train_batch_size 4",
        script(),
    ),
    ("Invalid comm", "ZC120", {**config(), "communication_data_type": "auto"}, {"reader": "trainer"}),
    ("Invalid comm", "ZC113", {**config(), "communication_data_type": "bfloat16"}, {}),
    ("warmup_num_steps", "ZC112", scheduled("WarmupLR", warmup_num_steps=0), {}),
    ("warmup_num_steps", "ZC121", scheduled("WarmupLR", warmup_num_steps="auto"), {"reader": "deepspeed"}),
    (
        "When using",
        "ZC270",
        f"mixed_precision: bf16\n{NAMED}",
        {**script(), "name": "a.yaml"},
    ),
    ("Please specify", "ZC205", {**BF16, "train_batch_size": 8}, {"reader": "accelerate"}),
    (
        "`--mixed_precision`",
        "ZC509",
        "accelerate launch --mixed_precision bf16 --deepspeed_config_file ds.json train.py",
        script(bf16={"enabled": False}, **FP16),
    ),
    ("could not convert", "ZC135", f"{YAML}  gradient_clipping: none\n", {"name": "a.yaml"}),
    ("The config file", "ZC131", f"zero_stage: 2\n{YAML}  zero_stage: 2\n", {"name": "a.yaml"}),
    ("DeepSpeed Zero3", "ZC275", f"{YAML}  zero_stage: 2\n  zero3_init_flag: true\n", {"name": "a.yaml"}),
    ("... is not a supported", "ZC220", built("AdamW8bit"), {}),
    ("You are using an", "ZC221", built("SGD"), {"reader": "deepspeed"}),
    ("You are using ZeRO", "ZC243", config(**CPU), {"reader": "deepspeed"}),
    ("'max_grad_norm'", "ZC107", built("AdamW", max_grad_norm=1.0), {}),
    ("DeepSpeed does not", "ZC229", scheduled("CosineAnnealing"), {}),
    ("missing 1 required", "ZC231", scheduled("WarmupDecayLR", warmup_num_steps=10), {}),
    ("bfloat16 and fp16", "ZC207", {**config(), **FP16}, {}),
    ("Type fp16", "ZC306", {**FP16, "train_batch_size": 8, "zero_optimization": {"stage": 2}}, {"hardware": "1xP100"}),
    ("unsupported mix", "ZC210", {**config(0), "data_types": {"grad_accum_dtype": "fp32"}}, {}),
    ("data_types.param", "ZC211", {**config(), "data_types": {"param_dtype": "fp16"}}, {}),
    ("NVIDIA Apex", "ZC105", {**config(), "amp": {"enabled": False}}, {}),
    ("Your setup", "ZC305", config(), {"hardware": "8xV100-32GB"}),
    ("Partial", "ZC238", config(offload_optimizer={"device": "cpu", "ratio": 0.5}), {}),
    ("expected str", "ZC237", config(3, offload_optimizer={"device": "nvme"}), {}),
    ("Cannot provide", "ZC108", config(cpu_offload=True, **CPU), {}),
    ("Extra inputs", "ZC101", {**config(), "bf16": {"enabled": True, "loss_scale": 0}}, {}),
    ("Extra inputs", "ZC103", config(aio={"block_size": 1048576}), {}),
    (
        "Input should be a valid integer, unable",
        "ZC012",
        "train_batch_size: 8\nzero_optimization:\n  reduce_bucket_size: 5e8\n",
        {"name": "a.yaml"},
    ),
    ("Input should be a valid integer, got", "ZC115", config(reduce_bucket_size=15106868.1), {}),
    ("Duplicate keys", "ZC005", '{"train_batch_size": 8, "train_batch_size": 8}', {}),
    (
        "json.decoder",
        "ZC002",
        '{"train_batch_size": 8, // as planned\n"zero_optimization": {"stage": 2}}',
        {"reader": "trainer"},
    ),
    ("MiCS", "ZC105", config(3, mics_shard_size=8), {}),
    ("allgather_bucket", "ZC254", config(allgather_bucket_size=5), {}),
    ("pre-scale", "ZC255", {**config(), "prescale_gradients": True}, {}),
    ("torch.Size", "ZC248", config(3), {}),
    (
        "`auto_find_batch_size`",
        "ZC510",
        f"{SCRIPT} --auto_find_batch_size true",
        script(zero_optimization={"stage": 3}),
    ),
    ("Invalid for", "ZC250", {**config(), "checkpoint": {"load_universal": True}}, {}),
    (
        "... pytorch allocator",
        "ZC301",
        config(3, stage3_param_persistence_threshold=10**8),
        {**LLAMA, "hardware": "8xA100-40GB"},
    ),
    (
        "... pytorch allocator",
        "ZC312",
        config(3, stage3_param_persistence_threshold=10**8),
        {**LLAMA, "hardware": "8xA100-40GB"},
    ),
    ("... is not divisible", "ZC308", config(3, zero_hpz_partition_size=2), {"hardware": "3xA100-80GB"}),
    ("Qantized", "ZC318", config(3, zero_quantized_weights=True), {**LLAMA, "hardware": "3x8xA100-80GB"}),
    ("Attention head", "ZC315", {**config(), "sequence_parallel_size": 8}, {"model": "qwen2.5-7b", **A100}),
    ("Unable to find", "ZC281", f"num_machines: 2\n{YAML}  zero_stage: 2\n", {"name": "a.yaml"}),
    ("Hostfile contains a bad", "ZC020", "node-1 slots=8\nnode-2 slot=8\n", {"name": "hostfile"}),
    ("Hostfile contains multiple", "ZC021", "node-1 slots=8\nnode-1 slots=8\n", {"name": "hostfile"}),
    ("Hostfile is empty", "ZC022", "", {"name": "hostfile"}),
    ("Detected", "ZC513", f"CUDA_VISIBLE_DEVICES=0,1 {SCRIPT}", script()),
    ("No module named", "ZC507", "python train.py --deepspeed ds.json", script()),
    (
        "Tried to launch",
        "ZC289",
        f"num_machines: 2\nmain_process_port: 0\n{YAML}  deepspeed_multinode_launcher: standard\n",
        {"name": "a.yaml"},
    ),
    ("CUDA error: invalid", "ZC314", "deepspeed --num_gpus 16 train.py --deepspeed ds.json", {**script(), **A100}),
    (
        "CUDA error: invalid",
        "ZC515",
        "#!/bin/bash\n#SBATCH --nodes=1 --gres=gpu:4\nsrun torchrun --nproc_per_node 8 train.py --deepspeed ds.json\n",
        script(),
    ),
    ("You cannot use", "ZC514", "accelerate launch --use_parallelism_config train.py", {"name": "a.sh"}),
]


def installed(name):
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def text_of(pattern):
    """The sources of a module, with the pieces of each string joined."""
    text = "".join(path.read_bytes().decode("utf-8", "ignore") for path in INSTALLED.glob(pattern))
    return re.sub(r"""(["'])\s*\\?\n\s*f?\1""", "", text).replace("\\'", "'")


def test_every_entry_is_read():
    assert len(ENTRIES) + PAGE.count("### No message") == PAGE.count("\n### ")
    assert len(FROM_FILES) >= 50


@pytest.mark.skipif(
    any(installed(name) != release for name, release in RELEASES.items()), reason="the messages are other releases'"
)
@pytest.mark.parametrize(("message", "source"), FROM_FILES, ids=[message[:40] for message, _ in FROM_FILES])
def test_the_message_is_the_librarys(message, source):
    path, *written_as = re.findall(r"`([^`]+)`", source)
    text = text_of(path)
    for piece in (part.strip() for part in (written_as or [message])[0].split("...")):
        assert piece in text


def test_the_rules_named_exist():
    named = set(re.findall(r"ZC\d{3}", PAGE))
    assert named <= set(RULES)
    assert len(named) >= 60


@pytest.mark.parametrize(("begins", "code", "content", "how"), CAUGHT, ids=[f"{one[1]}-{one[0]}" for one in CAUGHT])
def test_the_cause_is_found_beforehand(begins, code, content, how):
    assert code in {finding.rule.code for finding in linted(content, **how).findings}
    (entry,) = re.findall(rf"^### `+ ?{re.escape(begins)}.*\n\n(.+)", PARAGRAPHS, re.MULTILINE)
    assert code in entry


def test_every_issue_has_its_address():
    used = set(re.findall(r"\[([\w-]+#\d+)\](?![:(])", PAGE))
    assert used == set(re.findall(r"^\[([\w-]+#\d+)\]: https://github\.com/\S+/issues/\d+$", PAGE, re.MULTILINE))
