"""The rules for Accelerate YAML against Accelerate: what it refuses is an error, what it takes is none.

The exceptions are the faults that pass without a word: each of their rules has a proof here that the file does
something else than it says.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules import RULES
from zeroconf.rules.page import read_page

READER = Path(__file__).parent / "accelerate_reader.py"
TWO = {"num_machines": 2, "num_processes": 16, "main_process_ip": "10.0.0.1"}
ON_TWO = "deepspeed_multinode_launcher"
GIVEN = {"num_processes": "8", "num_machines": "1", "machine_rank": "0", "main_process_ip": "10.0.0.1"}


def made(inline=None, **top):
    """A YAML with these values, ``None`` for a key that is left out."""
    values = {"distributed_type": "DEEPSPEED", "num_processes": 8, **top}
    if inline is not None:
        values["deepspeed_config"] = inline
    return yaml.safe_dump({key: value for key, value in values.items() if value is not ...}, sort_keys=False)


INLINE = {
    "zero_stage": [0, 1, 2, 3, "3", 4, -1, "auto", 3.0, True, None, [2], {}, "two"],
    "gradient_accumulation_steps": [1, "auto", "4", 0, -1, 2.0, "none", True, None, [1]],
    "gradient_clipping": [
        1.0,
        "auto",
        0.0,
        0,
        "0.0",
        "none",
        -1,
        False,
        True,
        None,
        [1],
        "1e-3",
        1e-3,
        float("inf"),
    ],
    "offload_optimizer_device": ["none", "cpu", "CPU", "nvme", "gpu", True, False, None, ["cpu"], "auto"],
    "zero3_init_flag": [True, False, "true", "yes", "auto", 1, 0, None, [1], "none"],
    "zero3_save_16bit_model": [True, False, "true", "yes", "auto", 1, None, "True"],
    "deepspeed_config_file": ["ds_config.json", "none", None],
    "overlap_comm": [True],
    "train_micro_batch_size_per_gpu": [4],
    "zero_optimization": [{"stage": 3}],
    "ofload_optimizer_device": ["cpu"],
    "stage": [3],
    "fp16": [True],
    "num_processes": [4],
    "mixed_precision": ["bf16"],
    "anything": ["at all"],
}


def inline_cases():
    for key, several in INLINE.items():
        for value in several:
            stage = {} if key in {"zero_stage", "deepspeed_config_file"} else {"zero_stage": 2}
            yield made(stage | {key: value})
            if key in {"offload_optimizer_device", "zero3_save_16bit_model"}:
                yield made({"zero_stage": 3, key: value})
    for stage in range(4):
        for device in ("cpu", "nvme"):
            yield made({"zero_stage": stage, "offload_param_device": device, "offload_param_nvme_path": "/scratch"})
    for inline in (None, {}, [], ["a"], "ds.json", 3):
        yield made(inline)


def beside_a_file():
    named = {"deepspeed_config_file": "ds_config.json"}
    fields = ("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device")
    fields += ("offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path")
    fields += ("zero3_save_16bit_model", "zero3_init_flag", "deepspeed_moe_layer_cls_names", ON_TWO)
    fields += ("deepspeed_hostfile", "deepspeed_inclusion_filter", "overlap_comm")
    for field in fields:
        yield made(named | {field: None})
    yield made({**named, "zero_stage": 2})
    for precision in ("bf16", "no", None):
        yield made(named, mixed_precision=precision)
    yield made(named, fp16=True)
    yield made(named, fp16=False)


TOP_LEVEL = {
    "distributed_type": ["deepspeed", "ZERO", "MULTI_GPU", "FSDP", "NO", False, None, ..., "TPU", "XLA"],
    "compute_environment": ["LOCAL_MACHINE", "LOCAL", "local_machine", None],
    "mixed_precision": ["no", "bf16", "BF16", "fp16", "bfloat16", "fp32", 16, ["bf16"], None],
    "num_processes": [1, "4", "auto", 4.0, 4.5, True, [4], 0, None, -1, ...],
    "num_machines": [1, 0, "1", "auto", 1.0, None],
    "machine_rank": [0, 3, None],
    "gpu_ids": ["all", "0,1,2,3,4,5,6,7", 0, [0, 1], None],
    "main_process_port": [29500, 0, "29500", "auto", 70000, -1, 29500.0, None],
    "use_cpu": [True, False, "false", None],
    "zero_stage": [2],
    "use_deepspeed": [True],
    "num_procesess": [8],
    "fp16": [True],
    "dynamo_backend": ["NO"],
    "downcast_bf16": ["no"],
    "fsdp_config": [{}],
}


def top_level_cases():
    for key, several in TOP_LEVEL.items():
        for value in several:
            yield made({"zero_stage": 1}, **{key: value})
    yield "distributed_type: DEEPSPEED\nnum_processes: 8\n"


SEVERAL = ("GPU", "NPU", "MLU", "SDAA", "MUSA", "XPU", "HPU", "NEURON", "CPU")


def device_cases():
    for kind in (*(f"MULTI_{name}" for name in SEVERAL), "FSDP", "MEGATRON_LM", "NO"):
        for ids in ("0", "", "all", "ALL", "0,1", "0,"):
            yield made(distributed_type=kind, gpu_ids=ids, num_processes=2)
        yield made(distributed_type=kind, gpu_ids="0", num_processes=1)
        yield made(distributed_type=kind, gpu_ids="0", **TWO, main_process_port=29500)


def machine_cases():
    for processes in (16, 15, 3, 2, 1, 0, "16", 16.0):
        yield made({ON_TWO: "standard"}, **TWO | {"num_processes": processes})
        yield made({"deepspeed_hostfile": "hostfile"}, **TWO | {"num_processes": processes})
    for name in (
        "pdsh",
        "standard",
        "openmpi",
        "mpich",
        "impi",
        "nossh",
        "slurm",
        "PDSH",
        "Standard",
        "torchrun",
        1,
        None,
    ):
        yield made({ON_TWO: name, "deepspeed_hostfile": "hostfile"}, **TWO)
        yield made({ON_TWO: name}, num_machines=1)
    yield made(None, **TWO)
    for address in ("node-1", "user@node-1", "node-1:29500", None, "None"):
        yield made({ON_TWO: "standard"}, **TWO | {"main_process_ip": address})
    for rank in (0, 1, 2, -1, "0", "auto", None):
        yield made({ON_TWO: "standard"}, **TWO, machine_rank=rank)
    for port in (0, 29500, None):
        yield made({ON_TWO: "standard"}, **TWO, main_process_port=port)
    filters = {"deepspeed_inclusion_filter": "node-1", "deepspeed_exclusion_filter": "node-2"}
    for several in ({}, dict([*filters.items()][:1]), dict([*filters.items()][1:]), filters):
        yield made({"deepspeed_hostfile": "hostfile", **several}, **TWO)
        yield made({"deepspeed_hostfile": "hostfile", **several})


def mixed_cases(number):
    """Values of the tables thrown together: what each says alone has to hold beside others."""
    draw = random.Random(3)  # noqa: S311  (the same cases in every run)
    launchers = (None, "standard", "pdsh", "nossh")
    fields = sorted(INLINE.keys() - {"num_processes", "mixed_precision"})  # those replace the ones at the top level
    for _ in range(number):
        inline = {key: draw.choice(INLINE[key]) for key in draw.sample(fields, draw.randint(0, 4))}
        top = {key: draw.choice(TOP_LEVEL[key]) for key in draw.sample(sorted(TOP_LEVEL), draw.randint(0, 3))}
        if draw.random() < 0.4:
            inline |= {ON_TWO: draw.choice(launchers), "deepspeed_hostfile": draw.choice((None, "hostfile"))}
            top = TWO | top
        # what other launches make of a value is not this tool's subject
        yield made(inline, **top | {"distributed_type": "DEEPSPEED"})


def linted(text):
    return lint_document(parse_document(text.encode(), "accelerate.yaml")).findings


def case_of(text):
    """The case for the reader: what the file leaves to the command line is given there."""
    names = [finding.path[-1] for finding in linted(text) if finding.rule.code == "ZC282"]
    return {"yaml": text, "words": [word for name in names for word in (f"--{name}", GIVEN[name])]}


def judged(texts, folder):
    return dict(zip(texts, read([case_of(text) for text in texts], folder), strict=True))


def read(cases, folder):
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    script = [sys.executable, READER, folder]
    ran = subprocess.run(script, input=lines, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"')]
    assert len(answers) == len(cases)
    return answers


MADE = (inline_cases(), beside_a_file(), top_level_cases(), machine_cases(), device_cases(), mixed_cases(250))
ALL_CASES = list(dict.fromkeys(itertools.chain(*MADE)))
# rules that rest on the YAML alone; those of other files and of the cluster have judges in tests/rules
ALONE = {"accelerate", "document", "reader", "releases"}
PAGES = {
    rule.code: read_page(rule) for rule in RULES.values() if "accelerate" in rule.needs and ALONE.issuperset(rule.needs)
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    pages = [example.text for page in PAGES.values() for example in (page.example, page.instead)]
    return judged(list(dict.fromkeys([*ALL_CASES, *pages])), tmp_path_factory.mktemp("accelerate"))


def _count(seen):
    """The processes that start, on all machines together."""
    if seen["command"]:
        return sum(map(len, (seen["hosts"] or {}).values()))
    return int(seen["nproc_per_node"]) * int(seen["nnodes"] or 1)


def _port(seen):
    """The port at which machine 0 is looked for."""
    command = seen["command"]
    return command[command.index("--master_port") + 1] if command else seen["rdzv_endpoint"].rpartition(":")[2]


def without(text, key):
    values = yaml.safe_load(text)
    del values["deepspeed_config"][key]
    return yaml.safe_dump(values, sort_keys=False)


# what a rule says that happens silently, as the reader sees it: (what was seen, the file's values) -> is it so
SILENT = {
    "ZC136": lambda seen, _: seen["save"] is False,
    "ZC271": lambda seen, _: "none" in seen["nvme"] or seen["config"]["zero_optimization"]["stage"] < 3,
    "ZC272": lambda seen, _: seen["config"]["zero_optimization"]["stage"] < 3,
    "ZC273": lambda seen, _: seen["clipping"] == 1.0,
    "ZC277": lambda seen, _: not seen["deepspeed"],
    "ZC135": lambda seen, values: _count(seen) != values["num_processes"],
    "ZC280": lambda seen, values: _count(seen) != values["num_processes"],
    "ZC281": lambda seen, _: seen["command"] is not None and seen["hosts"] is None,
    "ZC284": lambda seen, _: not 0 <= seen["node_rank"] < int(seen["nnodes"]),
    "ZC286": lambda seen, _: "--include" not in seen["command"],
    "ZC288": lambda seen, _: len(seen["environment"]["CUDA_VISIBLE_DEVICES"].split(",")) < _count(seen),
    "ZC289": lambda seen, _: _port(seen) not in {"0", "29500"},
}


def errors(text):
    return [finding for finding in linted(text) if finding.severity == "error"]


def test_there_are_cases_of_both_kinds(verdicts):
    refused = [text for text in ALL_CASES if "error" in verdicts[text]]
    assert len(refused) > 80
    assert len(ALL_CASES) - len(refused) > 80


def test_what_accelerate_refuses_is_an_error(verdicts):
    missed = {text: verdicts[text]["error"] for text in ALL_CASES if "error" in verdicts[text] and not errors(text)}
    assert not missed, "\n\n".join(f"{text}--> {error}" for text, error in missed.items())


def test_what_accelerate_takes_is_no_error_unless_it_does_something_else(verdicts, tmp_path):
    ignored = []
    for text in ALL_CASES:
        seen = verdicts[text]
        if "error" in seen:
            continue
        for finding in errors(text):
            code = finding.rule.code
            if code == "ZC132":
                ignored.append((text, without(text, finding.path[-1])))
                continue
            assert code in SILENT, f"{text}--> {code} {finding.message}"
            assert SILENT[code](seen, yaml.safe_load(text)), f"{text}--> {code} {finding.message}\n{seen}"
    # a key that is ignored can go without changing anything
    rest = judged([other for _, other in ignored], tmp_path)
    for text, other in ignored:
        assert verdicts[text]["config"] == rest[other]["config"], text
        assert verdicts[text]["command"] == rest[other]["command"], text


@pytest.mark.parametrize("code", [code for code in PAGES if RULES[code].severity == "error" and code < "ZC6"])
def test_the_pages_are_true(verdicts, code):
    page = PAGES[code]
    bad, good = verdicts[page.example.text], verdicts[page.instead.text]
    assert "error" not in good, good
    if code == "ZC132":
        assert bad["save"] is False
        assert good["save"] is True
    else:
        assert "error" in bad or SILENT[code](bad, yaml.safe_load(page.example.text))


def test_a_class_is_asked_for_by_its_bare_name():
    script = (
        "import torch\n"
        "from accelerate.utils.dataclasses import get_module_class_from_name as find\n"
        "model = torch.nn.Sequential(torch.nn.Linear(1, 1))\n"
        "print([find(model, name) is not None for name in ('Linear', 'nn.Linear', 'torch.nn.Linear', '')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[True, False, False, False]"
    for names, is_read in (("Linear", True), ("A,B", True), ("nn.Linear", False), ("A,", False), ("A, B", False)):
        found = [one.rule.code for one in errors(made({"deepspeed_moe_layer_cls_names": names, "zero_stage": 3}))]
        assert ("ZC135" in found) is not is_read


def test_hosts_without_slots_start_nothing(tmp_path):
    words = ["--hostfile", "hostfile", "train.py"]
    hosts = "node-1 slots={}\nnode-2 slots={}\n"
    cases = [{"deepspeed": words, "hosts": hosts.format(*slots)} for slots in ((8, 0), (0, 8), (8, 2))]
    started = [[len(slots) for slots in seen["hosts"].values()] for seen in read(cases, tmp_path)]
    assert started == [[8, 0], [0, 8], [8, 2]]


_OFFLOADED = """
import json
import torch
from deepspeed.ops.op_builder import CPUAdamBuilder

