"""Rules for Accelerate YAML: gates by release, severities by the neighbours, fixes, and values of any kind."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.document.read import parse_document
from zeroconf.keys import newest_releases
from zeroconf.lint import lint_document
from zeroconf.rules import RULES

NEWEST = newest_releases()
ON_TWO = {"num_machines": 2, "num_processes": 16, "main_process_ip": "10.0.0.1"}


def text_of(inline=None, **top):
    values = {"distributed_type": "DEEPSPEED", "num_processes": 8, **top}
    if inline is not None:
        values["deepspeed_config"] = inline
    return yaml.safe_dump(values, sort_keys=False)


def findings(text, **releases):
    document = parse_document(text.encode(), "accelerate.yaml")
    assert document.kind == "accelerate"
    found = lint_document(document, releases=NEWEST._replace(**releases)).findings
    return [finding for finding in found if "accelerate" in finding.rule.needs]


def drawn(text, **releases):
    return {(finding.rule.code, finding.severity) for finding in findings(text, **releases)}


def fixed(text, code, **releases):
    """The file after the fix of its only finding of a rule."""
    (fix,) = [finding.fix for finding in findings(text, **releases) if finding.rule.code == code]
    assert fix is not None
    for edit in sorted(fix.edits, key=lambda one: one.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    assert code not in {found for found, _ in drawn(text, **releases)}
    return yaml.safe_load(text), fix.safe


COMPLETE = {"zero_stage": 2, "gradient_clipping": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        text_of(COMPLETE),
        text_of({**COMPLETE, "deepspeed_multinode_launcher": "standard"}, num_machines=1),
        text_of({**COMPLETE, "gradient_accumulation_steps": "auto", "offload_optimizer_device": "cpu"}),
        text_of(
            {"zero_stage": 3, "zero3_save_16bit_model": True, "zero3_init_flag": True, "gradient_clipping": "auto"}
        ),
        text_of({"deepspeed_config_file": "ds_config.json", "zero3_init_flag": True}),
        text_of(COMPLETE, downcast_bf16="no", tpu_env=[], tpu_use_sudo=False, tpu_use_cluster=False, fsdp_config={}),
        text_of({}, distributed_type="MULTI_GPU"),
        text_of(distributed_type="FSDP", fsdp_config={"fsdp_version": 2}),
        text_of(
            COMPLETE, mixed_precision="no", machine_rank=0, rdzv_backend="static", same_network=True, use_cpu=False
        ),
    ],
)
def test_what_accelerate_config_writes_draws_nothing(text):
    assert drawn(text) == set()


def test_values_left_to_the_command_line_are_worth_knowing_at_most():
    unsaid = text_of({**COMPLETE, "deepspeed_multinode_launcher": "standard"}, num_processes=None, num_machines=None)
    assert drawn(unsaid) == {("ZC282", "info")}
    generated = text_of({"deepspeed_config_file": "ds.json", "deepspeed_multinode_launcher": "standard"}, **ON_TWO)
    assert drawn(generated) == set()
    assert drawn(generated.replace("main_process_ip: 10.0.0.1\n", "")) == {("ZC282", "info")}


def test_an_address_that_is_only_a_placeholder_is_named():
    standard = {**COMPLETE, "deepspeed_multinode_launcher": "standard"}
    (found,) = findings(text_of(standard, **{**ON_TWO, "main_process_ip": "xxx.xxx.xxx.xxx"}))
    assert found.message == "the launch needs --main_process_ip: 'xxx.xxx.xxx.xxx' is only a placeholder"


def test_a_field_at_the_top_level_moves_into_the_block():
    values, safe = fixed("distributed_type: DEEPSPEED\nnum_processes: 8\nzero_stage: 3\n", "ZC131")
    assert values == {"distributed_type": "DEEPSPEED", "num_processes": 8, "deepspeed_config": {"zero_stage": 3}}
    assert safe


def test_keys_are_known_by_release():
    text = text_of(COMPLETE, enable_cpu_affinity=True)
    assert ("ZC131", "error") not in drawn(text)
    assert ("ZC131", "error") in drawn(text, accelerate=(0, 20, 3))
    experts = text_of({"zero_stage": 3, "deepspeed_moe_layer_cls_names": "MixtralSparseMoeBlock"})
    assert ("ZC132", "error") not in drawn(experts)
    assert ("ZC132", "error") in drawn(experts, accelerate=(0, 29, 3))


@pytest.mark.parametrize(
    ("key", "value", "severity"),
    [
        ("ofload_optimizer_device", "cpu", "error"),
        ("stage3_gather_16bit_weights_on_model_save", True, "error"),
        ("reduce_bucket_size", 1000, "error"),
        ("zero_optimization", {"stage": 3}, "error"),
        ("reduce_bucket_size", 500_000_000, "warning"),
        ("bf16_enabled", True, "warning"),
        ("mixed_precision", "bf16", "info"),
        ("distributed_type", "DEEPSPEED", "error"),
    ],
)
def test_ignored_keys_weigh_what_is_lost(key, value, severity):
    assert drawn(text_of({**COMPLETE, key: value})) == {("ZC132", severity)}


def test_a_misspelt_field_is_renamed():
    values, safe = fixed(text_of({**COMPLETE, "ofload_optimizer_device": "cpu"}), "ZC132")
    assert values["deepspeed_config"] == {**COMPLETE, "offload_optimizer_device": "cpu"}
    assert safe


def test_a_word_in_the_wrong_case_is_corrected():
    assert fixed(text_of(COMPLETE, distributed_type="deepspeed"), "ZC134")[0]["distributed_type"] == "DEEPSPEED"
    assert fixed(text_of(COMPLETE, mixed_precision="bfloat16"), "ZC134")[0]["mixed_precision"] == "bf16"


def test_gpu_ids_are_quoted():
    assert fixed(text_of(COMPLETE, num_processes=1, gpu_ids=0), "ZC135")[0]["gpu_ids"] == "0"


def test_clipping_none_was_taken_once_and_auto_is_new():
    none, auto = (text_of({"zero_stage": 2, "gradient_clipping": word}) for word in ("none", "auto"))
    assert drawn(none) == {("ZC135", "error")}
    assert drawn(none, accelerate=(0, 29, 3)) == set()
    assert drawn(auto) == set()
    assert drawn(auto, accelerate=(0, 29, 3)) == {("ZC135", "error")}


def test_clipping_off_stayed_off_before_deepspeed_0_19_3():
    off = text_of({"zero_stage": 2, "gradient_clipping": 0.0})
    assert drawn(off) == {("ZC273", "error")}
    assert drawn(off, deepspeed=(0, 19, 2)) == set()


def test_every_refused_field_beside_a_file_is_named():
    text = text_of(
        {"deepspeed_config_file": "ds.json", "zero_stage": None, "gradient_clipping": 1.0}, mixed_precision="no"
    )
    paths = [finding.path for finding in findings(text) if finding.rule.code == "ZC270"]
    assert sorted(paths) == sorted(
        [("deepspeed_config", "zero_stage"), ("deepspeed_config", "gradient_clipping"), ("mixed_precision",)]
    )


def test_nvme_below_stage_3_is_named_once():
    assert drawn(text_of({**COMPLETE, "offload_param_device": "nvme"})) == {("ZC272", "error")}
    assert drawn(text_of({**COMPLETE, "offload_optimizer_device": "nvme"})) == {("ZC271", "error")}


def test_processes_count_all_machines():
    block = {**COMPLETE, "deepspeed_multinode_launcher": "standard"}
    (finding,) = findings(text_of(block, **ON_TWO | {"num_processes": 15}))
    assert "15 // 2 = 7 on each, 14 in all" in finding.message
    hosts = {**COMPLETE, "deepspeed_hostfile": "hostfile", "deepspeed_inclusion_filter": "node-1"}
    assert drawn(text_of(hosts, **ON_TWO | {"num_processes": 15})) == set()  # the filter counts


def test_an_unknown_launcher_matters_on_several_machines_only():
    block = {**COMPLETE, "deepspeed_multinode_launcher": "torchrun"}
    assert drawn(text_of(block)) == {("ZC285", "info")}
    assert drawn(text_of({**block, "deepspeed_hostfile": "hostfile"}, **ON_TWO)) == {("ZC285", "error")}


NAMES = ["zero_stage", "offload_param_device", "gradient_clipping", "zero3_init_flag", "deepspeed_config_file"]
TOP = ["distributed_type", "num_processes", "num_machines", "machine_rank", "main_process_ip", "gpu_ids", "use_cpu"]
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["auto", "none", "DEEPSPEED", "cpu", "nvme", "standard", "user@host", "", "²", "1_0", "9" * 40]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=1),
)


@given(st.dictionaries(st.sampled_from(TOP), ANY), st.one_of(ANY, st.dictionaries(st.sampled_from(NAMES), ANY)))
@settings(deadline=None, max_examples=150)
def test_no_rule_fails_on_any_value(top, block):
    text = yaml.safe_dump({"distributed_type": "DEEPSPEED", **top, "deepspeed_config": block})
    document = parse_document(text.encode(), "accelerate.yaml")
    for finding in lint_document(document, releases=NEWEST).findings:
        assert finding.rule.code in RULES


@pytest.mark.parametrize(
    ("processes", "key", "value"),
    [(2, "gpu_ids", "all"), (1, "distributed_type", "NO")],
)
def test_one_gpu_of_several_is_all_of_them_or_no_distribution(processes, key, value):
    text = text_of(distributed_type="MULTI_GPU", num_processes=processes, gpu_ids="0")
    assert ("ZC290", "error") in drawn(text)
    after, is_safe = fixed(text, "ZC290")
    assert after[key] == value
    assert not is_safe


@pytest.mark.parametrize(("inside", "said"), [(2, "which is 2 there already"), (3, "which is there already")])
def test_a_field_at_the_top_level_and_in_the_block_is_told_both_values(inside, said):
    text = f"distributed_type: DEEPSPEED\nnum_processes: 8\nzero_stage: 3\ndeepspeed_config:\n  zero_stage: {inside}\n"
    (one,) = [one for one in findings(text) if one.rule.code == "ZC131"]
    assert one.message.endswith(f"as deepspeed_config.zero_stage, {said}")
    assert one.fix is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "put it in one and name that in deepspeed_config_file"),
        ("  deepspeed_config_file: ds.json\n", "which deep"),
    ],
)
def test_a_key_of_deepspeed_is_sent_to_a_file_that_is_there(more, said):
    text = f"distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  overlap_comm: true\n{more}"
    (one,) = [one for one in findings(text) if one.pointer.endswith("overlap_comm")]
    assert said in one.message
