"""What the rules on the text say for each reader, and that their fixes leave what was meant."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader
from zeroconf.rules.text.fixes import as_json

READERS = {name: Reader(name, stated=True) for name in ("deepspeed", "trainer", "accelerate")} | {None: Reader()}


def lint(text, reader=None, name="x.json"):
    """The findings of this family by code."""
    content = text if isinstance(text, bytes) else text.encode()
    document = parse_document(content, name)
    findings = lint_document(document, reader=READERS[reader]).findings
    return {finding.rule.code: finding for finding in findings if finding.rule.code < "ZC100"}


def severities(text, reader=None, name="x.json"):
    return {code: finding.severity for code, finding in lint(text, reader, name).items()}


def fixed(text, code, reader=None, name="x.json"):
    """The text after the one fix; the finding is gone then."""
    fix = lint(text, reader, name)[code].fix
    assert fix is not None
    after = apply(text, fix.edits)
    assert code not in lint(after, reader, name)
    return after


COMMENTED = '{\n  // why\n  "train_batch_size": 8,  # all of it\n  "zero_optimization": {"stage": 2,},\n}\n'


def test_hjson_is_an_error_only_where_json_load_reads():
    assert severities(COMMENTED, "trainer") == {"ZC002": "error"}
    assert severities(COMMENTED, "accelerate") == {"ZC002": "error"}
    assert severities(COMMENTED) == {"ZC002": "info"}
    assert severities(COMMENTED, "deepspeed") == {}
    assert severities(COMMENTED.replace("8", '"auto"')) == {"ZC002": "error"}


def test_hjson_becomes_json():
    assert fixed(COMMENTED, "ZC002") == '{\n  "train_batch_size": 8,\n  "zero_optimization": {"stage": 2}\n}\n'
    assert not lint(COMMENTED)["ZC002"].fix.safe
    assert lint('{"train_batch_size": 8,}')["ZC002"].fix.safe
    bare = "train_batch_size: 8\nzero_optimization: {\n  'stage': 2\n  offload_param: {device: cpu\n}}"
    assert json.loads(fixed(bare, "ZC002")) == {
        "train_batch_size": 8,
        "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}},
    }


PIECES = [
    '"a": ',
    "b: ",
    "'c': ",
    "1",
    "2.5",
    "true",
    "some text\n",
    '"x"',
    "'y'",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "# c\n",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join).map("{{\n{}\n}}".format))
def test_any_hjson_becomes_the_json_of_the_same_values(text):
    document = parse_document(text.encode(), "x.json")
    if document.root is None or "unquoted-string" in {m.what for m in document.marks if m.detail.endswith(",")}:
        return
    kinds = {"duplicate"}
    marks = [mark for mark in document.marks if mark.what not in kinds]
    assert json.loads(apply(text, as_json(document, marks))) == document.root.plain()


def test_text_that_takes_in_the_comma():
    block = '"zero_optimization": {"stage": 3, "offload_param": {\n"device": cpu,\n"pin_memory": true}}'
    text = '{"train_batch_size": 8, ' + block + "}"
    for reader in READERS:
        assert severities(text, reader)["ZC003"] == "error"
    assert json.loads(fixed(text, "ZC003"))["zero_optimization"]["offload_param"]["device"] == "cpu"
    assert severities("{“train_batch_size”: 8}")["ZC003"] == "error"


@pytest.mark.parametrize(
    ("line", "reader", "severity"),
    [
        ('"zero_optimization": {"overlap_comm": True\n}', "deepspeed", "warning"),
        ('"zero_optimization": {"overlap_comm": False\n}', "deepspeed", "warning"),
        ('"zero_optimization": {"overlap_comm": False\n}', "trainer", "error"),
        ('"zero_optimization": {"overlap_comm": None\n}', "deepspeed", "error"),
        ('"zero_optimization": {"overlap_comm": True,\n"stage": 1}', "deepspeed", "error"),
        ('"prescale_gradients": True\n', "deepspeed", "warning"),
        ('"prescale_gradients": False\n', "deepspeed", "error"),
        ('"prescale_gradients": False', "deepspeed", "error"),
    ],
)
def test_python_words(line, reader, severity):
    text = '{"train_batch_size": 8, ' + line + "}"
    assert severities(text, reader)["ZC004"] == severity
    assert json.loads(fixed(text, "ZC004", reader))["train_batch_size"] == 8


def test_second_keys():
    same = '{"train_batch_size": 8, "steps_per_print": 1, "steps_per_print": 1}'
    other = same.replace('1, "s', '2, "s')
    assert severities(same, "deepspeed")["ZC005"] == "error"
    assert severities(same)["ZC005"] == severities(same, "trainer")["ZC005"] == "warning"
    assert severities(other)["ZC005"] == severities(other, "trainer")["ZC005"] == "error"
    assert fixed(other, "ZC005") == same.replace('"steps_per_print": 1, ', "", 1)
    assert lint(same)["ZC005"].fix.safe
    assert not lint(other)["ZC005"].fix.safe
    block = "distributed_type: DEEPSPEED\nnum_processes: 4 # four\nnum_processes: 8\n"
    assert "line 2" in lint(block, name="x.yaml")["ZC005"].message
    assert fixed(block, "ZC005", name="x.yaml") == "distributed_type: DEEPSPEED\nnum_processes: 8\n"


def test_bytes():
    text = '{"train_batch_size": 8}'
    assert severities("\ufeff" + text) == {"ZC006": "info"}
    assert severities("\ufeff" + text, "accelerate") == {"ZC006": "error"}
    assert severities("\ufeff" + text, "deepspeed") == {}
    assert severities("\ufeffdistributed_type: DEEPSPEED\n", name="x.yaml") == {}
    assert severities("\ufeffnode-1 slots=8\n", name="hostfile") == {"ZC006": "error"}
    assert severities(text.encode("utf-16")) == {"ZC006": "error"}
    assert "byte 0xe9" in lint(b'{"train_batch_size": 8, "_note": "caf\xe9"}')["ZC006"].message


@pytest.mark.parametrize(
    ("block", "reader", "found"),
    [
        ('"train_batch_size": "8"', None, {"ZC008": "error"}),
        ('"zero_optimization": {"stage": "3"}', "trainer", {"ZC008": "error"}),
        ('"zero_optimization": {"stage": "3"}', None, {"ZC008": "warning"}),
        ('"zero_optimization": {"stage": "3"}', "deepspeed", {"ZC008": "info"}),
        ('"zero_optimization": {"reduce_bucket_size": "500_000_000"}', None, {"ZC008": "info"}),
        ('"zero_optimization": {"reduce_bucket_size": "5e8"}', None, {"ZC008": "error"}),
        ('"fp16": {"loss_scale": "0.5"}', None, {"ZC008": "info"}),
        ('"optimizer": {"params": {"lr": "2e-5"}}', None, {"ZC008": "error"}),
        ('"flops_profiler": {"profile_step": "1"}', None, {"ZC008": "warning"}),
        ('"_note": "8", "scheduler": {"type": "5"}', None, {}),
        ('"gradient_clipping": "auto"', "trainer", {}),
        ('"fp16": {"enabled": "false"}', "accelerate", {"ZC009": "error"}),
        ('"fp16": {"enabled": "false"}', None, {"ZC009": "warning"}),
        ('"fp16": {"enabled": "false"}', "deepspeed", {"ZC009": "info"}),
        ('"fp16": {"enabled": "true"}', "trainer", {"ZC009": "error"}),
        ('"fp16": {"enabled": "true"}', "accelerate", {"ZC009": "info"}),
        ('"prescale_gradients": "off"', "deepspeed", {"ZC009": "error"}),
        ('"prescale_gradients": "true"', "deepspeed", {"ZC009": "info"}),
        ('"gradient_accumulation_steps": "None"', None, {"ZC010": "error"}),
        ('"zero_optimization": {"offload_param": {"device": "none"}}', None, {}),
        ('"gradient_clipping": NaN', None, {"ZC011": "error"}),
        ('"steps_per_print": Infinity', "trainer", {}),
        ('"fp16": {"loss_scale": Infinity}', "trainer", {"ZC011": "error"}),
        ('"zero_optimization": {"offload_optimizer": {"ratio": Infinity}}', "trainer", {"ZC011": "error"}),
        ('"zero_optimization": {"offload_optimizer": {"ratio": -Infinity}}', "accelerate", {"ZC011": "error"}),
        ('"steps_per_print": Infinity', "deepspeed", {"ZC011": "error"}),
        ('"_note": 1e400', "deepspeed", {"ZC011": "error"}),
        ('"_note": 1e400', "trainer", {}),
        ('"_note": ' + "9" * 5000, "trainer", {"ZC011": "error"}),
    ],
)
def test_types_that_the_quotes_change(block, reader, found):
    text = "{" + block + "}"
    assert severities(text, reader) == found
    for code, finding in lint(text, reader).items():
        if finding.fix:
            json.loads(fixed(text, code, reader))


YAML_BLOCK = "deepspeed:\n  train_micro_batch_size_per_gpu: 1\n  "


@pytest.mark.parametrize(
    ("line", "reader", "found", "value"),
    [
        ("zero_optimization: {reduce_bucket_size: 5e8} # c", None, {"ZC012": "warning"}, 500000000),
        ("zero_optimization: {reduce_bucket_size: 5e8}", "deepspeed", {"ZC012": "error"}, 500000000),
        ("fp16: {loss_scale: 1e-3}", "deepspeed", {"ZC012": "info"}, 0.001),
        ("optimizer: {params: {lr: 2e-5}}", "trainer", {"ZC012": "error"}, 2e-05),
        ("optimizer: {params: {lr: 2.0e-5}}", "trainer", {}, None),
        ("zero_optimization: {offload_param: {device: off}}", None, {"ZC013": "error"}, "off"),
        ("communication_data_type: no", None, {"ZC013": "warning"}, "no"),
        ("zero_optimization: {overlap_comm: no}", None, {}, None),
    ],
)
def test_yaml_1_1(line, reader, found, value):
    text = YAML_BLOCK + line + "\n"
    assert severities(text, reader, "x.yaml") == found
    for code in found:
        after = yaml.safe_load(fixed(text, code, reader, "x.yaml"))
        leaf = after["deepspeed"]
        while isinstance(leaf, dict):
            leaf = list(leaf.values())[-1]
        assert leaf == value


def test_accelerate_words_and_documents():
    for line in ("mixed_precision: no\n", "dynamo_config: {dynamo_backend: no}\n"):
        text = "distributed_type: no\n" + line
        assert severities(text, name="x.yaml") == {"ZC013": "error"}
        assert fixed(text, "ZC013", name="x.yaml") == "distributed_type: no\n" + line.replace("no", "'no'")
    assert severities("distributed_type: DEEPSPEED\n---\na: 1\n", name="x.yaml") == {"ZC014": "error"}
    assert severities(YAML_BLOCK + "bf16: {enabled: true}\n---\na: 1\n", name="x.yaml") == {"ZC014": "warning"}


def test_hostfile_entries():
    text = "# ours\nnode-1 slots=8\nnode-2 slot=8\nnode-1 slots=4\n\n"
    assert severities(text, name="hostfile") == {"ZC020": "error", "ZC021": "error"}
    assert fixed(text, "ZC020", name="hostfile") == text.replace("slot=", "slots=")
    assert fixed(text, "ZC021", name="hostfile") == text.replace("node-1 slots=4\n", "")
    assert severities("# none\n", name="hostfile") == {"ZC022": "error"}
    assert severities("node-1\n", name="hostfile") == {"ZC020": "error"}


def test_a_syntax_error_is_one_finding_at_its_place():
    finding = lint('{"train_batch_size": 8 "zero_optimization": {}}')["ZC001"]
    assert finding.document.position(finding.start) == (1, 23)
    assert "comma is missing" in finding.message


@pytest.mark.parametrize(
    ("reader", "name", "who"),
    [
        ("deepspeed", "ds_config.json", "hjson, which DeepSpeed reads with"),
        ("trainer", "ds_config.json", "Accelerate's copy"),
        ("accelerate", "ds_config.json", "Accelerate's copy"),
        (None, "ds_config.json", "DeepSpeed and Accelerate"),
        ("accelerate", "accelerate.yaml", "PyYAML"),
    ],
)
def test_nesting_ends_where_its_reader_does(reader, name, who):
    deep, fine = ('{"a":' * depth + '{"fp16": 1}' + "}" * depth for depth in (600, 400))
    if name.endswith(".yaml"):
        deep, fine = (f"distributed_type: DEEPSPEED\nx: {text.replace(':', ': ')}\n" for text in (deep, fine))
    found = lint(deep, reader, name=name)["ZC007"]
    assert found.severity == "error"
    assert who in found.message
    assert "ZC007" not in lint(fine, reader, name=name)


@pytest.mark.parametrize(
    ("text", "causes", "config"),
    [
        (
            "{'train_batch_size':8,'fp16':{'enabled':True}}",
            "3 x text in single quotes, True;",
            {"train_batch_size": 8, "fp16": {"enabled": True}},
        ),
        (
            '{"bf16": {"enabled": False}, "optimizer": None}',
            "False, None;",
            {"bf16": {"enabled": False}, "optimizer": None},
        ),
        ("{'a': [True, 'it\\'s \"x\"',], 'b': {},}", "trailing comma", {"a": [True, 'it\'s "x"'], "b": {}}),
    ],
)
def test_a_python_dict_is_one_finding_with_each_cause_and_becomes_json(text, causes, config):
    (finding,) = lint(text).values()
    assert (finding.rule.code, finding.severity) == ("ZC004", "error")
    assert "Python dict" in finding.message
    assert causes in finding.message
    assert finding.fix.safe
    assert json.loads(apply(text, finding.fix.edits)) == config


@pytest.mark.parametrize("text", ["{'a': (1, 2), 'b': True}", "{'a': {1: True}}"])
def test_a_python_dict_that_json_cannot_hold_is_not_rewritten(text):
    (finding,) = lint(text).values()
    assert finding.rule.code == "ZC004"
    assert finding.fix is None


@pytest.mark.parametrize("text", ["{'a': __import__('os')}", "{'a': True, 'b': }", "{'a'}}", "{'a': " + "(" * 5000])
def test_what_is_no_literal_is_a_syntax_error(text):
    assert "ZC001" in lint(text)


@pytest.mark.parametrize(
    ("reader", "severity"), [("deepspeed", "error"), ("trainer", None), ("accelerate", None), (None, "warning")]
)
@pytest.mark.parametrize("value", ["10", "null", 0, "x"])
def test_what_accelerate_sets_over_is_no_matter_there(reader, severity, value):
    config = {"train_batch_size": 8, "steps_per_print": value, "zero_optimization": {"stage": 2}}
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    found = lint_document(document, reader=Reader(reader, stated=True) if reader else Reader()).findings
    at = [one.severity for one in found if one.pointer == "/steps_per_print"]
    assert at == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("node-1 slots = 4", "node-1 slots=4"),
        ("node-1 Slots=8", "node-1 slots=8"),
        ("node-1 slots:8", "node-1 slots=8"),
        ("node-1 slot=8  # spare", "node-1 slots=8  # spare"),
        ("node-1:slots=8", "node-1 slots=8"),
        ("node-2 node-3 slots=8", None),
        ("ssh user@worker-5 slots=2", None),
        ("node-4 ansible_host=10.0.0.4 slots=8", None),
        ("10.0.0.1 port=22 slots=8", None),
        ("node-1 gpus=8 slot=8", None),
        ("node-1 slot=8 max_slots=8", None),
        ("node-1", None),
    ],
)
def test_a_host_entry_is_respelled_only_with_all_its_words(line, meant):
    (one,) = lint_document(parse_document(f"node-0 slots=8\n{line}\n".encode(), "hostfile")).findings
    assert (apply(one.document.text, one.fix.edits) if one.fix else None) == (meant and f"node-0 slots=8\n{meant}\n")
