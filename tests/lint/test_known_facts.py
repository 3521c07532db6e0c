"""What options and project files say beside the files, and what is said of a rule whose facts are missing."""

from __future__ import annotations

import json

import pytest

from zeroconf.rules.registry import Problem

FILE = '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}'
PROJECT = 'model = "gpt2"\nhardware = "2xA100-80GB"\n'


@pytest.fixture
def say(make_rule):
    """Makes a rule that says the model and the cluster that it was given."""

    def check(model, cluster):
        yield Problem(f"{model.name} on {cluster.name}")

    return make_rule(check, severity="info")


@pytest.fixture
def plan_rule(make_rule):
    def check(planned):
        yield Problem(f"{planned.plan.micro_batch_size} x {planned.plan.gradient_accumulation_steps}")

    return make_rule(check, code="ZC902", severity="info")


def messages(out):
    return [one["message"] for one in json.loads(out)["findings"]]


def needs(out):
    return {one["code"]: one["needs"] for one in json.loads(out)["skipped"]}


@pytest.mark.usefixtures("say")
def test_the_options_give_the_facts(write, zeroconf):
    write(**{"a.json": FILE})
    out = zeroconf("lint", "a.json", "--format", "json", "--model", "gpt2", "--hardware", "2xA100-80GB")[1]
    assert messages(out) == ["gpt2 on 2xA100-80GB"]
    assert needs(out) == {}


@pytest.mark.usefixtures("say")
def test_the_nearest_project_file_gives_them_and_the_command_line_wins(write, zeroconf):
    write(**{"zeroconf.toml": PROJECT, "a.json": FILE, "b/zeroconf.toml": 'model = "gpt2-xl"\n', "b/a.json": FILE})
    assert messages(zeroconf("lint", "a.json", "--format", "json")[1]) == ["gpt2 on 2xA100-80GB"]
    out = zeroconf("lint", "a.json", "--format", "json", "--hardware", "8xH100-80GB")[1]
    assert messages(out) == ["gpt2 on 8xH100-80GB"]
    out = zeroconf("lint", "b/a.json", "--format", "json", "--hardware", "4xL40S")[1]
    assert messages(out) == ["gpt2-xl on 4xL40S"]


@pytest.mark.usefixtures("say", "plan_rule")
def test_each_missing_fact_is_named_with_its_option(write, zeroconf):
    write(**{"a.json": FILE})
    assert needs(zeroconf("lint", "a.json", "--format", "json")[1]) == {
        "ZC901": "--hardware",
        "ZC902": "--model and --hardware",
    }
    out = zeroconf("lint", "a.json", "--format", "json", "--hardware", "A100-80GB", "--model", "gpt2")[1]
    assert needs(out) == dict.fromkeys(("ZC901", "ZC902"), "--hardware with a number of GPUs")
    text = zeroconf("lint", "a.json", "--hardware", "8xA100-80GB")[1]
    assert "Rules not checked: ZC901 (need --model); ZC902 (need --model and --hardware).\n" in text


@pytest.mark.usefixtures("plan_rule")
def test_an_option_that_the_file_contradicts_is_a_reason_and_not_a_need(write, zeroconf):
    write(**{"zeroconf.toml": PROJECT, "a.json": '{"train_micro_batch_size_per_gpu": 1}'})
    why = "--micro-batch-size 8 contradicts a.json, which says 1; leave the option out, or change the file"
    assert f"Rules not checked: ZC902 ({why}).\n" in zeroconf("lint", "a.json", "--micro-batch-size", "8")[1]
    sarif = zeroconf("lint", "a.json", "--micro-batch-size", "8", "--format", "sarif")[1]
    assert f"a.json: ZC902 was not checked: {why}" in sarif


@pytest.mark.usefixtures("plan_rule")
def test_a_file_that_no_plan_can_be_read_from_says_why(write, zeroconf):
    write(**{"zeroconf.toml": PROJECT, "a.json": '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}'})
    out = zeroconf("lint", "a.json")[1]
    assert "Rules not checked: ZC902 (a.json: train_batch_size 7 is not" in out
    write(**{"a.json": '{"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}}'})
    assert "not modelled: optimizer OneBitAdam" in zeroconf("lint", "a.json")[1]


@pytest.mark.usefixtures("plan_rule")
def test_a_rule_about_plans_does_not_apply_to_what_is_none(write, zeroconf):
    write(**{"zeroconf.toml": PROJECT, "hostfile": "a slots=2\n", "acc.yaml": "distributed_type: MULTI_GPU\n"})
    write(**{"inference.json": '{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}'})
    for name in ("hostfile", "acc.yaml", "inference.json"):
        out = zeroconf("lint", name, "--format", "json")[1]
        assert (messages(out), needs(out)) == ([], {})


@pytest.mark.usefixtures("plan_rule")
def test_an_accelerate_yamls_inline_fields_are_a_plan(write, zeroconf):
    yaml = "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {gradient_accumulation_steps: 3}\n"
    write(**{"zeroconf.toml": PROJECT, "acc.yaml": yaml})
    assert messages(zeroconf("lint", "acc.yaml", "--format", "json")[1]) == ["1 x 3"]


