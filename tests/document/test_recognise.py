"""What a file is, by what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroconf.document.read import parse_document, sniff

DS = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}'


@pytest.mark.parametrize(
    ("name", "text", "syntax", "kind", "configs"),
    [
        ("x.json", DS, "json", "ds_config", ((),)),
        ("x.yaml", DS, "json", "ds_config", ((),)),
        ("x.conf", DS, "json", "ds_config", ((),)),
        ("x.json", "{}", "json", "ds_config", ((),)),
        ("x.json", '{"offload_optimizer": {"device": "cpu"}}', "json", "ds_config", ((),)),
        ("x.json", '{"a": {"deepspeed": {"bf16": {"enabled": true}}}}', "json", "ds_config", (("a", "deepspeed"),)),
        ("x.json", '{"model_type": "llama", "hidden_size": 4096}', "json", "unknown", ()),
        ("x.json", "{", "json", "ds_config", ()),
        ("x.yaml", "deepspeed:\n  zero_optimization: {stage: 2}\nlr: 1\n", "yaml", "ds_config", (("deepspeed",),)),
        ("x.yaml", "a: {zero_optimization: {}}\nb: {zero_optimization: {}}", "yaml", "ds_config", (("a",), ("b",))),
        ("x.yaml", "train_micro_batch_size_per_gpu: 1\n", "yaml", "ds_config", ((),)),
        ("x.yaml", "distributed_type: DEEPSPEED\nnum_processes: 8\n", "yaml", "accelerate", ()),
        ("x.yaml", "distributed_type: FSDP\nfsdp_config: {}\n", "yaml", "accelerate", ()),
        ("x.yaml", "num_machines: 1\nnum_processes: 8\nmixed_precision: bf16\n", "yaml", "accelerate", ()),
        ("x.yaml", '{"distributed_type": "DEEPSPEED", "num_processes": 8}', "yaml", "accelerate", ()),
        ("x.json", '{"distributed_type": "DEEPSPEED", "num_processes": 8}', "json", "accelerate", ()),
        ("x.yaml", "deepspeed: ds_z3.json\ntrain_batch_size: 4\nlearning_rate: 1.0e-5\n", "yaml", "unknown", ()),
        ("x.yaml", "a: 1\n", "yaml", "unknown", ()),
        ("x.yaml", "a: [1\n", "yaml", "unknown", ()),
        ("x.yml", '{"pipe_parallel_size": 1, "zero_optimization": {"stage": 1}}', "json", "foreign", ()),
        ("x.yml", "fp16: {fp16: true}\ntrain_micro_batch_size_per_gpu: 4\n", "yaml", "foreign", ()),
        ("x.json", '{"num-layers": 12, "zero_optimization": {"stage": 1}}', "json", "foreign", ()),
        ("x.json", '{"zeroOptimization": {"stage": 1}}', "json", "ds_config", ((),)),
        ("x.yaml", "trainMicroBatchSizePerGPU: 1\n", "yaml", "ds_config", ((),)),
        ("x.yaml", "run: {zeroOptimization: {stage: 1}}\n", "yaml", "ds_config", (("run",),)),
        ("x.yaml", "trainBatchSize: 1\nlearningRate: 1.0e-5\n", "yaml", "unknown", ()),
        ("hostfile", "node-1 slots=8\n", "hostfile", "hostfile", ()),
        ("hosts.txt", "node-1\nnode-2\n", "hostfile", "hostfile", ()),
        ("anything", "# ours\nnode-1 slots=8\n", "hostfile", "hostfile", ()),
    ],
)  # fmt: skip
def test_kinds(name, text, syntax, kind, configs):
    document = parse_document(text.encode(), name)
    if kind != "foreign":
        assert document.syntax == syntax
    assert document.kind == kind
    assert document.configs == configs
    assert bool(document.note) == (kind in {"unknown", "foreign", "template"})


@pytest.mark.parametrize(
    "text",
    [
        '{"zero_optimization": {"stage": ZERO_STAGE,\n "overlap_comm": true}}',
        '{"train_batch_size": CONFIG_BATCH,\n"steps_per_print": 1}',
        '{"train_batch_size": "$BATCH"}',
        '{"train_batch_size": BATCH, "zero_optimization": {"stage": ZERO_STAGE}}',
        '{"train_batch_size": ${BATCH}\n}',
        '{"train_batch_size": {{ batch }}, "zero_optimization": {"stage": 2}}',
        '{"zero_optimization": {"stage": {stage}}}',
        '{"zero_optimization": {"stage": [0, 1, 2]}}',
        '{"train_batch_size": "<batch size>"}',
    ],
)
def test_templates(text):
    document = parse_document(text.encode(), "x.json")
    assert document.kind == "template"
    assert document.note


def test_a_shell_variable_in_a_path_is_no_template():
    text = '{"zero_optimization": {"offload_param": {"nvme_path": "/scratch/$USER"}}, "bf16": {"enabled": "auto"}}'
    assert parse_document(text.encode(), "x.json").kind == "ds_config"
    accelerate = "distributed_type: MULTI_GPU\ncompute_environment: LOCAL_MACHINE\nmixed_precision: BF16\n"
    assert parse_document(accelerate.encode(), "x.yaml").kind == "accelerate"


@pytest.mark.parametrize(
    ("content", "may_be_ours"),
    [
        (DS.encode(), True),
        (b"compute_environment: LOCAL_MACHINE\n", True),
        (b'{"fp16": {"enabled": true}}', True),
        (b"# hosts\nnode-1 slots=8\n", True),
        (b"{}", False),
        (b'{"name": "package", "version": "1.0"}', False),
        (b"\x00\xff" * 100, False),
    ],
)
def test_sniffing(content, may_be_ours):
    assert sniff(content) is may_be_ours


def test_a_schema_of_configurations_is_none():
    schemas = Path(__file__).parent.parent.parent / "schemas"
    for name in ("ds_config.schema.json", "accelerate.schema.json"):
        document = parse_document((schemas / name).read_bytes(), name)
        assert (document.kind, document.note) == ("foreign", "a JSON Schema, not a configuration")


def test_a_kubernetes_manifest_is_named_as_one():
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a.json: |\n    {zero_optimization: 1}\n"
    document = parse_document(text, "k8s.yaml")
    assert (document.kind, document.note[:21]) == ("unknown", "a Kubernetes manifest")


def test_a_manifest_may_hold_a_deepspeed_block():
    text = b"apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec: {deepspeed: {zero_optimization: {stage: 2}}}\n"
    assert parse_document(text, "k8s.yaml").configs == (("spec", "deepspeed"),)


@pytest.mark.parametrize("body", ["one slots=8", "apiVersion: v1\nkind: Job\nmetadata: {name: a}"])
def test_a_script_that_writes_another_file_is_a_script(body):
    content = f"cat > other <<EOF\n{body}\nEOF\ndeepspeed train.py\n".encode()
    assert parse_document(content, "a.sh").kind == "script"


def test_a_configuration_may_name_its_schema():
    content = b'{"$schema": "ds_config.schema.json", "train_batch_size": 8}'
    assert parse_document(content, "a.json").kind == "ds_config"


def test_a_broken_yaml_with_words_in_capitals_is_no_template():
    content = b"compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config:\n\tzero_stage: 2\n"
    document = parse_document(content, "a.yaml")
    assert (document.root, document.kind) == (None, "ds_config")
