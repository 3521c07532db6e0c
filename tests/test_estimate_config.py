"""``estimate CONFIG``: the file's values are what is computed, or it is said that they are not."""

from __future__ import annotations

import itertools
import json

import pytest

from zeroconf import api
from zeroconf.errors import InputError

BASE = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"}
QUANTIZED = {"zero_quantized_weights": True}
NONTRAINABLE = "zero_quantized_nontrainable_weights"


def of_file(tmp_path, content, **options):
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    facts, (cost,) = api.estimate(api.load_facts({**BASE, **options})[0], path)
    return facts, cost


def test_our_own_output_is_no_configuration(tmp_path):
    with pytest.raises(InputError, match="what zeroconf --json prints, no configuration"):
        of_file(tmp_path, {"schema": "zeroconf/generate/1", "plan": {"stage": 2}})


@pytest.mark.parametrize(
    ("options", "reader"),
    list(
        itertools.product(
            [
                {},
                {"model": "70B", "hardware": "4x8xA100-80GB", "network": "ib-hdr"},
                {"model": "13B", "hardware": "4x4xA100-80GB", "network": "10gbe"},
                {"model": "65B", "hardware": "4x8xA100-40GB", "seq_len": 2048},
                {"model": "llama-3.2-1b", "hardware": "1xRTX4090"},
                {"model": "13B", "hardware": "2xV100-32GB", "host_memory": "512GiB"},
                {"optimizer": "adamw-8bit", "frozen_params": "7B"},
                {"hardware": "1xRTX4090", "lora_rank": 16, "quantize": "nf4"},
            ],
            ["trainer", "accelerate", "deepspeed"],
        )
    ),
)
def test_a_generated_file_costs_what_generate_predicted(tmp_path, options, reader):
    options = {**BASE, **options}
    facts, _ = api.load_facts({**options, "reader": reader})
    path = str(tmp_path / "ds_config.json")
    made = api.generate(facts, output=path)
    (tmp_path / "ds_config.json").write_text(made.files[path], encoding="utf-8")
    _, (cost,) = api.estimate(facts, tmp_path / "ds_config.json")
    chosen = made.decision.chosen
    assert cost.gpu == chosen.estimate.gpu
    assert cost.step == chosen.estimate.step
    assert cost.plan == chosen.plan


@pytest.mark.parametrize(
    ("options", "zero", "message"),
    [
        ({"optimizer": "adamw-8bit"}, {"offload_optimizer": {"device": "cpu"}}, "under offload .*ds_config.json"),
        (
            {"quantize": "nf4", "lora_rank": 16},
            {"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
            "packed weights on the GPU",
        ),
    ],
)
def test_offload_of_what_stays_on_the_gpu(tmp_path, options, zero, message):
    content = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
    with pytest.raises(InputError, match=message):
        of_file(tmp_path, content | {"zero_optimization": {"stage": 3, **zero}}, **options)


def test_the_facts_are_the_files(tmp_path):
    content = {"fp16": {"enabled": True}, "train_micro_batch_size_per_gpu": 4, "train_batch_size": 64}
    facts, cost = of_file(tmp_path, content | {"optimizer": {"type": "SGD"}})
    assert (facts.workload.precision, facts.workload.optimizer) == ("fp16", "sgd")
    assert (cost.plan.micro_batch_size, cost.plan.gradient_accumulation_steps) == (4, 2)
    assert facts.workload.global_batch_size == 64
    # SGD keeps the fp32 copy alone
    assert cost.gpu.moments["forward"].optimizer_states == 4 * facts.model.num_parameters


def test_an_empty_file_is_fp32_and_says_so(tmp_path):
    facts, cost = of_file(tmp_path, {})
    assert facts.workload.precision == "fp32"
    assert facts.workload.global_batch_size == 8
    assert cost.plan.stage == 0


def test_an_auto_leaves_the_precision_to_the_option(tmp_path):
    facts, _ = of_file(tmp_path, {"bf16": {"enabled": "auto"}})
    assert facts.workload.precision == "bf16"


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (
            {"train_batch_size": 100, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 7},
            {},
            "3 x 7 x 8",
        ),
        ({"train_batch_size": 4}, {}, "DeepSpeed refuses"),
        ({"bf16": {"enabled": True}, "fp16": {"enabled": True}}, {}, "both enabled"),
        ({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 3}}, {}, "does not divide"),
        ({"zero_optimization": {"stage": 3, **QUANTIZED}}, {"hardware": "3xA100-80GB"}, "no multiple of 8"),
        ({"zero_optimization": {"stage": 3, "reduce_bucket_size": 0}}, {}, "1 or more"),
        ({"train_micro_batch_size_per_gpu": 10**17}, {}, "at most"),
        ({"train_micro_batch_size_per_gpu": 2}, {"micro_batch_size": 4}, "contradicts"),
        ({"zero_optimization": {"stage": 2}}, {"zero_stage": 3}, "contradicts"),
        ({"zero_optimization": {"stage": 2}}, {"offload": "optimizer"}, "contradicts"),
    ],
)
def test_contradictions_are_named(tmp_path, content, options, words):
    with pytest.raises(InputError, match=words):
        of_file(tmp_path, content, **options)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"compile": {"deepcompile": True}}, "compile"),
        ({"hybrid_engine": {"enabled": True}}, "hybrid_engine"),
        ({"optimizer": {"type": "OneBitAdam"}}, "OneBitAdam"),
        ({"zero_optimization": {"stage": 3, "zenflow": {"topk_ratio": 0.1}}}, "zenflow"),
        ({"zero_optimization": {"stage": 3, NONTRAINABLE: True}}, NONTRAINABLE),
    ],
)
def test_what_has_no_formula_is_named(tmp_path, content, key):
    facts, _ = of_file(tmp_path, content)
    assert any("not modelled" in note and key in note for note in facts.workload.assumptions)


