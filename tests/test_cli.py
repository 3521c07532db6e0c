"""The command line as people and scripts meet it: output, exit codes, files, and no traceback for anything."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroconf import cli
from zeroconf.resources import data_path

LLAMA = ("--model", "llama-3.1-8b", "--hardware", "8xA100-80GB")


def process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "zeroconf", *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def one_line(text):
    """An error is one sentence on one line, without a traceback."""
    assert text.startswith("error: "), text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1, text


def schema(name):
    return json.loads(data_path(f"schemas/{name}.schema.json").read_text(encoding="utf-8"))


def commands(out):
    """The generate commands that are printed."""
    return [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("  zeroconf generate ")]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--lora-rank", "16", "--seq-len", "2048", "--for", "deepspeed", "--client-optimizer"), None),
        (("--network", "10gbe", "--global-batch-size", "129"), ("--network", "10gbe", "--global-batch-size")),
    ],
)
def test_the_command_after_how_many_gpus_keeps_what_was_asked_for(run, options, kept):
    """The smallest number of all stages, and a plan of it; a batch that it does not divide is rounded up."""
    asked = ("generate", "--model", "13B", *options, "--hardware", "A100-80GB")
    stages = json.loads(run(*asked, "--json")[1])["stages"]
    (command,) = commands(run(*asked)[1])
    number = min(stage["num_gpus"] for stage in stages if stage["num_gpus"])
    assert command[command.index("--hardware") + 1].startswith(f"{number}xA100")
    for word in kept or options:
        assert word in command
    code, out, err = run(*command, "--json")
    assert code == 0, err
    assert json.loads(out)["estimate"]["verdict"] == "comfortable"


def test_a_faster_tight_plan_stands_below_the_table_with_its_command(run):
    asked = ("generate", "--model", "llama-3.1-8b", "--hardware", "1xRTX4090", "--seq-len", "2048", "--lora-rank", "16")
    out = run(*asked, "--dry-run", "--headroom", "0.25")[1]
    assert out.index("Faster but tight: stage ") < out.index("Why")
    (command,) = commands(out)
    assert set(asked) < set(command)
    assert command.count("--headroom") == 1
    decided, faster = (json.loads(run(*words, "--json")[1]) for words in ((*asked, "--headroom", "0.25"), command))
    assert faster["plan"] == decided["faster_tight"]["plan"]


def test_the_command_for_a_faster_tight_plan_takes_the_place_of_the_files_that_were_written(run):
    asked = ("generate", "--model", "13B", "--hardware", "8xA100-80GB", "-o", "a b.json", "--accelerate", "acc.yaml")
    (command, *_) = commands(run(*asked)[1])
    before = Path("a b.json").read_text()
    assert run(*command)[0] == 0
    assert Path("a b.json").read_text() != before
    assert {path.name for path in Path().iterdir()} == {"a b.json", "acc.yaml"}


@pytest.mark.parametrize(
    ("hardware", "words", "starter"),
    [
        ("8xA100-80GB", ("--launch", "a b.sh"), "bash 'a b.sh'"),
        ("8xA100-80GB", ("--launch", "job.sbatch", "--scheduler", "slurm"), "sbatch job.sbatch"),
        ("2x8xA100-80GB", ("--launch", "job.sbatch"), "sbatch job.sbatch"),
        ("8xA100-80GB", ("--launch", "job.yaml", "--scheduler", "jobset"), "kubectl apply -f job.yaml"),
    ],
)
def test_the_script_that_was_written_is_the_first_way_to_launch(run, hardware, words, starter):
    out = run("generate", "--model", "llama-3.1-8b", "--hardware", hardware, *words)[1]
    assert out[out.index("Launch (one of)") :].splitlines()[1] == f"  {starter}"


def test_generate_writes_both_files_and_says_why(run):
    code, out, err = run("generate", *LLAMA, "--accelerate", "accelerate.yaml")
    assert (code, err) == (0, "")
    for words in ("stage", "offload", "GPU peak", "chosen", "Why", "zero_optimization.stage = 2", "accelerate launch"):
        assert words in out
    config = json.loads(Path("ds_config.json").read_text(encoding="utf-8"))
    assert config["zero_optimization"]["stage"] == 2
    assert "deepspeed_config_file: ds_config.json" in Path("accelerate.yaml").read_text(encoding="utf-8")


def test_generate_is_deterministic_and_never_overwrites(run):
    assert run("generate", *LLAMA)[0] == 0
    first = Path("ds_config.json").read_bytes()
    code, out, err = run("generate", *LLAMA)
    assert (code, out) == (2, "")
    one_line(err)
    assert "--force" in err
    assert run("generate", *LLAMA, "--force")[0] == 0
    assert Path("ds_config.json").read_bytes() == first


def test_params_make_up_for_an_architecture_that_is_not_known(run):
    shape = {"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    Path("config.json").write_text(json.dumps(shape | {"vocab_size": 65536}), encoding="utf-8")
    jamba = ("--model", "config.json", "--hardware", "8xA100-80GB")
    for command in (("generate", *jamba), ("estimate", *jamba), ("smoke-test", "ds_config.json", "--dry-run", *jamba)):
        Path("ds_config.json").write_text("{}", encoding="utf-8")
        code, _, err = run(*command)
        assert code == 2
        one_line(err)
        assert "--params 7B" in err
    code, out, _ = run("generate", *jamba, "--params", "7B", "--force")
    assert code == 0
    assert "smoke-test ds_config.json --model config.json --params 7B" in out
    assert "architecture 'jamba' is not known" in out
    assert "architecture 'jamba' is not known" in run("estimate", *jamba, "--params", "7B")[1]


@pytest.mark.parametrize("command", ["generate", "estimate", "smoke-test", "lint"])
def test_params_beside_a_known_model_are_refused(run, command):
    Path("ds_config.json").write_text("{}", encoding="utf-8")
    file = ("ds_config.json", "--dry-run") if command == "smoke-test" else ("ds_config.json",) * (command == "lint")
    code, _, err = run(command, *file, "--model", "llama-3.1-8b", "--hardware", "8xA100-80GB", "--params", "7B")
    assert code == 2
    one_line(err)
    assert err.startswith("error: --params 7B has no effect here: llama-3.1-8b is counted, 8.03B parameters; leave it ")


def test_the_shape_for_trying_a_launcher_takes_no_params(run):
    Path("ds_config.json").write_text("{}", encoding="utf-8")
    code, _, err = run("smoke-test", "ds_config.json", "--model", "tiny", "--params", "7B")
    assert (code, err) == (
        2,
        "error: --params 7B has no effect here: tiny is counted, 1.07M parameters; leave it out\n",
    )


def test_an_empty_size_is_no_size(run):
    Path("ds_config.json").write_text("{}", encoding="utf-8")
    Path("zeroconf.toml").write_text('params = "1M"\n', encoding="utf-8")
    code, _, err = run("smoke-test", "ds_config.json", "--model", "tiny", "--params", "")
    assert code == 2
    assert "write it like 7B" in err


def test_the_project_files_params_belong_to_its_model(run):
    shape = {"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    Path("config.json").write_text(json.dumps(shape | {"vocab_size": 65536}), encoding="utf-8")
    project = 'model = "./config.json"\nparams = "7B"\nhardware = "8xA100-80GB"\n'
    Path("zeroconf.toml").write_text(project, encoding="utf-8")
    assert run("estimate")[0] == 0
    assert run("estimate", "--model", "llama-3.1-8b")[0] == 0
    assert run("generate", "--model", "llama-3.1-8b")[0] == 0
    assert run("lint", "ds_config.json", "--model", "llama-3.1-8b", "--fail-on", "error")[0] == 0


@pytest.mark.parametrize(
    ("options", "micro"),
    [
        ("", 1),
        ("--micro-batch-size 8", 8),
        ("--micro-batch-size 8 --model gpt2 --hardware 2xA100-80GB", 8),
        ("--global-batch-size 64", 1),
        # it follows from the number of ranks
        ("--global-batch-size 64 --gradient-accumulation 4", None),
    ],
)
def test_a_missing_batch_size_is_filled_with_the_one_asked_for(run, options, micro):
    Path("a.json").write_text('{"zero_optimization": {"stage": 1}}', encoding="utf-8")
    fix = ("--for", "deepspeed", "--fix", "--unsafe-fixes", *options.split())
    out = run("lint", "a.json", *fix)[1]
    assert json.loads(Path("a.json").read_text()).get("train_micro_batch_size_per_gpu") == micro
    assert "contradicts" not in out


def test_an_auto_that_nobody_fills_becomes_the_batch_size_asked_for(run):
    auto = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
    }
    Path("a.json").write_text(json.dumps(auto), encoding="utf-8")
    fix = ("lint", "a.json", "--for", "deepspeed", "--micro-batch-size", "4", "--gradient-accumulation", "2", "--fix")
    run(*fix)
    assert json.loads(Path("a.json").read_text(encoding="utf-8")) == auto  # the options may be another job's
    run(*fix, "--unsafe-fixes")
    filled = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    assert json.loads(Path("a.json").read_text(encoding="utf-8")) == auto | filled


@pytest.mark.parametrize(
    ("hardware", "asked", "section", "said"),
    [
        ("8xA100-80GB", (), "bf16", "precision bf16 (A100-SXM4-80GB has bf16)"),
        ("8xA100-80GB", ("--precision", "fp16"), "fp16", "t5-large was trained in bf16 and overflows in fp16"),
        ("8xV100-32GB", (), None, "precision fp32 (V100-SXM2-32GB has no bf16, and t5-large overflows in fp16"),
        ("8xV100-32GB", ("--precision", "fp16"), "fp16", "t5-large was trained in bf16 and overflows in fp16"),
    ],
)
def test_a_t5_trains_in_fp16_only_where_that_is_asked_for(run, hardware, asked, section, said):
    code, out, err = run("generate", "--model", "t5-large", "--hardware", hardware, *asked)
    assert (code, err) == (0, "")
    config = json.loads(Path("ds_config.json").read_text(encoding="utf-8"))
    assert [name for name in ("bf16", "fp16") if name in config] == ([section] if section else [])
    assert said in " ".join(out.split())
    assert "(ZC319)" not in out
    assert run("lint", "ds_config.json", "--model", "t5-large", "--hardware", hardware, "-q")[:2] == (0, "")


def test_json_and_dry_run_write_only_what_is_named(run):
    for flag in ("--json", "--dry-run"):
        assert run("generate", *LLAMA, flag)[0] == 0
        assert list(Path().iterdir()) == []
        assert run("generate", *LLAMA, flag, "-o", "named.json")[0] == 0
        Path("named.json").unlink()


def test_stdout_gets_the_file_alone(run):
    code, out, err = run("generate", *LLAMA, "-o", "-")
    assert code == 0
    assert json.loads(out)["zero_optimization"]["stage"] == 2
    assert "chosen" in err
    assert "save standard output as ds_config.json, the name in the launch commands" in err


@pytest.mark.parametrize(
    ("others", "naming"),
    [
        (("--accelerate", "a.yaml"), "a.yaml"),
        (("--launch", "x.sh"), "x.sh"),
        # its script names the YAML, which names the JSON
        (("--accelerate", "a.yaml", "--launch", "x.sh"), "a.yaml"),
        (("--for", "deepspeed", "--accelerate", "a.yaml", "--launch", "x.sh"), "a.yaml and x.sh"),
        # a manifest holds it
        (("--launch", "k.yaml", "--scheduler", "kubernetes"), "the launch commands"),
    ],
)
def test_what_went_to_stdout_is_to_be_saved_under_the_name_that_other_files_have_for_it(run, others, naming):
    err = run("generate", *LLAMA, "-o", "-", *others)[2]
    told = re.findall(r"save standard output as ds_config.json, the name in (.*)", err)
    assert told == [naming]
    if naming != "the launch commands":
        assert all("ds_config.json" in Path(path).read_text() for path in naming.split(" and "))


@pytest.mark.parametrize(("more", "naming"), [((), "x.sh"), (("--scheduler", "kubernetes"), "the launch commands")])
def test_an_accelerate_yaml_on_stdout_has_a_name_for_the_script_and_the_commands(run, more, naming):
    _, out, err = run("generate", *LLAMA, "--for", "accelerate", "--accelerate", "-", "--launch", "x.sh", *more)
    assert yaml.safe_load(out)["deepspeed_config"] == {"deepspeed_config_file": "ds_config.json"}
    assert "--config_file accelerate.yaml" in err
    assert re.search("--config_file (/etc/zeroconf/)?accelerate.yaml", Path("x.sh").read_text())
    assert re.findall(r"save standard output as accelerate.yaml, the name in (.*)", err) == [naming]


@pytest.mark.parametrize(
    "arguments",
    [
        LLAMA,
        (*LLAMA, "--for", "deepspeed", "--accelerate", "a.yaml"),
        ("--model", "mixtral-8x7b", "--hardware", "4x8xH100-80GB", "--network", "ib-ndr", "--for", "accelerate"),
        ("--model", "13B", "--hardware", "1xA100-80GB", "--host-memory", "512GiB", "--nvme", "/scratch:3.5TB"),
        ("--model", "llama-3.1-8b", "--hardware", "2xT4", "--lora-rank", "16"),
        ("--model", "70B", "--hardware", "A100-80GB"),
        ("--model", "70B", "--hardware", "1xT4"),
    ],
)
def test_generate_json_follows_its_schema(run, arguments):
    code, out, _ = run("generate", *arguments, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, schema("generate"))
    if answer["schema"] == "zeroconf/generate/1":
        assert code == (0 if answer["plan"] else 3)
        assert bool(answer["files"]) == bool(answer["plan"])
        gpu = answer["candidates"][0]["estimate"]["gpu"]
        parts = ("parameters", "gradients", "optimizer_states", "buffers", "gathered_parameters", "activations",
                 "logits", "temporaries", "overhead")  # fmt: skip
        assert sum(gpu[part] for part in parts) == gpu["peak_allocated_bytes"]


def test_estimate_json_follows_its_schema(run):
    code, out, _ = run("estimate", *LLAMA, "--json")
    assert code == 0
    table = json.loads(out)
    jsonschema.validate(table, schema("estimate"))
    assert [entry["plan"]["stage"] for entry in table["stages"]] == [0, 1, 2, 3]
    run("generate", *LLAMA)
    code, out, _ = run("estimate", "ds_config.json", *LLAMA, "--json")
    one = json.loads(out)
    jsonschema.validate(one, schema("estimate"))
    assert one["verdict"] == "comfortable"
    assert one["gpu"]["peak_allocated_bytes"] == table["stages"][2]["gpu"]["peak_allocated_bytes"]


def test_estimate_says_that_it_does_not_fit_and_exits_0(run):
    code, out, _ = run("estimate", "--model", "70B", "--hardware", "2xT4")
    assert code == 0
    assert "does-not-fit" in out


def test_nothing_fits_exits_3_with_cures(run):
    code, out, err = run("generate", "--model", "70B", "--hardware", "1xT4")
    assert code == 3
    assert "--hardware 8xT4-16GB" in out
    one_line(err)
    assert list(Path().iterdir()) == []


def test_a_gpu_type_answers_how_many(run):
    code, out, _ = run("generate", "--model", "70B", "--hardware", "H100-80GB")
    assert code == 0
    assert "smallest number of H100-SXM5-80GB" in out
    assert "Tried are 1, 2, 4, 8 and some numbers of whole nodes" in out
    assert list(Path().iterdir()) == []
    assert "Tried" not in run("generate", "--model", "0.5B", "--hardware", "H100-80GB")[1]


@pytest.mark.parametrize(
    "option",
    [("-o", "a.json"), ("--accelerate", "a.yaml"), ("--launch", "a.sh"), ("--verify",), ("--base", "mine.json")],
)
def test_a_gpu_type_gets_no_files(run, option):
    Path("mine.json").write_text('{"tensor_parallel": {"autotp_size": 2}}', encoding="utf-8")
    code, out, err = run("generate", "--model", "0.5B", "--hardware", "H100-80GB", *option)
    assert (code, out) == (2, "")
    one_line(err)
    assert "give one, like 8xH100" in err or "give a number, like 8xH100" in err
    assert [path.name for path in Path().iterdir()] == ["mine.json"]


BAD = [
    ["generate"],
    ["generate", "--model", "llama-3.1-8b"],
    ["generate", "--model", "llama-9-8b", "--hardware", "8xA100-80GB"],
    ["generate", "--model", "llama-3.1-8b", "--hardware", "8xA100-60GB"],
    ["generate", "--model", "1e99B", "--hardware", "8xA100-80GB"],
    ["generate", "--model", "-7B", "--hardware", "8xA100-80GB"],
    ["generate", "--model", "0B", "--hardware", "8xA100-80GB"],
    ["generate", *LLAMA, "--seq-len", "0"],
    ["generate", *LLAMA, "--seq-len", "99999999999999999999"],
    ["generate", *LLAMA, "--global-batch-size", "100"],
    ["generate", *LLAMA, "--micro-batch-size", "3", "--gradient-accumulation", "5", "--global-batch-size", "128"],
    ["generate", *LLAMA, "--headroom", "nan"],
    ["generate", *LLAMA, "--headroom", "2"],
    ["generate", *LLAMA, "--zero-stage", "1", "--offload", "all"],
    ["generate", *LLAMA, "--network", "warp"],
    ["generate", *LLAMA, "--host-memory", "much"],
    ["generate", *LLAMA, "--trainable-params", "x"],
    ["generate", *LLAMA, "-o", "missing/folder/ds.json"],
    ["generate", *LLAMA, "-o", "/proc/version/ds.json"],
    ["generate", *LLAMA, "-o", "same.json", "--accelerate", "same.json"],
    ["generate", *LLAMA, "--launch", "k8s.yaml"],
    ["generate", *LLAMA, "--launch", "k8s.YML", "--scheduler", "slurm"],
    ["generate", *LLAMA, "-o", ""],
    ["generate", *LLAMA, "-o", "."],
    ["generate", *LLAMA, "-o", "a\0b"],
    ["generate", *LLAMA, "--python", "/no/such/python"],
    ["generate", *LLAMA, "--deepspeed-version", "latest"],
    ["generate", "--no-such-option"],
    ["frobnicate"],
    ["estimate", "missing.json", *LLAMA],
    ["smoke-test", "missing.json", "--model", "tiny"],
    ["smoke-test"],
]


@pytest.mark.parametrize("arguments", BAD, ids=lambda arguments: " ".join(arguments)[:60].replace("\0", "0"))
def test_bad_input_is_one_line_and_exit_2(run, arguments):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    one_line(err)
    assert [path for path in Path().iterdir() if path.is_file()] == []


MALFORMED = {
    "truncated.json": b'{"zero_optimization": {',
    "list.json": b"[1, 2]",
    "latin1.json": b'{"a": "\xff"}',
    "deep.json": b"[" * 100_000,
    "stage.json": b'{"zero_optimization": {"stage": 7}}',
    "kinds.json": b'{"zero_optimization": {"stage": 3, "reduce_bucket_size": "many"}}',
    "nan.json": b'{"zero_optimization": {"stage": NaN}}',
    "infinite.json": b'{"train_micro_batch_size_per_gpu": 1e999}',
    "huge.json": b'{"zero_optimization": {"stage": 2, "reduce_bucket_size": ' + b"9" * 6000 + b"}}",
    "device.json": b'{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "tpu"}}}',
    "list_device.json": b'{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": [1]}}}',
    "tabs.yaml": b"a:\n\t- b",
    "other.yaml": b"just: text",
    "bomb.yaml": b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "empty.yaml": b"",
    "tag.yaml": b"!!python/object/apply:os.system ['echo hello']",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_configurations(run, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(MALFORMED[name])
    code, out, err = run("estimate", path, *LLAMA)
    assert (code, out) == (2, "")
    one_line(err)


def test_project_file_gives_the_facts_and_the_command_line_wins(run):
    Path("zeroconf.toml").write_text('model = "llama-3.1-8b"\nhardware = "8xA100-80GB"\nseq-len = 2048\n')
    code, out, _ = run("generate", "--json")
    assert code == 0
    assert json.loads(out)["facts"]["workload"]["sequence_length"] == 2048
    _, out, _ = run("generate", "--json", "--seq-len", "1024")
    assert json.loads(out)["facts"]["workload"]["sequence_length"] == 1024
    Path("zeroconf.toml").write_text("modell = 1\n")
    code, _, err = run("generate", "--json")
    assert code == 2
    one_line(err)
    assert "model" in err


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    option=st.sampled_from(["--model", "--hardware", "--network", "--nvme", "--host-memory", "--frozen-params"]),
    value=st.text(max_size=20),
)
def test_no_text_gives_a_traceback(run, option, value):
    code, _, err = run("generate", *LLAMA, "--dry-run", option, value)
    assert code in (0, 2, 3)
    assert "Traceback" not in err


def test_interrupt_and_broken_pipe_in_a_real_process(tmp_path):
    command = [sys.executable, "-m", "zeroconf", "generate", *LLAMA]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    _, err = child.communicate()
    assert child.returncode == 0
    assert err == b""
    assert json.loads((tmp_path / "ds_config.json").read_text(encoding="utf-8"))
    slow = "import time; from zeroconf import api, cli; api.load_facts = lambda *a, **k: time.sleep(60); cli.main()"
    child = subprocess.Popen(
        [sys.executable, "-c", slow, "generate", *LLAMA, "-o", "x.json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert err.decode().strip() == "error: interrupted"
    assert not (tmp_path / "x.json").exists()


def test_version_and_help():
    version = process("--version")
    assert (version.returncode, version.stdout.strip()) == (0, "zeroconf 0.1.0")
    for command in ((), ("generate",), ("estimate",), ("smoke-test",)):
        shown = process(*command, "--help")
        assert shown.returncode == 0
        assert "zeroconf" in shown.stdout


def test_no_colour_in_a_pipe_and_none_when_asked(run, monkeypatch):
    assert "\x1b[" not in process("estimate", *LLAMA).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    _, out, _ = run("generate", *LLAMA, "--dry-run")
    assert "\x1b[" not in out


def test_help_loads_nothing_heavy():
    probe = (
        "import sys; sys.argv=['zeroconf','--help']\nfrom zeroconf import cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print([m for m in ('pydantic','jsonschema','yaml','torch','zeroconf.api','importlib.metadata','csv') "
        "if m in sys.modules], file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert shown.stderr.strip() == "[]"


def test_the_mdns_library_beside_is_named(run, monkeypatch, tmp_path):
    (tmp_path / "_services").mkdir()
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "cli.py"))
    code, _, err = run("--help")
    assert code == 2
    assert "mDNS" in err


def test_an_error_of_the_command_line_is_one_line_that_names_the_help(run):
    said = "error: Invalid value for '--zero-stage': 9 is not in the range 0<=x<=3; see zeroconf generate --help\n"
    assert run("generate", "--zero-stage", "9") == (2, "", said)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--hardware", "8xA100-80GB"), "--hardware has no effect here: it is what a --dry-run has to fit"),
        (("--dry-run", "--num-gpus", "4"), "--num-gpus has no effect here: a dry run is one process"),
        (("--dry-run", "--launcher", "deepspeed"), "--launcher has no effect here"),
        (("--dry-run", "--device", "cuda"), "--device has no effect here"),
        (("--force",), "--force has no effect here: it overwrites what -o names"),
        (("--world-size", "5000", "--launcher", "torchrun"), "--launcher has no effect here: one process stands for"),
    ],
)
def test_a_smoke_test_refuses_options_that_it_would_not_use(run, options, sentence):
    code, out, err = run("smoke-test", "ds_config.json", "--model", "tiny", *options)
    assert (code, out) == (2, "")
    one_line(err)
    assert sentence in err


@pytest.mark.parametrize("ranks", [("4", "2"), ("2", "1")])
def test_fewer_ranks_than_are_started_contradict_them(run, ranks):
    Path("ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 1}')
    started, world = ranks
    code, _, err = run("smoke-test", "ds_config.json", "--model", "tiny", "--num-gpus", started, "--world-size", world)
    assert code == 2
    one_line(err)
    assert f"--world-size {world} contradicts --num-gpus {started}" in err


def test_nan_is_in_no_range(run):
    code, _, err = run("smoke-test", "ds_config.json", "--model", "tiny", "--timeout", "nan")
    assert code == 2
    assert "nan is not in the range 1<=x<=86400" in err


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused_before_anything_runs(run, number):
    Path("ds_config.json").write_text(f'{{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": {number}}}')
    for command in (("smoke-test", "--model", "tiny"), ("estimate", "--model", "7B", "--hardware", "8xA100-80GB")):
        code, out, err = run(*command[:1], "ds_config.json", *command[1:])
        assert (code, out) == (2, "")
        one_line(err)
        assert "NaN or Infinity, which are no numbers of JSON; write a number" in err
