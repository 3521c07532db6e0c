"""``generate --base``: a user's file goes in, the same file with a plan in it comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zeroconf.document.read import parse_document
from zeroconf.emit.notes import leaves
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

MODEL = ("--model", "llama-3.1-8b", "--hardware", "8xA100-80GB")
BASE: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 8,
    "gradient_clipping": 0.5,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
    "bf16": {"enabled": True},
    "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
}


@pytest.fixture
def generate(run, tmp_path):
    def call(base: dict[str, Any], *options: str) -> tuple[int, dict[str, Any], str]:
        (tmp_path / "base.json").write_text(json.dumps(base))
        code, out, err = run("generate", *MODEL, "--base", "base.json", "--json", *options)
        return code, json.loads(out) if code == 0 else {}, err

    return call


def test_the_users_keys_stay_and_the_changes_are_listed(generate):
    code, made, _ = generate(BASE)
    config = json.loads(made["files"]["ds_config.json"])
    assert code == 0
    assert {key: config[key] for key in ("optimizer", "scheduler", "gradient_clipping", "data_types")} == {
        key: BASE[key] for key in ("optimizer", "scheduler", "gradient_clipping", "data_types")
    }
    assert "offload_param" not in config["zero_optimization"]
    keys = {change["key"]: change["kind"] for change in made["changes"]}
    assert keys["zero_optimization.offload_param.device"] == "removed"
    assert "gradient_clipping" not in keys


def test_reasons_are_true_of_the_file_and_cover_it(generate):
    """What the base file keeps is not told as what the plan would have written there."""
    code, made, _ = generate(BASE, "--explain")
    config = json.loads(made["files"]["ds_config.json"])
    told = {reason["key"]: reason for reason in config.pop("_zeroconf")["reasons"]}
    values = leaves(config)
    assert code == 0
    assert {key: reason["value"] for key, reason in told.items() if key in values} == values
    assert told["optimizer.params.lr"]["because"] == "the base file's"
    assert all(key in values or key.startswith("(") for key in told)
    assert not [change for change in made["changes"] if change["key"].startswith("_zeroconf")]


def test_the_trainers_line_says_what_the_base_file_does(generate):
    """The real Trainer refuses another value (rules/trainer.py)."""
    line = generate(BASE, "--launch", "run.sh")[1]["files"]["run.sh"]
    assert "--max_grad_norm 0.5 --bf16 true --learning_rate 3e-05 --warmup_steps 100" in line


def test_a_users_own_key_is_kept(generate):
    """DeepSpeed takes any key at the top level, and the linter only warns of it (ZC104)."""
    own = {"my_project": {"run": "a"}}
    code, made, _ = generate(BASE | own)
    assert code == 0
    assert json.loads(made["files"]["ds_config.json"]).items() >= own.items()


def test_an_error_of_the_base_is_the_rules_sentence(generate):
    code, _, err = generate(BASE | {"amp": {"enabled": True}})
    assert code == 2
    assert "amp" in err
    assert "not valid under" not in err


@pytest.mark.parametrize(("reader", "precision"), [("trainer", "bf16"), ("accelerate", "bf16"), ("deepspeed", "fp32")])
def test_without_a_precision_block_it_is_the_readers(generate, reader, precision):
    """Accelerate and the Trainer add one; to DeepSpeed it is fp32, and that is said."""
    base = {key: value for key, value in BASE.items() if key not in {"bf16", "data_types"}}
    code, made, _ = generate(base, "--for", reader)
    assert code == 0
    assert made["facts"]["workload"]["precision"] == precision
    assert any("no precision block" in note for note in made["notes"]) == (precision == "fp32")


def test_the_disk_that_was_judged_is_the_one_that_is_written(run, tmp_path):
    offload = {"device": "nvme", "nvme_path": "/local"}
    base = BASE | {"zero_optimization": {"stage": 3, "offload_optimizer": offload}}
    (tmp_path / "base.json").write_text(json.dumps(base))
    paths = []
    for hardware in (("--hardware", "8xA100-80GB", "--nvme", "/scratch:4TB"), ("--hardware", "p4d.24xlarge")):
        options = ("--model", "70B", *hardware, "--host-memory", "1TiB", "--offload", "nvme")
        code, out, _ = run("generate", *options, "--base", "base.json", "--json")
        assert code == 0
        zero = json.loads(json.loads(out)["files"]["ds_config.json"])["zero_optimization"]
        paths.append(zero["offload_optimizer"]["nvme_path"])
    # the option's; else the base's, whatever the instance's entry calls its disk
    assert paths == ["/scratch", "/local"]


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": {"b": [1, Infinity]}}', '{"gradient_clipping": -Infinity}'])
def test_what_is_no_json_number_is_refused(run, tmp_path, text):
    (tmp_path / "base.json").write_text(text)
    code, _, err = run("generate", *MODEL, "--base", "base.json", "--dry-run")
    assert code == 2
    assert "no numbers of JSON" in err


def test_it_is_said_who_switches_sequence_parallelism_on(generate):
    notes = generate(BASE | {"sequence_parallel_size": 2})[1]["notes"]
    assert any("sp_size=2" in note for note in notes)


def test_comments_that_are_not_kept_are_told(run, tmp_path):
    (tmp_path / "base.json").write_text('{"train_batch_size": 8, # all\n "zero_optimization": {"stage": 2}}')
    code, out, _ = run("generate", *MODEL, "--base", "base.json", "--json")
    assert code == 0
    assert any("base.json has comments" in note for note in json.loads(out)["notes"])


def test_the_global_batch_is_the_files(generate):
    assert generate(BASE)[1]["facts"]["workload"]["global_batch_size"] == 4 * 8 * 8
    assert generate(BASE, "--global-batch-size", "128")[1]["facts"]["workload"]["global_batch_size"] == 128


@pytest.mark.parametrize("parallel", [{"sequence_parallel_size": 2}, {"tensor_parallel": {"autotp_size": 2}}])
def test_ranks_that_work_on_the_same_sequences_count_once_in_the_batch(generate, parallel):
    code, made, _ = generate(BASE | parallel)
    config = json.loads(made["files"]["ds_config.json"])
    micro, steps = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert code == 0
    assert made["facts"]["workload"]["global_batch_size"] == micro * steps * 4 == 4 * 8 * 4
    assert config.items() >= parallel.items()
    reasons = {reason["key"]: reason["because"] for reason in made["reasons"]}
    assert "x 4 data parallel ranks = 128" in reasons["train_micro_batch_size_per_gpu"]


@pytest.mark.parametrize(
    ("parallel", "options", "sentence"),
    [
        ({"sequence_parallel_size": 3}, (), "sequence_parallel_size 3 does not divide 8 GPUs"),
        ({"tensor_parallel": {"autotp_size": 2}, "sequence_parallel_size": 8}, (), "does not divide 8 GPUs"),
        ({"sequence_parallel_size": 2}, ("--global-batch-size", "6"), "not a multiple of the 4 data parallel ranks"),
        (
            {"tensor_parallel": {"autotp_size": 2}},
            ("--zero-stage", "3", "--deepspeed-version", "0.18.9"),
            "autotp_size at stage 3 needs DeepSpeed 0.19.4",
        ),
    ],
)
def test_parallel_sizes_that_cannot_be_are_refused(generate, parallel, options, sentence):
    code, _, err = generate(BASE | parallel, *options)
    assert code == 2
    assert sentence in err


def test_before_it_was_allowed_stage_3_is_not_searched_beside_tensor_parallelism(generate):
    base = BASE | {"tensor_parallel": {"autotp_size": 2}}
    code, made, _ = generate(base, "--deepspeed-version", "0.18.9")
    assert code == 0
    assert {candidate["plan"]["stage"] for candidate in made["candidates"]} == {0, 1, 2}


def test_what_the_file_says_of_memory_counts_in_the_search(generate):
    without = {key: value for key, value in BASE.items() if key != "data_types"}
    pinned = ("--zero-stage", "2", "--micro-batch-size", "1", "--activation-checkpointing", "full")
    fp32, plain = (generate(base, *pinned)[1]["estimate"]["gpu"]["gradients"] for base in (BASE, without))
    assert fp32 > plain


def test_its_own_output_as_a_base_changes_nothing(generate):
    first = json.loads(generate(BASE)[1]["files"]["ds_config.json"])
    code, made, _ = generate(first)
    assert (code, made["changes"]) == (0, [])


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({"zero_optimization": {"stage": 3, "stag": 3}}, (), "a fault that a plan does not mend"),
        ({}, ("--optimizer", "lion"), "--optimizer lion contradicts"),
        ({}, ("--client-optimizer",), "--client-optimizer contradicts"),
        ({"zero_optimization": 3}, (), "zero_optimization is 3, not an object"),
    ],
)
def test_a_faulty_base_is_named(generate, changed, options, words):
    code, _, error = generate(BASE | changed, *options)
    assert code == 2
    assert words in error


SWITCHES = {
    "round_robin_gradients": True,
    "reduce_scatter": False,
    "contiguous_gradients": False,
    "allgather_bucket_size": 200_000_000,
    "zero_quantized_weights": True,
    "memory_efficient_linear": False,
}


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("offload", ["none", "optimizer"])
def test_what_turns_idle_or_harmful_at_the_chosen_stage_goes_and_is_listed(generate, stage, offload):
    if stage == 0 and offload != "none":
        return
    base = {"zero_optimization": {"stage": 2, **SWITCHES}, "optimizer": BASE["optimizer"]}
    options = ("--zero-stage", str(stage), "--offload", offload, "--for", "deepspeed", "--model", "gpt2")
    code, made, err = generate(base, *options)
    assert code == 0, err
    written = json.loads(made["files"]["ds_config.json"])
    document = parse_document(json.dumps(written).encode(), "ds.json")
    found = lint_document(document, reader=Reader("deepspeed", stated=True)).findings
    assert not [one for one in found if one.rule.code in {"ZC110", "ZC251", "ZC257", "ZC259", "ZC408"}]
    told = {change["key"].removeprefix("zero_optimization."): change for change in made["changes"]}
    left = written["zero_optimization"]
    for key, value in SWITCHES.items():
        assert (left.get(key) == value) == (key not in told)
    assert left.get("zero_quantized_weights") == (True if stage == 3 else None)
    assert left.get("reduce_scatter") is not False or stage < 2
    assert ("round_robin_gradients" in left) == (stage in (1, 2) and offload != "none")


def test_what_the_base_ignores_with_a_reason_stays(generate):
    zero = {"stage": 2, "reduce_scatter": False}
    ignored = {"zero_optimization": zero, "_zeroconf": {"ignore": {"ZC259": "the network has no reduce-scatter"}}}
    code, made, _ = generate(ignored, "--zero-stage", "2")
    assert code == 0
    assert json.loads(made["files"]["ds_config.json"])["zero_optimization"]["reduce_scatter"] is False


QUANTIZED = {"zero_quantized_weights": True, "zero_quantized_gradients": True}


@pytest.mark.parametrize(
    ("zero", "options"),
    [
        ({"stage": 3, **QUANTIZED}, ("--for", "accelerate", "--zero-stage", "3")),
        ({"stage": 3, **QUANTIZED}, ("--for", "deepspeed", "--zero-stage", "2")),
    ],
)
def test_the_figures_are_of_the_file_without_what_it_loses(generate, run, zero, options):
    _, made, _ = generate({"bf16": {"enabled": True}, "zero_optimization": zero}, *options)
    Path("made.json").write_text(made["files"]["ds_config.json"])
    written = json.loads(made["files"]["ds_config.json"])["zero_optimization"]
    assert not any(written.get(key) for key in QUANTIZED)
    recompute = made["plan"]["activation_checkpointing"]
    words = (*MODEL, *options, "--activation-checkpointing", "full" if recompute else "none", "--json")
    again = json.loads(run("estimate", "made.json", *words)[1])
    assert {key: again[key] for key in ("gpu", "host", "traffic", "step")} == {
        key: made["estimate"][key] for key in ("gpu", "host", "traffic", "step")
    }


@pytest.mark.parametrize(
    ("base", "stage", "offload", "words"),
    [
        (
            {"data_types": {"grad_accum_dtype": "fp32"}, "fp16": {"enabled": True}},
            1, "none", "base.json does not go with stage 0: fp16 training accumulates gradients in fp32 with ZeRO only",
        ),
        (
            {
                "fp16": {"enabled": True, "fp16_master_weights_and_grads": True},
                "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
            },
            1, "cpu", "base.json does not go with stage 0: fp16_master_weights_and_grads needs ZeRO",
        ),
    ],
)  # fmt: skip
def test_keys_that_want_another_stage_or_the_files_offload_get_it(generate, base, stage, offload, words):
    code, made, err = generate(base, "--model", "llama-3.2-1b")
    assert code == 0, err
    assert (made["plan"]["stage"], made["plan"]["offload_optimizer"]) == (stage, offload)
    assert any(note.startswith(words) for note in made["notes"])
    assert made["reasons"][0]["because"].startswith("what the base file's keys go with; ")