@pytest.mark.parametrize(
    "content",
    [
        {"zero_optimization": {"stage": 2, NONTRAINABLE: True}},
        {"zero_optimization": {"stage": 3, NONTRAINABLE: False}},
        {"hybrid_engine": {"enabled": False, "max_out_tokens": 512}},
        {"hybrid_engine": {"max_out_tokens": 512}},
        {"compile": {"deepcompile": False}},
    ],
)
def test_what_has_no_effect_needs_no_formula(tmp_path, content):
    facts, _ = of_file(tmp_path, content)
    assert not any("not modelled" in note for note in facts.workload.assumptions)


@pytest.mark.parametrize("key", ["zero_quantized_weights", "zero_quantized_gradients"])
def test_buffers_of_quantized_communication_are_said_not_to_count(tmp_path, key):
    facts, _ = of_file(tmp_path, {"zero_optimization": {"stage": 3, key: True}})
    assert any("quantized weights and gradients are not counted" in note for note in facts.workload.assumptions)
    facts, _ = of_file(tmp_path, {"zero_optimization": {"stage": 2, key: True}})
    assert not any("quantized" in note for note in facts.workload.assumptions)


BF16 = {"bf16": {"enabled": True}}
CPU = {"device": "cpu"}


def zero(stage, **keys):
    return BF16 | {"zero_optimization": {"stage": stage} | keys}


@pytest.mark.parametrize(
    ("without", "key", "moment"),
    [
        (zero(1), {"data_types": {"grad_accum_dtype": "fp32"}}, "backward"),
        (zero(3), {"communication_data_type": "fp32"}, "step"),
        (zero(2) | {"bf16": {"enabled": False}}, {"torch_autocast": {"enabled": True}}, "backward"),
        (zero(2), {"optimizer": {"type": "SGD"}}, "step"),
        (zero(2), {"optimizer": {"type": "AdamW", "params": {"torch_adam": True, "foreach": False}}}, "step"),
        (zero(0), {"optimizer": {"type": "Adafactor"}}, "step"),
        (zero(3), zero(3, contiguous_gradients=False), "step"),
        (zero(2), zero(2, reduce_scatter=False), "backward"),
        (zero(3), zero(3, stage3_max_live_parameters=10**8, stage3_max_reuse_distance=10**8), "forward"),
        (zero(3), zero(3, sub_group_size=10**8), "step"),
    ],
)
def test_a_key_that_changes_memory_changes_the_figures(tmp_path, without, key, moment):
    _, base = of_file(tmp_path, without, seq_len=512)
    facts, changed = of_file(tmp_path, without | key, seq_len=512)
    assert changed.gpu.moments[moment] != base.gpu.moments[moment]
    assert not any("not modelled" in note for note in facts.workload.assumptions)


def test_stage_3_limits_of_zero_are_legal(tmp_path):
    zero = {"stage": 3, "sub_group_size": 0, "stage3_prefetch_bucket_size": 0, "stage3_max_live_parameters": 0}
    _, cost = of_file(tmp_path, {"zero_optimization": zero})
    assert cost.step.total_seconds < 3600
    _, cost = of_file(tmp_path, {"zero_optimization": zero | {"offload_optimizer": CPU}})
    assert cost.step.total_seconds < 3600


