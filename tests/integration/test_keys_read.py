"""The key table against the installed DeepSpeed: what its parser takes, and what its engine reads at each stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.keys import Key, key_table

HERE = Path(__file__).parent
TABLE = key_table("deepspeed")
STRICT = [path for path, block in TABLE.blocks.items() if block.unknown == "rejected"]
ZERO = [path for path in TABLE.blocks if path.startswith("zero_optimization")]

# Keys that the engine asks for at a stage where they do nothing.
READ_IN_VAIN = {
    "zero_optimization.leaf_module": "marks modules at every stage; only stage 3's hooks look at the mark",
    "zero_optimization.leaf_module.classes": "as above",
    "zero_optimization.leaf_module.names": "as above",
    "zero_optimization.leaf_module.name_suffixes": "as above",
    "zero_optimization.offload_optimizer": "stage 0 picks the CPU optimizer by it, and offloads nothing",
    "zero_optimization.elastic_checkpoint": "stage 3 loads more files by it, and has no elastic checkpoints",
    "zero_optimization.pipeline_loading_checkpoint": "below stage 3 true stops the loading of a checkpoint",
    "zero_optimization.zero_quantized_gradients": "makes process groups that only stage 3 uses",
}
# Keys that are read only with a drive, which a test machine does not have.
NEEDS_NVME = {
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.buffer_size",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_optimizer.buffer_count",
    "zero_optimization.offload_optimizer.pipeline_read",
    "zero_optimization.offload_optimizer.pipeline_write",
}
# The engine takes the block, not the key, from the configuration: these names differ from the key's.
HOLDERS = {"aio": "aio_config", "weight_quantization": "weight_quantization_config"}


ENVIRONMENT = os.environ | {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def nested(path, name, value):
    """A configuration that holds one key, and a batch size."""
    config = {} if path == "" and name == "train_batch_size" else {"train_batch_size": 8}
    block = config
    for step in path.split(".") if path else ():
        block = block.setdefault(step, {})
    block[name] = value
    return config


@pytest.fixture(scope="module")
def verdicts():
    """Gives each (path, name, value) with the parser's error, or None."""
    command = [sys.executable, str(HERE / "keys_reader.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as reader:

        def error_of(config):
            reader.stdin.write(json.dumps(["parse", config]) + "\n")
            reader.stdin.flush()
            return json.loads(reader.stdout.readline())

        def ask(cases):
            return [(case, error_of(nested(*case))) for case in cases]

        yield ask
        reader.stdin.close()


def current(path):
    return [key for key in TABLE.blocks[path].keys.values() if key.until is None and key.refused is None]


def too_wrong(key: Key):
    """A value that no reader takes for the key: another type, or beyond a bound."""
    kinds = {"boolean": "perhaps", "integer": [1], "number": [1], "string": {"a": 1}, "array": 7, "object": 7}
    if key.type:
        yield kinds[key.type[0]]
    for bound, beyond in ((key.minimum, -1), (key.maximum, 1)):
        if bound is not None:
            yield bound + beyond
    yield from (bound for bound in (key.exclusive_minimum, key.exclusive_maximum) if bound is not None)
    if key.enum and "string" in key.type:
        yield "none of them"


def test_unknown_keys_are_rejected_or_ignored_as_the_table_says(verdicts):
    for (path, *_), error in verdicts((path, "no_such_key", 1) for path in TABLE.blocks):
        assert (error is not None) == (TABLE.blocks[path].unknown == "rejected"), (path, error)


def test_auto_is_dropped_where_the_table_says_even_for_an_unknown_key(verdicts):
    dropping = [path for path in STRICT if TABLE.blocks[path].auto == "dropped"]
    assert dropping == STRICT
    assert [found for found in verdicts((path, "no_such_key", "auto") for path in STRICT) if found[1]] == []


def test_removed_keys_are_refused(verdicts):
    removed = [
        (path, key.name, {} if "object" in key.type else 1)
        for path, block in TABLE.blocks.items()
        for key in block.keys.values()
        if (key.until and (path in STRICT or key.until >= (0, 19))) or (key.refused and path in STRICT)
    ]
    assert len(removed) > 15
    assert [case for case, error in verdicts(removed) if error is None] == []


def test_every_key_of_a_strict_block_is_known(verdicts):
    cases = [(path, key.name, key.default) for path in STRICT for key in current(path) if key.default is not None]
    assert len(cases) > 100
    assert [found for found in verdicts(cases) if found[1]] == []


def test_wrong_values_are_refused_by_strict_blocks(verdicts):
    cases = [(path, key.name, value) for path in STRICT for key in current(path) for value in too_wrong(key)]
    assert len(cases) > 200
    taken = {(path, name, str(value)) for (path, name, value), error in verdicts(cases) if error is None}
    assert taken == set()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train_batch_size", 0),
        ("train_micro_batch_size_per_gpu", 0),
        ("communication_data_type", "bfp16"),
        ("gradient_allreduce_op", "max"),
        ("fp16", None),
        ("checkpoint", None),
    ],
)
def test_the_top_level_refuses_what_its_readers_check(verdicts, name, value):
    ((_, error),) = verdicts([("", name, value)])
    assert error


@pytest.fixture(scope="module")
def read_at(tmp_path_factory):
    """By stage, the keys that engines read, without and with offloading to the CPU."""
    base = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "gradient_clipping": 1.0}
    base |= {"zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True}
    cpu = {"device": "cpu"}
    blocks = [{"stage": stage} for stage in range(4)]
    blocks += [{"stage": stage, "offload_optimizer": cpu} for stage in (1, 2)]
    blocks += [{"stage": 3, "offload_optimizer": cpu, "offload_param": cpu}]
    configs = [base | {"zero_optimization": block} for block in blocks]
    command = [sys.executable, str(HERE / "key_recorder.py"), str(tmp_path_factory.mktemp("checkpoints"))]
    done = subprocess.run(
        command,
        input=json.dumps(configs),
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    read = {stage: set() for stage in range(4)}
    for block, keys in zip(blocks, found, strict=True):
        read[block["stage"]] |= set(keys)
    return read


def staged():
    """(dotted key, the table's stages) of what the recording can show."""
    for path in ZERO:
        for key in current(path):
            if key.read_at is not None and not key.deprecated and not key.alias_of:
                yield f"{path}.{key.name}", key.read_at
    for name, holder in HOLDERS.items():
        yield holder, TABLE.key(name).read_at


def test_keys_are_read_at_the_stages_of_the_table(read_at):
    missing = [
        (name, stage)
        for name, stages in staged()
        for stage in stages
        if name not in read_at[stage] and name not in NEEDS_NVME
    ]
    assert missing == []


def test_keys_are_read_at_no_other_stage_but_the_named_exceptions(read_at):
    others = {name for name, stages in staged() for stage in read_at if stage not in stages and name in read_at[stage]}
    assert others == set(READ_IN_VAIN)


def test_dead_keys_are_not_read(read_at):
    dead = {
        f"{path}.{key.name}".lstrip(".")
        for path in ("", "zero_optimization")
        for key in TABLE.blocks[path].keys.values()
        if key.dead
    }
    # legacy_stage1 is asked for, to refuse true
    assert {name for keys in read_at.values() for name in keys & dead} == {"zero_optimization.legacy_stage1"}
