"""Where nothing fits, the first cure that is named does: pasted to the command line as a user would."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import LLAMA_3_8B, cluster, workload

from zeroconf import api
from zeroconf.plan.choose import decide
from zeroconf.plan.cures import find_cures
from zeroconf.types import Facts
from zeroconf.units import GIB, gib, parse_bytes

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
SEED, NUMBER = 11, 20


@pytest.fixture(scope="module")
def nothing_fits():
    sys.path.insert(0, str(BENCHMARKS))
    cases = importlib.import_module("generate_cases")
    sys.path.remove(str(BENCHMARKS))
    found = []
    for options in cases.cases(1000, SEED):
        facts, _ = api.load_facts(options)
        if decide(facts).chosen is None:
            found.append(cases.command_line(options))
        if len(found) == NUMBER:
            return found
    raise AssertionError(len(found))


ANSWERS: dict[tuple[str, ...], tuple[int, str, str]] = {}


def generated(run, *words):
    """The exit code, the answer in JSON and what is said on stderr; a command of several tests runs once."""
    if words not in ANSWERS:
        ANSWERS[words] = run("generate", *words, "--dry-run", "--json")
    return ANSWERS[words]


def shown(cure):
    return cure["gpu_bytes"], cure["host_bytes"], cure["nvme_bytes"]


def chosen_with(run, words, cure):
    """What the plan takes that is chosen with the cure, as the cure's own figures."""
    code, out, error = generated(run, *words, *shlex.split(cure["option"]))
    assert code == 0, f"{shlex.join(words)} {cure['option']}: {error}"
    cost = json.loads(out)["estimate"]
    return cost["gpu"]["peak_allocated_bytes"], cost["host"]["peak_bytes"], cost["nvme"]["bytes"]


def cures_of(run, words):
    code, out, _ = generated(run, *words)
    assert code == 3, shlex.join(words)
    return json.loads(out)["cures"]


def test_the_first_cure_pasted_to_the_command_fits_with_its_figures(run, nothing_fits):
    for words in nothing_fits:
        first = cures_of(run, words)[0]
        assert first["fits"], shlex.join(words)
        assert chosen_with(run, words, first) == shown(first), f"{shlex.join(words)} {first['option']}"


def test_every_cure_that_fits_gives_the_plan_whose_figures_it_shows(run, nothing_fits):
    tried = set()
    for words in nothing_fits:
        for cure in cures_of(run, words):
            if cure["fits"]:
                assert chosen_with(run, words, cure) == shown(cure), f"{shlex.join(words)} {cure['option']}"
                tried |= set(re.findall(r"--[a-z-]+", cure["option"]))
    assert tried >= {"--hardware", "--host-memory", "--seq-len", "--lora-rank", "--offload"}


def test_several_changes_together_are_named_where_none_alone_is_enough():
    pins = {"zero_stage": 1, "offload": "none", "activation_checkpointing": "none", "sequence_length": 8192}
    case = Facts(model=LLAMA_3_8B, cluster=cluster(gpus_per_node=1), workload=workload(**pins))
    first, *others = find_cures(decide(case))
    # neither recomputation nor a fused loss is needed beside these
    assert first.option == "--zero-stage 3 --offload all"
    assert first.fits
    assert {"--activation-checkpointing full", "--offload optimizer"} < {
        cure.option for cure in others if not cure.fits
    }
    # on one GPU there is nothing to partition
    assert "--zero-stage 3" not in {cure.option for cure in others}


NODE_LIMITED = ["--model", "qwen2.5-14b", "--hardware", "2xRTX4090", "--host-memory"]


@pytest.mark.parametrize("given", ["64GiB", "300GiB", "345GiB"])
def test_the_rejected_row_and_the_cure_name_the_least_host_memory(run, given):
    code, out, _ = run("generate", *NODE_LIMITED, given, "--json")
    answer = json.loads(out)
    assert code == 3
    (row,) = [row for row in answer["candidates"] if row["plan"]["offload_param"] == "cpu"]
    assert row["rejected_by"] == "host_memory"
    least = row["estimate"]["host"]["peak_bytes"]
    (cure,) = [cure for cure in answer["cures"] if re.fullmatch(r"--host-memory \d+GiB", cure["option"])]
    size = parse_bytes(cure["option"].split()[1])
    assert cure["fits"]
    assert cure["host_bytes"] == least
    assert 0 <= size - least < GIB
    assert run("generate", *NODE_LIMITED, f"{size - GIB}B", "--dry-run")[0] == 3