class Kernel:  # in the place of the compiled one, which takes a minute to build
    def create_adam(self, *settings): return 0
    def destroy_adam(self, *settings): return 0
    def adam_update(self, _id, _step, lr, beta1, beta2, eps, weight_decay, *_): stepped.append([lr, beta1, beta2, eps])

CPUAdamBuilder.load = lambda self, verbose=True: Kernel()
from accelerate.utils.deepspeed import map_pytorch_optim_to_deepspeed

stepped, classes = [], []
weight = torch.nn.Parameter(torch.ones(4))
weight.grad = torch.ones(4)
given = [torch.optim.AdamW([weight], 1e-3, betas=(0.8, 0.95), eps=1e-6), torch.optim.SGD([weight], 1e-2, momentum=0.9)]
for optimizer in given:
    other = map_pytorch_optim_to_deepspeed(optimizer)
    other.step()
    classes.append(type(other).__name__)
print(json.dumps([classes, stepped]))
"""


def test_accelerate_offloads_any_optimizer_as_adam_with_the_settings_of_its_groups():
    """What ZC243 says: AdamW keeps its betas and eps, and SGD becomes another optimizer."""
    done = subprocess.run([sys.executable, "-c", _OFFLOADED], capture_output=True, text=True, check=True)
    classes, stepped = json.loads(done.stdout.splitlines()[-1])
    assert classes == ["DeepSpeedCPUAdam", "DeepSpeedCPUAdam"]
    assert stepped == [[1e-3, 0.8, 0.95, 1e-6], [1e-2, 0.9, 0.999, 1e-8]]
