"""The rules on the text against the libraries: what they refuse draws an error, what they take draws none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

WORKER = Path(__file__).with_name("text_reader.py")
BATCH = '"train_batch_size": 1, '
ZERO = BATCH + '"zero_optimization": {"stage": 1, '
# text of a ds_config, and whether DeepSpeed takes it but for something else than it says
FILES = {
    "plain": ("{" + BATCH + '"steps_per_print": 1}', False),
    "comments": ("{" + BATCH + "// c\n /* d */ # e\n" + '"steps_per_print": 1,}', False),
    "hjson": ("train_batch_size: 1\n'zero_optimization': {stage: 1\n}", False),
    "missing comma": ('{"train_batch_size": 1 "steps_per_print": 1}', False),
    "open brace": ('{"train_batch_size": 1', False),
    "list": ("[1]", False),
    "two keys": ("{" + BATCH + '"steps_per_print": 1, "steps_per_print": 1}', False),
    "byte order mark": ("\ufeff{" + BATCH + '"steps_per_print": 1}', False),
    "True": ("{" + ZERO + '"overlap_comm": True\n}}', False),
    "False": ("{" + ZERO + '"overlap_comm": False\n}}', False),
    "True,": ("{" + ZERO + '"overlap_comm": True,\n"round_robin_gradients": true}}', False),
    "None": ("{" + ZERO + '"overlap_comm": None\n}}', False),
    "False on top": ("{" + BATCH + '"prescale_gradients": False\n}', True),
    "word and comma": ("{" + ZERO + '"offload_optimizer": {"device": cpu,\n"pin_memory": true}}}', False),
    "quoted batch": ('{"train_batch_size": "1", "gradient_accumulation_steps": "1"}', False),
    "quoted whole": ("{" + ZERO + '"reduce_bucket_size": "5_000"}}', False),
    "quoted point": ("{" + ZERO + '"reduce_bucket_size": "8.0"}}', False),
    "quoted exponent": ("{" + ZERO + '"reduce_bucket_size": "5e8"}}', False),
    "quoted float": ("{" + BATCH + '"fp16": {"enabled": true, "loss_scale": "1e3"}}', False),
    "quoted clipping": ("{" + BATCH + '"gradient_clipping": "1.0"}', True),
    "quoted words": (
        "{" + ZERO + '"overlap_comm": "yes", "reduce_scatter": "off", "contiguous_gradients": "T"}}',
        False,
    ),
    "quoted false": ("{" + BATCH + '"prescale_gradients": "false"}', True),
    "quoted null": ("{" + BATCH + '"gradient_accumulation_steps": "null"}', False),
    "overflow": ("{" + BATCH + '"_note": 1e400}', False),
    "NaN": ("{" + BATCH + '"fp16": {"enabled": true, "loss_scale": NaN}}', False),
    "never": ("{" + BATCH + '"steps_per_print": Infinity}', True),
    "long": ("{" + BATCH + '"_note": ' + "9" * 5000 + "}", False),
    "deep": ("{" + BATCH + '"_note": ' + "[" * 600 + "]" * 600 + "}", False),
    "less deep": ("{" + BATCH + '"_note": ' + "[" * 400 + "]" * 400 + "}", False),
}
YAML = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 1\n"
YAML_FILES = {
    "plain": YAML,
    "two documents": YAML + "---\na: 1\n",
    "two keys": YAML + "num_processes: 1\n",
    "tab": YAML + "deepspeed_config:\n\tzero_stage: 2\n",
    "byte order mark": "\ufeff" + YAML,
    "date": YAML + "main_process_ip: 2024-13-01\n",
    "tag": YAML + "main_process_ip: !here x\n",
    "open list": YAML + "commands: [a\n",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each library says of each file."""
    folder = tmp_path_factory.mktemp("files")
    files = {f"{name}.json": text for name, (text, _) in FILES.items()}
    files |= {f"{name}.yaml": text for name, text in YAML_FILES.items()}
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    lines = "".join(f"{folder / name}\n" for name in files)
    done = subprocess.run(
        [sys.executable, WORKER],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"deepspeed"')]
    assert len(answers) == len(files), done.stderr[-2000:]
    return dict(zip(files, answers, strict=True))


def errors(text, name, reader):
    document = parse_document(text.encode(), name)
    findings = lint_document(document, reader=Reader(reader, stated=True)).findings
    return [one.rule.code for one in findings if one.severity == "error" and one.rule.code < "ZC100"]


@pytest.mark.parametrize("name", FILES)
def test_deepspeed(name, said):
    text, is_something_else = FILES[name]
    refused = said[f"{name}.json"]["deepspeed"]
    assert bool(errors(text, "x.json", "deepspeed")) == (refused is not None or is_something_else), refused


@pytest.mark.parametrize("name", FILES)
def test_the_trainer_opens_what_json_load_opens(name, said):
    text, _ = FILES[name]
    found = set(errors(text, "x.json", "trainer"))
    # what is said of a value comes after the opening
    at_opening = found & {"ZC001", "ZC002", "ZC003", "ZC004", "ZC006"}
    refused = said[f"{name}.json"]["trainer"] or ""
    is_opened = not any(word in refused for word in ("JSONDecodeError", "4300 digits", "AttributeError"))
    assert bool(at_opening) != is_opened or (name == "long" and "ZC011" in found), refused


@pytest.mark.parametrize("name", YAML_FILES)
def test_accelerate(name, said):
    refused = said[f"{name}.yaml"]["accelerate"]
    assert bool(errors(YAML_FILES[name], "x.yaml", "accelerate")) == (refused is not None), refused
