"""The dry run: against counted allocations of the same program on real tensors, and as a whole command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from zeroconf.estimate.quantizer import refused
from zeroconf.resources import data_path
from zeroconf.smoke.trial import TINY

ORACLE = Path(__file__).parents[2] / "benchmarks" / "memory_oracle" / "run.py"
CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 100_000},
}
PARAMETERS = 1_066_112  # of "tiny"


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """The quick cases of the memory oracle by name, from one start of Python."""
    output = tmp_path_factory.mktemp("oracle") / "rows.json"
    ran = subprocess.run(
        [sys.executable, str(ORACLE), "--quick", "--output", str(output)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return {row["case"]: row for row in json.loads(output.read_text(encoding="utf-8"))["cases"]}


@pytest.mark.launch
@pytest.mark.skipif(sys.platform != "linux", reason="the counting allocator is compiled for Linux")
def test_it_counts_what_is_allocated(oracle):
    assert len(oracle) == 8
    for name, row in oracle.items():
        assert "failed" not in row, row
        for phase, error in row["errors"].items():
            assert abs(error) <= (0.005 if phase == "steady" else 0.02), (name, phase, row["dry"], row["counted"])


def dry_run(folder, *arguments, config=CONFIG):
    return smoke_test(folder, "--dry-run", *arguments, config=config)


def smoke_test(folder, *arguments, config=CONFIG):
    (folder / "ds_config.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "zeroconf", "smoke-test", "ds_config.json", "--model", "tiny"]
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.launch
def test_the_command_answers_by_phase_and_part(tmp_path):
    ran = dry_run(tmp_path, "--world-size", "8", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    jsonschema.validate(answer, json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8")))
    assert (answer["mode"], answer["outcome"], answer["environment"]["num_processes"]) == ("dry-run", "ran", 8)
    (rank,) = answer["ranks"]
    # bf16 weights whole; fp32 weights and two moments of an eighth
    assert rank["steady_bytes"] == pytest.approx(PARAMETERS * (2 + 12 / 8), rel=0.01)
    for phase, parts in rank["parts"].items():
        assert sum(parts.values()) == rank["phases"][phase]
        assert parts["parameters"] >= 2 * PARAMETERS
    assert rank["step_seconds"] == rank["update_seconds"] == rank["losses"] == []
    # bf16 in rings of 8: gradients in each of 4 micro steps, in buckets; one all-gather, a norm and an overflow flag
    ring = 2 * PARAMETERS * 7 / 8
    assert rank["bytes_sent"] == 4 * 2 * ring + ring + 8 + 2
    assert [(one["collective"], one["dtype"], one["count"]) for one in rank["collectives"]] == [
        ("all-gather", "bfloat16", 1),
        ("all-reduce", "bfloat16", 4 * 12),
        ("all-reduce", "float32", 1),
        ("all-reduce", "uint8", 1),
    ]
    substituted = " ".join(answer["substitutions"])
    assert "FusedAdam" in substituted
    assert "2 micro batches for 4" in substituted


@pytest.mark.launch
@pytest.mark.parametrize(
    ("micro_batch_size", "outcome", "code"),
    # logits of 256 x 4096 tokens x 1024 words in fp32: 4.3 GB a copy, of the 16 GB of a T4
    [(1, "fits", 0), (256, "does-not-fit", 1)],
)
def test_a_card_gives_a_verdict(tmp_path, micro_batch_size, outcome, code):
    config = CONFIG | {"train_micro_batch_size_per_gpu": micro_batch_size}
    ran = dry_run(tmp_path, "--hardware", "8xT4-16GB", "--seq-len", "4096", "--json", config=config)
    assert ran.returncode == code, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["outcome"] == outcome
    assert "T4" in answer["explanation"]
    assert bool(answer["cure"]) == (outcome == "does-not-fit")


@pytest.mark.launch
@pytest.mark.parametrize(
    "zero",
    [
        {"stage": 3},
        {"stage": 3, "zero_hpz_partition_size": 2, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0},
    ],
)
def test_what_it_sends_is_what_a_rank_with_real_tensors_sends(tmp_path, zero):
    """The dry run leaves out micro batches, the simulated rank none."""
    config = CONFIG | {"zero_optimization": zero | {"reduce_bucket_size": 100_000}}
    answers = []
    for options in (["--dry-run"], ["--device", "cpu"]):
        ran = smoke_test(tmp_path, *options, "--world-size", "8", "--json", config=config)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        answers.append(json.loads(ran.stdout)["ranks"][0])
    dry, simulated = answers
    assert dry["collectives"] == simulated["collectives"]
    assert dry["bytes_sent"] > 0


QUANTIZED = {"stage": 3, "zero_quantized_weights": True, "zero_quantized_gradients": True}


@pytest.mark.launch
def test_quantized_weights_and_gradients_are_sent_quantized(tmp_path):
    """Between two nodes gradients go by all-to-all of 4 bits; weights are gathered as 8 bits and scales."""
    config = CONFIG | {"zero_optimization": QUANTIZED}
    ran = dry_run(tmp_path, "--hardware", "2x4xA100-80GB", "--json", config=config)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (rank,) = json.loads(ran.stdout)["ranks"]
    sent = {(one["collective"], one["dtype"]): one["bytes"] for one in rank["collectives"]}
    assert sent["all-gather", "int8"] > 10 * sent["all-gather", "float32"]
    assert sent["all-to-all", "int8"] > 10 * sent["all-to-all", "float32"]
    assert rank["parts"]["backward"]["gathered_parameters"] > 0


@pytest.mark.launch
@pytest.mark.parametrize("num_ranks", [16, 24, 32])
def test_the_quantizer_refuses_what_the_estimate_says(tmp_path, num_ranks):
    """Its asserts run in a dry run: the vocabulary matrix stops 24 ranks, a norm of 128 elements 32."""
    ran = dry_run(tmp_path, "--world-size", str(num_ranks), "--json", config=CONFIG | {"zero_optimization": QUANTIZED})
    answer, expected = json.loads(ran.stdout), refused(TINY, num_ranks)
    assert answer["outcome"] == ("crash" if expected else "ran"), ran.stderr
    if expected:
        assert f"be a multiple of 8. Yet {expected.part} cannot" in answer["explanation"]


@pytest.mark.launch
def test_tensor_parallelism_halves_the_layers(tmp_path):
    config = CONFIG | {"tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 1}}
    ran = dry_run(tmp_path, "--world-size", "8", "--json", config=config)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    embeddings_and_norms = 1024 * 128 + 9 * 128
    # the head is a linear layer too
    assert answer["environment"]["parameters"] == (PARAMETERS + embeddings_and_norms) // 2
    assert {one["group_size"] for one in answer["ranks"][0]["collectives"]} == {2, 4}
    assert abs(answer["relative_error"]) < 0.02


@pytest.mark.launch
@pytest.mark.parametrize(
    ("stage", "parallel"),
    [
        (1, {"tensor_parallel": {"autotp_size": 2}, "train_micro_batch_size_per_gpu": 4}),
        (3, {"sequence_parallel_size": 4}),
    ],
)
def test_ranks_that_work_on_the_same_sequences_are_estimated_as_they_run(tmp_path, stage, parallel):
    """A tied vocabulary is split too; sequences are exchanged, four times forward and four times back, per block."""
    config = CONFIG | parallel | {"zero_optimization": {"stage": stage}}
    ran = dry_run(
        tmp_path, "--world-size", "8", "--json", "--model", "llama-3.2-1b", "--seq-len", "1024", config=config
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    assert abs(answer["relative_error"]) < 0.02
    told, sent = (
        _large_by_group(found)
        for found in (answer["predicted"]["traffic"]["per_collective"], answer["ranks"][0]["collectives"])
    )
    assert told.keys() == sent.keys()
    for key, (elements, calls) in told.items():
        assert (elements, calls) == (pytest.approx(sent[key][0], rel=2e-5), sent[key][1])


def _large_by_group(collectives):
    """Elements and calls by collective and group, without flags, norms, positions and the split loss's sums."""
    found = {}
    for one in collectives:
        if one.get("dtype") == "int64" or (one["elements"] < 100_000 and one["collective"] == "all-reduce"):
            continue
        elements, calls = found.get((one["collective"], one["group_size"]), (0, 0))
        found[one["collective"], one["group_size"]] = elements + one["elements"], calls + one["count"]
    return found


