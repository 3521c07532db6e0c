from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf import api
from zeroconf.errors import InputError
from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.ds_config import parse_config
from zeroconf.keys import newest_releases
from zeroconf.lint.known import Known
from zeroconf.plan.calibrate import calibrated
from zeroconf.plan.ran import workload_and_plan
from zeroconf.rates import RATES
from zeroconf.resources import data_path
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.result import measurement, to_json

MODEL, HARDWARE = "qwen2.5-1.5b", "8xH200"
SCHEMA = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
# a card that is slower than published, and a host that is
SLOW = replace(RATES, compute_factor=1.3)
_SLOWER = {name: 1.7 * getattr(RATES, name) for name in ("host_pass_seconds", "stage_3_fetch_seconds")}
BUSY = replace(RATES, **_SLOWER)


def load(**options):
    return api.load_facts({"model": MODEL, "hardware": HARDWARE, "seq_len": 4096} | options)[0]


def ran(
    facts,
    rates,
    *,
    stage=1,
    sequence_length=4096,
    micro=4,
    steps=(1.0, 1.0, 1.0),
    ranks=8,
    nodes=1,
    zero=None,
    **values,
):
    """What a smoke test would print where seconds were made of these rates; its steps vary by these factors."""
    config = {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": 2,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": stage} | (zero or {}),
    }
    job = SmokeJob(
        ds_config=config,
        architecture=asdict(facts.model),
        sequence_length=sequence_length,
        micro_batch_size=micro,
        gradient_accumulation_steps=2,
        world_size=ranks,
    )
    network = facts.cluster.network if nodes > 1 else None
    node = replace(facts.cluster, num_nodes=nodes, gpus_per_node=ranks // nodes, network=network)
    work, plan = workload_and_plan(job, parse_config(config, "ran"), None)
    cost, instant = (
        estimate(facts.model, node, work, plan, facts.versions, one)
        for one in (rates, replace(rates, cpu_adam_per_second=1e30))
    )
    seconds = cost.step.total_seconds
    times = [10 * seconds, *(seconds * step for step in steps)]
    # CPU Adam, and at stages 1 and 2 what is gathered then; hooks over 252 parameters take 18 ms, copies of 385 MB 7 ms
    update = 0.025 + cost.step.offload_seconds - instant.step.offload_seconds
    update += sum(one.seconds for one in cost.traffic.per_collective if stage < 3 and one.collective == "all-gather")
    record = {"device": "NVIDIA H200", "step_seconds": times, "losses": [6.0] * len(times)}
    record["update_seconds"] = [update] * len(times)
    named = ("architecture", "sequence_length", "activation_checkpointing", "attention", "lora_rank", "zero_init")
    result = SmokeResult(
        mode="real",
        outcome="fits",
        ranks=tuple(measurement(record | {"rank": rank}) for rank in range(ranks)),
        environment={
            "deepspeed": ".".join(map(str, facts.versions.deepspeed)),
            "ds_config": config,
            "micro_batch_size": micro,
            "gradient_accumulation_steps": 2,
            "optimizer": "DeepSpeedCPUAdam" if zero else "FusedAdam",
            "hosts": {f"node{node}": ranks // nodes for node in range(nodes)} if nodes > 1 else None,
        },
        log_path="log",
        facts={name: job.to_json()[name] for name in (*named, "world_size", "rank")},
    )
    return json.loads(json.dumps(to_json(result) | values))


@pytest.fixture
def write(tmp_path):
    def save(values, name="measured.json"):
        path = tmp_path / name
        path.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
        return path

    return save


def test_what_is_made_up_here_has_the_form_of_what_is_printed():
    jsonschema.validate(ran(load(), RATES), SCHEMA)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_other_constants_are_found_again(write, stage):
    facts = load()
    fitted = calibrated(facts, write(ran(facts, SLOW, stage=stage))).rates
    assert fitted.compute_factor == pytest.approx(1.3)
    assert fitted.host_pass_seconds == RATES.host_pass_seconds
    # hardly any arithmetic: the host decides
    short = {"stage": stage, "sequence_length": 16, "micro": 1}
    fitted = calibrated(facts, write(ran(facts, BUSY, **short))).rates
    assert fitted.host_pass_seconds == pytest.approx(BUSY.host_pass_seconds)
    assert fitted.stage_3_fetch_seconds == pytest.approx(BUSY.stage_3_fetch_seconds)
    assert fitted.compute_factor == 1
    assert "the host takes 1.7 x the predicted time" in fitted.measured
    assert "the card waits for the host" in fitted.measured


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_offload_tells_cpu_adam_from_the_card(write, stage):
    facts = load()
    slow = replace(SLOW, cpu_adam_per_second=0.4e9)
    zero = {"offload_optimizer": {"device": "cpu"}}
    fitted = calibrated(facts, write(ran(facts, slow, stage=stage, zero=zero))).rates
    assert fitted.cpu_adam_per_second == pytest.approx(0.4e9, rel=0.02)
    assert fitted.low_cpu_adam_per_second == pytest.approx(fitted.cpu_adam_per_second / 1.05)
    assert fitted.compute_factor == pytest.approx(1.3, rel=0.05)
    assert re.search(r"CPU Adam updates 0\.4\d*e9 parameters a second, not 1\.7e9", fitted.measured)
    again = ran(facts, fitted, stage=stage, zero=zero)["ranks"][0]["step_seconds"]
    assert again == pytest.approx(ran(facts, slow, stage=stage, zero=zero)["ranks"][0]["step_seconds"])


@settings(deadline=None)
@given(
    factor=st.floats(0.8, 3),
    stage=st.sampled_from((0, 1, 2, 3)),
    sequence_length=st.sampled_from((16, 128, 512, 1024, 4096)),
)
def test_whatever_decided_the_run_itself_is_predicted_as_it_was(tmp_path_factory, factor, stage, sequence_length):
    facts = load(zero_stage=stage)
    values = ran(facts, replace(RATES, compute_factor=factor), stage=stage, sequence_length=sequence_length)
    path = tmp_path_factory.mktemp("run") / "measured.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    fitted = calibrated(facts, path).rates
    again = ran(facts, fitted, stage=stage, sequence_length=sequence_length)
    assert again["ranks"][0]["step_seconds"] == pytest.approx(values["ranks"][0]["step_seconds"])


def test_the_prediction_moves_to_the_measurement_and_its_band_narrows(write):
    facts = load()
    path = write(ran(facts, SLOW))
    before, after = (api.decide(one).chosen for one in (facts, calibrated(facts, path)))
    step, slower = before.estimate.step, after.estimate.step
    assert slower.compute_seconds / step.compute_seconds == pytest.approx(1.3)
    assert slower.high_seconds / slower.low_seconds < step.high_seconds / step.low_seconds


def test_steps_that_vary_leave_the_band_as_wide_as_they_vary(write):
    facts = load()
    fitted = calibrated(facts, write(ran(facts, SLOW, steps=(0.9, 1.0, 1.15)))).rates
    assert fitted.compute_factor == pytest.approx(1.3)
    assert fitted.compute_error == pytest.approx(0.15)
    assert "3 steps within 15%" in fitted.measured


def test_of_the_ranks_the_slowest_counts(write):
    facts = load()
    values = ran(facts, RATES)
    slow = ran(facts, SLOW)
    values["ranks"][3]["step_seconds"] = slow["ranks"][3]["step_seconds"]
    assert calibrated(facts, write(values)).rates.compute_factor == pytest.approx(1.3)


def _without(values, *path):
    *folders, last = path
    block = values
    for one in folders:
        block = block[one]
    del block[last]
    return values


def test_a_run_on_several_hosts_is_compared_with_what_they_send_each_other(write):
    facts = load(hardware="4x8xH200", network="25gbe")
    values = ran(facts, SLOW, ranks=16, nodes=2)
    assert calibrated(facts, write(values)).rates.compute_factor == pytest.approx(1.3)
    # as one node of 16 the network's seconds would be the card's
    values["environment"]["hosts"] = None
    assert calibrated(facts, write(values)).rates.compute_factor > 1.5


def test_hosts_that_do_not_compare_are_refused(write):
    facts = load(hardware="4x8xH200", network="25gbe")
    values = ran(facts, SLOW, ranks=16, nodes=2)
    with pytest.raises(InputError, match="it ran on 2 hosts, and this cluster is one; measure on one"):
        calibrated(load(), write(values))
    values["environment"]["hosts"] = {"a": 10, "b": 6}
    with pytest.raises(InputError, match="its hosts have different numbers of ranks"):
        calibrated(facts, write(values))


def lines(*runs):
    """A file of measurements as smoke-test appends to it."""
    kept = [run if isinstance(run, str) else json.dumps(run | {"time": 1.0, "ds_config": {}}) for run in runs]
    return "\n".join(kept) + "\n"


def test_of_many_runs_the_newest_of_this_model_that_can_be_compared_counts(write):
    facts = load()
    other = load(model="llama-3.2-1b")
    slower = [replace(RATES, compute_factor=factor) for factor in (1.2, 1.3, 1.4)]
    first, second, third = (ran(facts, rates) for rates in slower)
    text = lines(first, second, ran(other, slower[2]), third | {"mode": "simulated"}, third | {"outcome": "oom"}, "{ha")
    fitted = calibrated(facts, write(text, "measurements.jsonl")).rates
    assert fitted.compute_factor == pytest.approx(1.3)
    assert "measurements.jsonl:2, " in fitted.measured
    # without one of this model the other's is better than none
    text = lines(ran(other, slower[0]), ran(other, slower[2]))
    assert calibrated(facts, write(text, "measurements.jsonl")).rates.compute_factor == pytest.approx(1.4)


def test_a_file_without_a_run_that_can_be_compared_says_why(write):
    facts = load()
    cpu = ran(facts, RATES)
    for rank in cpu["ranks"]:
        rank["device"] = "cpu"
    path = write(lines(ran(facts, RATES) | {"mode": "dry-run"}, cpu), "measurements.jsonl")
    with pytest.raises(InputError, match=r"none of its 2 runs can be used here; .*:2: measured on cpu, and this clust"):
        calibrated(facts, path)
    with pytest.raises(InputError, match="no line of it is a run"):
        calibrated(facts, write("{}\n\n", "measurements.jsonl"))


def test_a_long_file_is_read_from_its_end(write):
    facts = load()
    padding = json.dumps({"schema": "other", "text": "x" * 1000})
    text = lines(ran(facts, RATES), *[padding] * 11_000, ran(facts, SLOW))
    assert calibrated(facts, write(text, "measurements.jsonl")).rates.compute_factor == pytest.approx(1.3)


def test_a_users_program_says_nothing_of_its_shapes(write):
    facts = load()
    program = {"facts": {"script": "train.py", "arguments": [], "world_size": 8}}
    with pytest.raises(InputError, match=r"the shapes of train\.py are not known"):
        calibrated(facts, write(ran(facts, RATES) | program))


REFUSED = {
    "dry run": ({"mode": "dry-run"}, "a dry run has no times"),
    "one of many": ({"mode": "simulated"}, "one rank of many does not communicate"),
    "failed": ({"outcome": "oom"}, "the run ended with oom"),
    "no rank": ({"ranks": []}, "no step was timed after the first"),
    "another key": ({"surprise": 1}, "not what this release's smoke-test --json prints"),
}


@pytest.mark.parametrize(("values", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_run_that_says_nothing_about_time_is_refused(write, values, sentence):
    facts = load()
    with pytest.raises(InputError, match=sentence):
        calibrated(facts, write(ran(facts, RATES) | values))


def test_what_does_not_compare_is_refused(write):
    facts = load()
    with pytest.raises(InputError, match="no step was timed after the first"):
        calibrated(facts, write(ran(facts, RATES, steps=())))
    with pytest.raises(InputError, match="measured on H200-SXM-141GB, and this cluster has A100-SXM4-80GB"):
        calibrated(load(hardware="8xA100-80GB"), write(ran(facts, RATES)))
    with pytest.raises(InputError, match="it ran in bf16, this is fp32"):
        calibrated(load(precision="fp32"), write(ran(facts, RATES)))
    offload = {"offload_optimizer": {"device": "nvme", "nvme_path": "/scratch"}}
    with pytest.raises(InputError, match="with NVMe the update does not tell CPU Adam from the disk"):
        calibrated(facts, write(ran(facts, RATES, stage=3, zero=offload)))
    other = ran(facts, RATES, stage=2, zero={"offload_optimizer": {"device": "cpu"}})
    other["environment"]["optimizer"] = "AdamW"
    with pytest.raises(InputError, match="AdamW ran on the host, not DeepSpeedCPUAdam"):
        calibrated(facts, write(other))
    other["environment"]["optimizer"] = "DeepSpeedCPUAdam"
    for rank in other["ranks"]:
        rank["update_seconds"] = [1e-5] * 4
    with pytest.raises(InputError, match=r"less than the .* predicted for its copies"):
        calibrated(facts, write(other))
    with pytest.raises(InputError, match=r"that would be [\d.e+]+ times the peak of H200"):
        calibrated(facts, write(ran(facts, RATES, steps=(1e-4, 1e-4))))
    slow = load(hardware="4x8xH200", network="1gbe")
    fast = load(hardware="4x8xH200", network="ib-ndr")
    with pytest.raises(InputError, match=r"less than the .* predicted for communication.*; measure the links"):
        calibrated(slow, write(ran(fast, RATES, ranks=16, nodes=2)))


HELD_UP = r"something else held it up \(another job, swapping, a breakpoint\); measure again"


def test_what_something_else_held_up_is_refused(write):
    facts = load()
    offloaded = ran(facts, RATES, stage=2, zero={"offload_optimizer": {"device": "cpu"}})
    for rank in offloaded["ranks"]:
        rank["step_seconds"] = [6000.0] * 4
        rank["update_seconds"] = [3000.0] * 4
    for values, sentence in (
        (ran(facts, RATES, steps=(3000.0, 3000.0)), f"a step took .* are predicted: {HELD_UP}"),
        (ran(facts, RATES, steps=(1.0, 1.0, 40.0)), f"its steps took .* to .*: {HELD_UP}"),
        (offloaded, f"the update took 3,000 s: {HELD_UP}"),
    ):
        with pytest.raises(InputError, match=sentence):
            calibrated(facts, write(values))
    assert calibrated(facts, write(ran(facts, RATES, steps=(15.0, 15.0, 16.0)))).rates.compute_factor > 10


def test_a_run_whose_parts_contradict_each_other_is_refused(write):
    facts = load()
    fewer, other, longer = (ran(facts, RATES) for _ in range(3))
    fewer["ranks"] = fewer["ranks"][:2]
    other["environment"]["micro_batch_size"] = 1
    for rank in longer["ranks"]:
        rank["update_seconds"] = [5000.0] * 4
    for values, sentence in (
        (fewer, "it has figures of 2 ranks, and ran on 8"),
        (other, "its configuration has train_micro_batch_size_per_gpu 4, and 1 ran"),
        (longer, "a step took .*, its update 5,000 s"),
    ):
        with pytest.raises(InputError, match=sentence):
            calibrated(facts, write(values))


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("facts", "architecture", "num_parameters"), 1000, "said to have 1,000 parameters, and its matrices have 1,"),
        (("environment", "deepspeed"), "0.0.1", "DeepSpeed 0.0.1 .* is too old"),
        (("environment", "deepspeed"), "foo", "deepspeed version 'foo' is not a release"),
        (("facts", "lora_rank"), 10**9, "LoRA rank 1000000000 is out of range"),
    ],
)
def test_what_cannot_have_run_is_refused_with_the_files_name(write, place, value, sentence):
    facts = load()
    values = ran(facts, RATES)
    *folders, last = place
    block = values
    for name in folders:
        block = block[name]
    block[last] = value
    with pytest.raises(InputError, match=sentence) as refused:
        calibrated(facts, path := write(values))
    assert str(refused.value).startswith(f"{path}: ")


def test_more_than_the_peak_is_refused_and_the_peak_is_not(write):
    facts = load()
    values = ran(facts, RATES, ranks=1, sequence_length=1024)
    utilization = values_utilization(facts, values)
    for rank in values["ranks"]:
        rank["step_seconds"] = [seconds * utilization / 3.23 for seconds in rank["step_seconds"]]
    with pytest.raises(InputError, match=r"that would be 3(\.\d)? times the peak of H200-SXM-141GB"):
        calibrated(facts, write(values))
    for rank in values["ranks"]:
        rank["step_seconds"] = [seconds * 3.23 / 0.6 for seconds in rank["step_seconds"]]
    assert calibrated(facts, write(values)).rates.compute_factor < 1


def values_utilization(facts, values):
    """Of the peak, in the run as it was predicted."""
    job = SmokeJob(
        ds_config=values["environment"]["ds_config"],
        architecture=asdict(facts.model),
        sequence_length=values["facts"]["sequence_length"],
        micro_batch_size=values["environment"]["micro_batch_size"],
        gradient_accumulation_steps=2,
    )
    work, plan = workload_and_plan(job, parse_config(job.ds_config, "ran"), None)
    node = replace(facts.cluster, gpus_per_node=1)
    return estimate(facts.model, node, work, plan, facts.versions, RATES).step.model_flops_utilization


@pytest.mark.parametrize(
    "path", [("facts", "architecture", "num_layers"), ("environment", "ds_config"), ("environment", "micro_batch_size")]
)
def test_a_file_that_does_not_say_what_ran_is_refused(write, path):
    facts = load()
    with pytest.raises(InputError, match="it does not say what ran"):
        calibrated(facts, write(_without(ran(facts, RATES), *path)))


def _paths(value, path=()):
    """Every place of a JSON value."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield from _paths(part, (*path, key))


ODD = (None, True, 0, -1, 1.5, 10**400, float("inf"), float("nan"), "", "x", [], {}, [[]], {"x": None})


@settings(deadline=None)
@given(data=st.data())
def test_whatever_stands_in_the_file_is_read_or_refused(tmp_path_factory, data):
    facts = load()
    values = ran(facts, RATES, stage=3, ranks=2)
    path = data.draw(st.sampled_from([one for one in _paths(values) if one]))
    block = values
    for key in path[:-1]:
        block = block[key]
    block[path[-1]] = data.draw(st.sampled_from(ODD))
    file = tmp_path_factory.mktemp("odd") / "measured.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    try:
        rates = calibrated(facts, file).rates
    except InputError:
        return
    assert 0 < rates.compute_factor < float("inf")


@pytest.mark.parametrize("text", ["", "{", "[1]", "hello", '{"schema": "zeroconf/estimate/1"}', "nodes: [", "\0"])
def test_another_file_is_refused_with_what_it_takes(write, text):
    with pytest.raises(
        InputError, match=r"--calibrate takes a file that zeroconf smoke-test CONFIG --json, or detect --measure-net"
    ):
        calibrated(load(), write(text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.json: there is no such file; --calibrate takes a file that"):
        calibrated(load(), tmp_path / "nowhere.json")


def test_another_attention_is_noted(write):
    facts = load()
    values = ran(facts, SLOW)
    assert facts.workload.attention == "flash"
    assert values["facts"]["attention"] == "sdpa"
    (note,) = [note for note in calibrated(facts, write(values)).cluster.assumptions if "attention" in note]
    assert "measured with sdpa attention, this is for flash" in note
    assert not [
        note for note in calibrated(load(attention="sdpa"), write(values)).cluster.assumptions if "sdpa" in note
    ]


def test_another_release_is_noted(write):
    facts = load()
    values = ran(facts, SLOW)
    values["environment"]["deepspeed"] = "0.17.2"
    found = calibrated(facts, write(values))
    assert any("measured with DeepSpeed 0.17.2, this is for 0.19.8" in note for note in found.cluster.assumptions)


# --- links ---------------------------------------------------------------------------------------

DETECTED = """nodes: 4
gpus_per_node: 8
gpu: H200-141GB
network: {bandwidth: 3GB/s, measured: true, latency: 30us}
"""


def test_a_measured_network_takes_the_place_of_what_would_be_taken(write):
    facts = load(hardware="4x8xH200", network="100gbe")
    assert any("100gbe: assumed" in note for note in facts.cluster.assumptions)
    path = write(DETECTED, "cluster.yaml")
    found = calibrated(facts, path)
    link = found.cluster.network
    assert (link.bandwidth_bytes_per_second, link.low_bandwidth_bytes_per_second) == (3e9, 3e9)
    assert link.latency_seconds == pytest.approx(30e-6)
    assert link.confidence == "measured"
    assert found.cluster.intra_node == facts.cluster.intra_node
    assert not any("100gbe" in note for note in found.cluster.assumptions)
    assert found.rates.measured.startswith("24 Gb/s between nodes, where ")
    assert replace(found.rates, measured="") == RATES
    # as the hardware itself: nothing left to replace
    same = calibrated(load(hardware=str(path)), path)
    assert same.cluster.network == link


def test_a_network_that_was_assumed_is_no_longer_warned_of(write):
    facts = load(hardware="4x8xH200")
    assert any("NO NETWORK WAS GIVEN" in note for note in facts.cluster.assumptions)
    found = calibrated(facts, write(DETECTED, "cluster.yaml"))
    assert not any("NO NETWORK WAS GIVEN" in note for note in found.cluster.assumptions)


def test_a_measured_link_inside_the_node(write):
    text = "gpus_per_node: 8\ngpu: H200-141GB\nintra_node: 300GB/s\n"
    found = calibrated(load(), write(text, "node.yaml"))
    assert found.cluster.intra_node.bandwidth_bytes_per_second == 300e9
    assert found.cluster.intra_node.confidence == "measured"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (DETECTED.replace("measured: true", "measured: false"), "no link between nodes was measured"),
        (DETECTED.replace("H200-141GB", "A100-80GB"), "measured on A100-SXM4-80GB"),
    ],
)
def test_an_inventory_without_a_measurement_of_these_links_is_refused(write, text, sentence):
    with pytest.raises(InputError, match=sentence):
        calibrated(load(hardware="4x8xH200", network="100gbe"), write(text, "cluster.yaml"))


# --- the command line ----------------------------------------------------------------------------


def test_what_was_measured_is_told_and_decides(write, tmp_path):
    path = write(ran(load(), SLOW))
    options = {"calibrate": str(path)}
    facts = load(**options)
    assert facts.rates.compute_factor == pytest.approx(1.3)
    stage = next(one for one in api.decide(facts).reasons if one.key == "zero_optimization.stage")
    assert "as measured on this cluster" in stage.because
    (tmp_path / "zeroconf.toml").write_text('calibrate = "measured.json"\n', encoding="utf-8")
    by_project, _ = api.load_facts({"model": MODEL, "hardware": HARDWARE, "seq_len": 4096}, project=tmp_path)
    assert by_project.rates == facts.rates


def test_the_linter_goes_by_it_too(write):
    options = {"model": MODEL, "hardware": "4x8xH200", "network": "100gbe"}
    known = Known(options | {"calibrate": str(write(DETECTED, "cluster.yaml"))}, newest_releases())
    assert known.facts.cluster.network.bandwidth_bytes_per_second == 3e9
    assert known.found["cluster"] == known.facts.cluster
    with pytest.raises(InputError, match=r"nowhere\.json: there is no such file; --calibrate takes a file that"):
        Known(options | {"calibrate": "nowhere.json"}, newest_releases())