def test_a_disk_is_a_cure_alone_or_with_the_memory_that_it_needs(run):
    disk = "--nvme /scratch:"
    alone = cures_of(run, [*NODE_LIMITED, "300GiB"])
    both = cures_of(run, [*NODE_LIMITED, "64GiB"])
    assert [cure["fits"] for cure in alone if cure["option"].startswith(disk)] == [True]
    (found,) = [cure for cure in both if disk in cure["option"]]
    assert found["option"].startswith("--host-memory ")
    words = [*NODE_LIMITED, "64GiB"]
    assert chosen_with(run, words, found) == shown(found)
    # a disk of half the size, or a GiB less of memory, is not enough
    memory, size = re.fullmatch(r"--host-memory (\d+)GiB --nvme /scratch:(\d+)GB", found["option"]).groups()
    for less in ((int(memory) - 1, size), (memory, int(size) // 2)):
        options = ["--host-memory", f"{less[0]}GiB", "--nvme", f"/scratch:{less[1]}GB"]
        assert run("generate", *words, *options, "--dry-run")[0] == 3


def test_an_instance_is_not_given_memory_or_disks(run):
    options = [cure["option"] for cure in cures_of(run, ["--model", "70B", "--hardware", "g4dn.12xlarge"])]
    assert options
    assert not any("--host-memory" in option or "--nvme" in option for option in options)


def test_a_disk_that_is_too_small_keeps_its_path_and_rates(run):
    words = ["--model", "70B", "--hardware", "8xA100-40GB", "--host-memory", "700GiB", "--nvme", "/d:100GB:7GB/s:3GB/s"]
    (cure,) = [cure for cure in cures_of(run, words) if cure["option"].startswith("--nvme /d:")]
    assert cure["option"].endswith(":7GB/s:3GB/s")
    assert chosen_with(run, words, cure) == shown(cure)


def test_a_disk_that_is_large_enough_is_not_a_cure(run):
    words = ["--model", "llama-3.1-405b", "--hardware", "8xA100-40GB", "--nvme", "/n:28TB"]
    options = [cure["option"] for cure in cures_of(run, words)]
    assert any(option.startswith("--host-memory") for option in options)
    assert not any("--nvme" in option for option in options)


@pytest.mark.parametrize("length", [131072, 65536])
def test_no_dead_end_where_nothing_alone_is_enough(run, length):
    words = ["--model", "70B", "--hardware", "2xA100-40GB", "--seq-len", str(length)]
    cures = cures_of(run, words)
    fitting = [cure for cure in cures if cure["fits"]]
    assert cures[0] in fitting
    assert any("--lora-rank" in cure["option"] and "--seq-len" in cure["option"] for cure in fitting)
    for cure in fitting:
        assert chosen_with(run, words, cure) == shown(cure)


def test_what_is_saved_is_said_of_the_limit_that_refused_and_against_which_plan(run):
    words = ["--model", "llama-3.1-70b", "--hardware", "8xA100-40GB", "--host-memory", "512GiB"]
    code, out, _ = run("generate", *words, "--json")
    answer = json.loads(out)
    assert code == 3
    nearest = min(
        (row["estimate"]["host"]["peak_bytes"] for row in answer["candidates"] if row["rejected_by"] == "host_memory"),
    )
    for cure in answer["cures"]:
        assert cure["saves"] == "host_memory"
        assert cure["saves_bytes"] == max(0, nearest - cure["host_bytes"])
        assert gib(nearest) in cure["against"]
    text = run("generate", *words)[1]
    assert "saved against stage 3, optimizer on the CPU" in text
    assert f"{gib(nearest)} of host memory per node" in " ".join(text.split())
    assert not re.search(r" 0\.0 GiB (GPU|host)", text)


def test_what_brings_nothing_nearer_is_not_listed(run):
    for cure in cures_of(run, ["--model", "70B", "--hardware", "2xA100-40GB"]):
        assert cure["fits"] or cure["saves_bytes"], cure


def test_packed_weights_that_do_not_fit_say_why_and_the_denser_ones_are_tried(run):
    hardware = ["--hardware", "8xA100-40GB", "--host-memory", "512GiB"]
    cures = {cure["option"]: cure for cure in cures_of(run, ["--model", "llama-3.1-70b", *hardware])}
    assert "every GPU loads the whole packed model" in cures["--lora-rank 16 --quantize nf4-double"]["cost"]
    plain = {cure["option"]: cure["fits"] for cure in cures_of(run, ["--model", "70B", *hardware])}
    assert plain["--lora-rank 16 --quantize nf4-double"]
    assert "--lora-rank 16 --quantize nf4" not in plain


def test_packed_weights_that_do_not_fit_have_one_note(run):
    words = ["--model", "llama-3.1-70b", "--hardware", "2xRTX4090", "--lora-rank", "16", "--quantize", "nf4"]
    code, out, _ = run("generate", *words, "--json")
    answer = json.loads(out)
    assert code == 3
    (note,) = [note for note in answer["notes"] if "packed" in note]
    stage_3 = min(row["estimate"]["gpu"]["peak_allocated_bytes"] for row in answer["candidates"])
    assert gib(stage_3) in note
    assert "fp32" in note
    assert "no parameters are offloaded" in note


def test_the_cure_shows_the_host_memory_that_nobody_gave(run):
    words = ["--model", "70B", "--hardware", "1xT4"]
    (cure,) = [cure for cure in cures_of(run, words) if cure["option"].startswith("--hardware 8xT4")]
    assert cure["host_bytes"] > 1500 * GIB
    text = run("generate", *words)[1]
    (line,) = [line for line in text.splitlines() if line.startswith("--hardware 8xT4")]
    assert gib(cure["host_bytes"]) in line
    assert "host memory is not known: up to 256 GiB for each GPU" in text


def test_rounding_of_pinned_blocks_is_named_where_it_is_much(run):
    _, much, _ = run("generate", "--model", "mixtral-8x7b", "--hardware", "2xRTX4090")
    assert re.search(r"GiB of it by rounding pinned blocks up to powers of two", much)
    # blocks just below a power of two
    near = decide(Facts(model=replace(LLAMA_3_8B, num_parameters=8_570_000_000), cluster=cluster(host_memory_bytes=GIB),
                        workload=workload(zero_stage=2, offload="optimizer")))  # fmt: skip
    (row,) = near.candidates
    assert "of host memory per node" in row.because
    assert "rounding" not in row.because


def test_a_pinned_offload_gives_way_where_other_cards_have_no_disk(run):
    words = ["--model", "llama-4-maverick-17b-128e", "--hardware", "8xp4d.24xlarge", "--offload", "nvme"]
    first = cures_of(run, words)[0]
    assert first["fits"]
    assert first["option"].endswith("--offload all")
    assert chosen_with(run, words, first) == shown(first)


def test_less_offload_is_a_cure_where_the_host_refuses(run):
    words = ["--model", "llama-3.1-8b", "--hardware", "8xA100-80GB", "--host-memory", "64GiB", "--offload", "optimizer"]
    cures = {cure["option"]: cure for cure in cures_of(run, words)}
    assert cures["--offload none"]["fits"]
    assert chosen_with(run, words, cures["--offload none"]) == shown(cures["--offload none"])


def test_cures_keep_to_the_stages_that_the_release_starts(run):
    base = {"tensor_parallel": {"autotp_size": 2}}
    Path("base.json").write_text(json.dumps(base), encoding="utf-8")
    words = ["--model", "70B", "--hardware", "4xRTX4090", "--base", "base.json", "--deepspeed-version", "0.19.3"]
    for pins in (["--zero-stage", "1", "--offload", "none"], ["--offload", "none"]):
        for cure in cures_of(run, [*words, *pins]):
            assert "--zero-stage 3" not in cure["option"]
            assert "--offload all" not in cure["option"]
            if cure["fits"]:
                assert chosen_with(run, [*words, *pins], cure) == shown(cure)
    for offload in ("all", "nvme"):
        code, _, error = run("generate", *words, "--offload", offload, "--nvme", "/d:1TB")
        assert code == 2
        assert "use --offload optimizer or a newer DeepSpeed" in error


def test_where_no_number_of_cards_is_enough_larger_ones_are_named():
    # a block's 128 experts are gathered together: more than 40 GB, however many share the rest
    facts, _ = api.load_facts({"model": "llama-4-maverick-17b-128e", "hardware": "8xp4d.24xlarge", "seq_len": 2048})
    first = find_cures(decide(facts))[0]
    assert first.fits
    assert first.option.startswith("--hardware 8x8x")
    assert "instead of A100-SXM4-40GB" in first.title