@pytest.mark.launch
def test_it_leaves_no_file_and_connects_to_nobody(tmp_path):
    reports = {
        "csv_monitor": {"enabled": True, "output_path": "csv", "job_name": "job"},
        "wandb": {"enabled": True, "project": "project"},
        "flops_profiler": {"enabled": True, "profile_step": 1, "output_file": "flops.txt"},
    }
    offload = {"device": "nvme", "nvme_path": "/nowhere"}
    config = CONFIG | reports | {"zero_optimization": {"stage": 3, "offload_optimizer": offload}}
    ran = dry_run(tmp_path, "--world-size", "8", config=config)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("is off: it writes or connects") == len(reports)
    assert [path.name for path in tmp_path.iterdir()] == ["ds_config.json"]


ZENFLOW = {"topk_ratio": 0.1, "update_interval": 2, "select_interval": 2, "select_strategy": "step"}


@pytest.mark.launch
@pytest.mark.parametrize(
    ("changes", "options", "outcome", "code", "sentence"),
    [
        (
            {"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}, "zenflow": ZENFLOW}},
            (),
            "ran",
            0,
            "a dry run cannot run this: ZenFlow picks",
        ),
        ({"optimizer": {"type": "Nope", "params": {"lr": 1e-4}}}, (), "rejected", 1, "Nope"),
        ({"bf16": {"enabled": False}}, ("--attention", "flash"), "crash", 1, "flash attention takes bf16"),
    ],
)
def test_only_what_it_cannot_show_becomes_the_estimate(tmp_path, changes, options, outcome, code, sentence):
    ran = dry_run(tmp_path, "--world-size", "8", "--json", *options, config=CONFIG | changes)
    answer = json.loads(ran.stdout)
    assert (answer["outcome"], ran.returncode) == (outcome, code)
    assert sentence in answer["explanation"]
    assert "Traceback" not in ran.stderr


@pytest.mark.launch
@pytest.mark.parametrize(("hardware", "precision"), [("8xV100-32GB", "fp16"), ("8xA100-80GB", "bf16")])
def test_auto_precision_is_the_cards(tmp_path, hardware, precision):
    ran = dry_run(tmp_path, "--hardware", hardware, "--json", config=CONFIG | {"bf16": {"enabled": "auto"}})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    filled = json.loads(ran.stdout)["environment"]["ds_config"]
    assert [name for name in ("bf16", "fp16") if filled.get(name, {}).get("enabled")] == [precision]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "a dry run needs the number of ranks"),
        (("--hardware", "8xA100-80GB", "--world-size", "4"), "--world-size 4 contradicts 8xA100-80GB"),
        (("--hardware", "A100-80GB"), "has no count"),
    ],
)
def test_the_ranks_must_be_known_and_agree(tmp_path, arguments, sentence):
    ran = dry_run(tmp_path, *arguments)
    assert ran.returncode == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