def test_without_a_file_pins_choose_the_columns():
    facts, _ = api.load_facts({**BASE, "offload": "optimizer"})
    assert [cost.plan.stage for cost in api.estimate(facts)[1]] == [1, 2, 3]
    facts, _ = api.load_facts({**BASE, "zero_stage": 2})
    assert [cost.plan.offload for cost in api.estimate(facts)[1]] == ["none"]


def test_the_release_that_is_named_is_what_is_estimated(tmp_path):
    content = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 0}}
    old = of_file(tmp_path, content, deepspeed_version="0.16.9")[1].gpu
    new = of_file(tmp_path, content)[1].gpu
    # BF16_Optimizer partitions the states of 12 bytes per parameter
    assert old.moments["step"].optimizer_states * 8 == new.moments["step"].optimizer_states


def test_generate_searches_by_the_release_that_is_named():
    options = {**BASE, "zero_stage": 2, "offload": "optimizer", "model": "13B"}
    old, new = (
        api.decide(api.load_facts({**options, "deepspeed_version": release})[0]).candidates[0].estimate
        for release in ("0.18.6", "0.18.7")
    )
    assert old.gpu.moments["init"].total < new.gpu.moments["init"].total


@pytest.mark.parametrize(("flag", "partitioned"), [("", True), ("true", True), ("false", False), ("'no'", False)])
def test_an_accelerate_yaml_says_whether_the_model_is_built_partitioned(tmp_path, flag, partitioned):
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 3}}), encoding="utf-8")
    for fields in ("zero_stage: 3", "deepspeed_config_file: ds.json"):
        said = f", zero3_init_flag: {flag}" if flag else ""
        text = f"distributed_type: DEEPSPEED\ndeepspeed_config: {{{fields}{said}}}\n"
        (tmp_path / "acc.yaml").write_text(text, encoding="utf-8")
        facts, (cost,) = api.estimate(api.load_facts(BASE)[0], tmp_path / "acc.yaml")
        assert cost.plan.zero_init is partitioned
        assert (cost.gpu.moments["init"].parameters < 2 * facts.model.num_parameters) is partitioned


PLAIN = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.json", "\ufeff" + json.dumps(PLAIN)),
        (
            "x.json",
            (
                "{\n  // ours\n  train_micro_batch_size_per_gpu: 2\n  gradient_accumulation_steps: 4\n"
                "  'zero_optimization': {'stage': 2,},\n}"
            ),
        ),
        ("x.hjson", "train_micro_batch_size_per_gpu: 2\ngradient_accumulation_steps: 4\nzero_optimization: {stage: 2}"),
        ("x.yaml", json.dumps(PLAIN)),
        ("train.yaml", "lr: 1.0e-5\ndeepspeed:\n" + "".join(f"  {k}: {json.dumps(v)}\n" for k, v in PLAIN.items())),
        ("acc.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: named.json}\n"),
    ],
)
def test_a_file_is_read_as_deepspeed_and_accelerate_read_it(tmp_path, name, text):
    (tmp_path / "named.json").write_text("{# as HJSON\n" + json.dumps(PLAIN)[1:], encoding="utf-8")
    (tmp_path / name).write_text(text, encoding="utf-8")
    _, (cost,) = api.estimate(api.load_facts(BASE)[0], tmp_path / name)
    _, expected = of_file(tmp_path, PLAIN)
    assert cost.plan == expected.plan


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("x.json", '{"train_batch_size": 8 "a": 1}', "x.json:1:23: not JSON: a comma is missing"),
        ("x.json", "{'train_batch_size': 8, 'bf16': {'enabled': True}}", "x.json:1:2: not JSON: this is a Python dict"),
        ("x.json", "", "the file is empty"),
        ("x.json", "[1]", "a configuration is a mapping"),
        ("x.json", '{"train_batch_size": "${BATCH}", "bf16": {}}', "a template"),
        ("x.json", '{"model_type": "llama"}', "neither a DeepSpeed nor an Accelerate configuration"),
        ("x.yaml", "a: {zero_optimization: {}}\nb: {zero_optimization: {}}", "2 DeepSpeed blocks"),
        ("x.yaml", "zero_optimization: {stage: 2}\n---\na: 1\n", "x.yaml:2:1: not YAML: a second YAML document"),
        ("x.yaml", "distributed_type: FSDP\nfsdp_config: {}\n", "no deepspeed_config in this YAML"),
        (
            "x.yaml",
            "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: x.yaml}\n",
            "no ds_config.json",
        ),
    ],
)
def test_a_file_that_nobody_reads_is_refused_with_its_place(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        api.estimate(api.load_facts(BASE)[0], tmp_path / name)


ALL_SAID = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": True}}


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"precision": "fp32"}, "--precision fp32 contradicts .*, which says bf16"),
        ({"optimizer": "sgd"}, "--optimizer sgd contradicts .*, which says AdamW"),
        ({"client_optimizer": True}, "--client-optimizer contradicts .*, which says AdamW"),
        ({"global_batch_size": 128}, "--global-batch-size 128 contradicts .* = 2 x 4 x 8"),
    ],
)
def test_no_option_is_ignored_where_the_file_says_otherwise(tmp_path, option, sentence):
    content = ALL_SAID | {"optimizer": {"type": "AdamW"}}
    of_file(tmp_path, content, precision="bf16", optimizer="adamw", global_batch_size=64)
    with pytest.raises(InputError, match=sentence):
        of_file(tmp_path, content, **option)