@pytest.mark.usefixtures("say")
def test_an_option_that_cannot_be_used_ends_the_run(write, zeroconf):
    write(**{"a.json": FILE})
    code, _, err = zeroconf("lint", "a.json", "--model", "no-such-model", "--hardware", "2xA100-80GB")
    assert code == 2
    assert "no-such-model" in err
    assert zeroconf("lint", "a.json", "--hardware", "2xA101")[0] == 2


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ('hardware = "4x4xA100-80GBx"', "'hardware'"),
        ('network = "10gb"', "'network'"),
        ('intra-node = "nvlnk"', "'intra-node'"),
        ('host-memory = "lots"', "'host-memory'"),
        ('nvme = "x"', "'nvme'"),
        ('calibrate = "nope.json"', "'calibrate'"),
        ('model = "no-such-model"', "'model'"),
        ('model = "nope.json"', "'model'"),
        ('trainable-params = "20Q"', "'trainable-params'"),
        ('quantize = "nf4"', "'quantize'"),
        ("micro-batch-size = 3\nglobal-batch-size = 7", "'global-batch-size'"),
        ('model = "owner/only-the-hub-knows"\nnetwork = "10gb"', "'network'"),
    ],
)
def test_a_projects_value_that_no_machine_can_read_ends_the_run(write, zeroconf, settings, keys):
    given = {line.split(" = ")[0] for line in settings.splitlines()}
    others = {"model": '"gpt2"', "hardware": '"2x2xA100-80GB"'}
    project = settings + "".join(f"\n{key} = {value}" for key, value in others.items() if key not in given)
    write(**{"zeroconf.toml": project, "a.json": FILE})
    code, _, err = zeroconf("lint", "a.json")
    assert code == 2
    assert err.count("\n") == 1
    assert f"zeroconf.toml: {keys}: " in err


@pytest.mark.usefixtures("say")
def test_two_values_that_cannot_be_read_are_in_the_projects_file_and_an_options_is_not(write, zeroconf):
    write(**{"zeroconf.toml": PROJECT + 'host-memory = "lots"\nnetwork = "10gb"\n', "a.json": FILE})
    code, _, err = zeroconf("lint", "a.json")
    assert code == 2
    assert "zeroconf.toml: host memory 'lots'" in err
    write(**{"zeroconf.toml": PROJECT, "a.json": FILE})
    code, _, err = zeroconf("lint", "a.json", "--nvme", "x")
    assert code == 2
    assert "zeroconf.toml" not in err
    write(**{"zeroconf.toml": PROJECT + 'host-memory = "lots"', "a.json": FILE})
    assert "zeroconf.toml: 'host-memory'" in zeroconf("lint", "a.json", "--model", "gpt2")[2]


@pytest.mark.usefixtures("say")
@pytest.mark.parametrize("named", ["owner/only-the-hub-knows", "./weights-of-another-machine"])
def test_what_only_another_machine_knows_is_a_reason_in_every_format(write, zeroconf, make_rule, named):
    def check(config, cluster):
        yield Problem(f"{config.stage} on {cluster.name}")

    make_rule(check, code="ZC903", severity="info")
    write(**{"a.json": FILE, "zeroconf.toml": f'model = "{named}"\nhardware = "2xA100-80GB"\n'})
    code, out, _ = zeroconf("lint", "a.json")
    assert code == 0
    assert named.strip("./") in out.partition("Rules not checked: ZC901 (")[2]
    # the hardware is known all the same
    assert "2 on 2xA100-80GB" in out
    code, out, err = zeroconf("lint", "a.json", "--format", "concise")
    assert code == 0
    assert out.count("\n") == 1
    assert named.strip("./") in err
    # an option that was not given is no news
    write(**{"zeroconf.toml": 'hardware = "2xA100-80GB"\n'})
    assert zeroconf("lint", "a.json", "--format", "concise")[2] == ""


def test_the_options_of_the_workload_reach_the_plan(write, zeroconf, make_rule):
    def check(planned):
        workload = planned.facts.workload
        yield Problem(f"{workload.sequence_length} {workload.lora_rank} {planned.plan.activation_checkpointing}")

    make_rule(check, severity="info")
    write(**{"a.json": FILE, "zeroconf.toml": PROJECT + "seq-len = 256\nlora-rank = 8\n"})
    options = ("--seq-len", "128", "--activation-checkpointing", "full")
    assert messages(zeroconf("lint", "a.json", "--format", "json", *options)[1]) == ["128 8 True"]


def test_what_a_yaml_names_is_read_beside_it_or_from_here(write, zeroconf, make_rule):
    def check(named):
        yield Problem(f"{named.path} stage {named.config.stage} {len(named.errors)}")

    make_rule(check, severity="info")
    yaml = "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {deepspeed_config_file: d/ds.json}\n"
    write(**{"c/acc.yaml": yaml})
    assert needs(zeroconf("lint", "c/acc.yaml", "--format", "json")[1]) == {
        "ZC901": "d/ds.json, which is named, is not there"
    }
    write(**{"d/ds.json": '{"train_batch_size": 8, "zero_optimization": {"stage": 1}}'})
    assert messages(zeroconf("lint", "c/acc.yaml", "--format", "json")[1]) == ["d/ds.json stage 1 0"]
    write(**{"c/d/ds.json": '{"train_batch_size": 8, "zero_optimization": {"stage": 2}, // no JSON\n}'})
    assert messages(zeroconf("lint", "c/acc.yaml", "--format", "json")[1])[0].startswith("d/ds.json stage 2")
    write(**{"c/d/ds.json": "[1, 2]"})
    assert "cannot be read" in needs(zeroconf("lint", "c/acc.yaml", "--format", "json")[1])["ZC901"]