def test_a_global_batch_fills_the_accumulation_that_the_file_leaves_open(tmp_path):
    _, cost = of_file(tmp_path, {"train_micro_batch_size_per_gpu": 2}, global_batch_size=64)
    assert (cost.plan.micro_batch_size, cost.plan.gradient_accumulation_steps) == (2, 4)
    _, cost = of_file(tmp_path, {"gradient_accumulation_steps": 2}, global_batch_size=64)
    assert (cost.plan.micro_batch_size, cost.plan.gradient_accumulation_steps) == (4, 2)
    _, cost = of_file(tmp_path, {"zero_optimization": {"stage": 1}}, global_batch_size=64)
    assert (cost.plan.micro_batch_size, cost.plan.gradient_accumulation_steps) == (1, 8)


def test_accelerate_adds_the_precision_that_deepspeed_would_miss(tmp_path):
    content = {"zero_optimization": {"stage": 2}}
    assert of_file(tmp_path, content, precision="bf16")[0].workload.precision == "bf16"
    assert of_file(tmp_path, content)[0].workload.precision == "fp32"
    with pytest.raises(InputError, match="which says fp32"):
        of_file(tmp_path, content, precision="bf16", reader="deepspeed")


def test_a_batch_that_gives_a_gpu_nothing_is_told_in_whole_sequences(tmp_path):
    with pytest.raises(InputError, match=r"train_batch_size 7 is not .* = 1 x 1 x 8"):
        of_file(tmp_path, {"train_batch_size": 7})


@pytest.mark.parametrize("block", ["zero_optimization", "bf16", "fp16", "torch_autocast", "data_types", "optimizer"])
def test_a_block_that_is_a_plain_value_is_refused(tmp_path, block):
    with pytest.raises(InputError, match=f'{block} is "auto", not an object; write {{'):
        of_file(tmp_path, {"train_batch_size": 8, block: "auto"})


@pytest.mark.parametrize("block", ["offload_optimizer", "offload_param"])
def test_an_offload_that_is_a_plain_value_is_refused_not_left_out(tmp_path, block):
    with pytest.raises(InputError, match=f'{block} is "cpu", not an object'):
        of_file(tmp_path, {"zero_optimization": {"stage": 3, block: "cpu"}})
    of_file(tmp_path, {"zero_optimization": {"stage": 3, block: None}, "bf16": None})


@pytest.mark.parametrize(("host", "said"), [("32GiB", True), ("2TiB", False)])
def test_a_node_that_is_too_small_is_named_beside_a_card_that_is_not(tmp_path, host, said):
    content = ALL_SAID | {"zero_optimization": {"stage": 3, "offload_optimizer": CPU}}
    facts, cost = of_file(tmp_path, content, host_memory=host)
    assert cost.verdict == "comfortable"
    assert any("its node does not: it needs" in note for note in facts.workload.assumptions) is said


FP32_ZERO_2 = {"gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2}}


@pytest.mark.parametrize(
    ("content", "options", "backward"),
    [
        (FP32_ZERO_2, {"model": "gpt2", "hardware": "12xA100-80GB", "seq_len": 1024}, 4_035_934_680),
        (
            zero(2) | {"train_micro_batch_size_per_gpu": 4},
            {"model": "t5-large", "hardware": "8xA100-80GB", "seq_len": 512},
            10_142_492_812,
        ),
    ],
)
def test_the_gradient_of_a_tied_matrix_is_there_while_the_blocks_are_at_work(tmp_path, content, options, backward):
    """Bytes are those of DeepSpeed 0.19.8's dry run."""
    given = {"attention": "sdpa", "activation_checkpointing": "none"} | options
    _, cost = of_file(tmp_path, content, **given)
    parts = cost.gpu.moments["backward"]
    assert parts.total - parts.overhead == pytest.approx(backward, rel=0.003)
