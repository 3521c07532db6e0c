"""The key tables: what they say, that they are what the sources and facts give, and that the schemas say the same."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from zeroconf.keys import key_table, newest_releases

SCHEMAS = Path(__file__).parent.parent / "schemas"
sys.path.insert(0, str(SCHEMAS))

import tables  # noqa: E402  (schemas/*.py are scripts: they import each other by name)
from extract_calls import arguments, read_attributes, read_keys  # noqa: E402
from extract_models import model_fields  # noqa: E402
from extract_source import Package  # noqa: E402

LIBRARIES = ("deepspeed", "accelerate")
TYPES = {"null", "boolean", "integer", "number", "string", "array", "object"}
EVERY_KEY = [
    (library, block, key)
    for library in LIBRARIES
    for block in key_table(library).blocks.values()
    for key in block.keys.values()
]


def schema(name):
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))


def complaints(name, config):
    return [error.message for error in Draft202012Validator(schema(name)).iter_errors(config)]


def test_schemas_are_what_the_tables_give():
    check = [sys.executable, str(SCHEMAS / "update.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_schema_is_named(tmp_path):
    copy = shutil.copytree(SCHEMAS, tmp_path / "schemas")
    (copy / "ds_config.schema.json").write_text("{}", encoding="utf-8")
    check = [sys.executable, str(copy / "update.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "ds_config.schema.json is not what the key table gives: run python schemas/update.py\n"


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_table_is_what_the_facts_and_the_installed_sources_give(library):
    release = ".".join(map(str, getattr(newest_releases(), library)))
    if importlib.metadata.version(library) != release:
        pytest.skip(f"needs {library} {release}")
    (folder,) = importlib.util.find_spec(library).submodule_search_locations
    built = tables.build(library, {release: Package(Path(folder))}, all_known=False)
    shipped = json.loads((SCHEMAS / f"{library}_keys.json").read_text(encoding="utf-8"))
    history = {"since", "until", "earlier_defaults"}
    for path, block in shipped["blocks"].items():
        current = {name: key for name, key in block["keys"].items() if "until" not in key}
        expected = {name: {field: key[field] for field in key.keys() - history} for name, key in current.items()}
        found = {name: key for name, key in built["blocks"][path]["keys"].items() if name in current}
        assert found == expected, path
    assert built["variants"] == shipped["variants"]


def test_a_key_that_nobody_described_stops_the_update(tmp_path):
    (folder := tmp_path / "deepspeed" / "compile").mkdir(parents=True)
    (folder / "config.py").write_text("class CompileConfig(Model):\n    brand_new: bool = True\n", encoding="utf-8")
    with pytest.raises(tables.Undescribed, match=r"compile: brand_new is read \(in 1\.0\) and not described"):
        tables.build("deepspeed", {"1.0": Package(tmp_path / "deepspeed")}, all_known=False)


def test_every_key_is_described_and_consistent():
    for library, block, key in EVERY_KEY:
        table, where = key_table(library), f"{library} {block.path}.{key.name}"
        assert key.description.endswith("."), where
        assert set(key.type) <= TYPES, where
        assert key.block is None or ("object" in key.type and key.block in table.blocks), where
        assert key.alias_of is None or key.alias_of in block.keys, where
        assert set(key.auto) <= {"trainer", "accelerate"}, where
        assert key.since is None or key.until is None or key.since <= key.until, where
        assert {key.since, key.until} <= {None, *table.releases}, where


def test_defaults_fit_their_own_schema():
    for name in ("ds_config", "accelerate"):
        whole = schema(name)
        for block in (whole, *whole["$defs"].values()):
            for key, given in block.get("properties", {}).items():
                if "default" in given and "not" not in given:
                    validator = Draft202012Validator(given | {"$defs": whole["$defs"]})
                    assert validator.is_valid(given["default"]), (block["title"], key)


def test_paths_lead_through_blocks():
    table = key_table("deepspeed")
    assert table.key("zero_optimization", "offload_optimizer", "device").enum == ("none", "cpu", "nvme")
    assert table.key("fp16", "no_such_key") is None
    assert table.key("steps_per_print", "below_a_number") is None
    assert table.places("nvme_path") == ["zero_optimization.offload_param", "zero_optimization.offload_optimizer"]


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (("nebula",), "until", (0, 19, 6)),
        (("amp",), "until", (0, 19, 7)),
        (("zero_optimization", "mics_shard_size"), "until", (0, 19, 6)),
        (("compile", "backend"), "until", (0, 14, 3)),
        (("aio", "thread_count"), "until", (0, 16, 3)),
        (("zero_optimization", "zenflow"), "since", (0, 17, 5)),
        (("gradient_clipping",), "earlier_defaults", {"0.19.2": 0.0}),
        (("zero_optimization", "offload_param", "pin_memory"), "earlier_defaults", {"0.19.4": False}),
        (("zero_optimization", "max_live_parameters"), "alias_of", "stage3_max_live_parameters"),
        (("zero_optimization", "cpu_offload"), "deprecated", "offload_optimizer"),
        (("zero_optimization", "reduce_bucket_size"), "exclusive_minimum", 0),
        (("zero_optimization", "stage"), "enum", (0, 1, 2, 3)),
        (("zero_optimization", "stage3_max_live_parameters"), "read_at", (3,)),
        (("bf16", "enabled"), "auto", ("trainer", "accelerate")),
        (("bfloat16", "enabled"), "auto", ()),
        (("train_batch_size",), "type", ("integer", "null")),
        (("train_batch_size",), "source", "runtime/config.py:get_train_batch_size"),
        (("zero_optimization", "leaf_module", "classes"), "items", "string"),
        (("zero_optimization", "offload_optimizer", "ratio"), "maximum", 1.0),
    ],
)
def test_facts_read_from_the_sources(path, field, value):
    assert getattr(key_table("deepspeed").key(*path), field) == value


def test_precision_blocks_became_strict():
    blocks = key_table("deepspeed").blocks
    assert [path for path, block in blocks.items() if block.strict_since] == ["fp16", "bf16", "bfloat16"]
    assert blocks["fp16"].strict_since == (0, 17, 1)


def test_variants_say_what_a_type_takes():
    schedules = key_table("deepspeed").variants["scheduler.params"]
    assert schedules["WarmupDecayLR"]["total_num_steps"] == {"required": True}
    assert "warmup_max_lr" not in schedules["WarmupCosineLR"]
    assert schedules["WarmupLR"]["warmup_num_steps"] == {"default": 1000}


def test_schemas_are_valid():
    for name in ("ds_config", "accelerate"):
        Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8}},
        {"zero_optimization": True, "_comment": "old form", "$schema": "x", "comment_1": ""},
        {"gradient_accumulation_steps": None, "bf16": None, "communication_data_type": "BF16"},
        {"optimizer": {"type": "X", "params": {"lr": 1e-4, "anything": [1]}, "_note": 1}, "msamp": {"enabled": True}},
        {"zero_optimization": {"max_live_parameters": 0, "offload_param": {"device": "cpu"}}},
    ],
)
def test_the_schema_takes(config):
    assert complaints("ds_config", config) == []


@pytest.mark.parametrize(
    "config",
    [
        {"offload_optimizer": {"device": "cpu"}},
        {"zero_optimization": {"stage": 4}},
        {"zero_optimization": {"stage": "3"}},
        {"zero_optimization": {"reduce_bucket_size": 0}},
        {"zero_optimization": {"overlap_comm": "auto"}},
        {"zero_optimization": {"_comment": "pydantic refuses it"}},
        {"zero_optimization": {"offload_optimizer": {"device": "gpu"}}},
        {"bf16": {"enabled": True, "loss_scale": 0}},
        {"bfloat16": {"enabled": "auto"}},
        {"elasticity": {"enabled": False}},
        {"optimizer": {"type": "Adam", "weight_decay": 0.1}},
        {"optimizer": {"params": {"betas": [0.9, "x"]}}},
        {"optimizer": {"params": {"max_grad_norm": 1.0}}},
        {"communication_data_type": "bfp16"},
        [],
    ],
)
def test_the_schema_refuses(config):
    assert complaints("ds_config", config)


@pytest.mark.parametrize(
    ("config", "right"),
    [
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}, True),
        ({"distributed_type": False}, True),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": None, "_note": 1}}, True),
        ({"compute_environment": "AMAZON_SAGEMAKER", "distributed_type": "NO", "region": "x"}, False),
        ({"compute_environment": "LOCAL_MACHINE"}, False),
        ({"distributed_type": "DEEPSPEED", "use_deepspeed": True}, False),
        ({"distributed_type": "DEEPSPEED", "mixed_precision": False}, False),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"ofload_param_device": "cpu"}}, False),
    ],
)
def test_the_accelerate_schema(config, right):
    assert (complaints("accelerate", config) == []) == right


@pytest.mark.parametrize(
    ("name", "config", "at", "says"),
    [
        (
            "ds_config",
            {"zero_optimization": {"stage": 2, "overlap_com": True}},
            "$.zero_optimization",
            "Additional properties are not allowed ('overlap_com' was unexpected)",
        ),
        ("ds_config", {"bf16": True}, "$.bf16", "True is not of type 'object', 'null'"),
        ("ds_config", {"train_batch_size": 0}, "$.train_batch_size", "0 is less than the minimum of 1"),
        ("ds_config", {"train_batch_size": "8"}, "$.train_batch_size", "'8' is not one of ['auto']"),
        ("ds_config", {"bf16": {"enabled": "yes"}}, "$.bf16.enabled", "'yes' is not one of [True, False, 'auto']"),
        (
            "ds_config",
            {"zero_optimization": {"stage": 4}},
            "$.zero_optimization.stage",
            "4 is not one of [0, 1, 2, 3, 'auto']",
        ),
        (
            "ds_config",
            {"zero_optimisation": {"stage": 2}},
            "$",
            "Unevaluated properties are not allowed ('zero_optimisation' was unexpected)",
        ),
        (
            "ds_config",
            {"amp": {}},
            "$.amp",
            "{} should not be valid under {'description': 'Removed after 0.19.7. Use fp16, bf16 or torch_autocast.'}",
        ),
        (
            "accelerate",
            {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stag": 3}},
            "$.deepspeed_config",
            "Unevaluated properties are not allowed ('zero_stag' was unexpected)",
        ),
    ],
)
def test_a_validator_names_the_fault(name, config, at, says):
    (fault,) = Draft202012Validator(schema(name)).iter_errors(config)
    assert (fault.json_path, fault.message) == (at, says)
    assert best_match([fault]) is fault


def test_an_editor_shows_what_replaces_a_removed_key():
    amp = schema("ds_config")["properties"]["amp"]
    assert amp["deprecated"]
    assert amp["description"].endswith("Removed after 0.19.7. Use fp16, bf16 or torch_autocast.")


@pytest.fixture
def package(tmp_path):
    """A package with one of everything that the readers know."""
    (tmp_path / "constants.py").write_text(
        'SIZE = "size"\nSIZE_DEFAULT = 64 * (1024**2)\nclass Mode:\n    WARN = "WARN"\n', encoding="utf-8"
    )
    (tmp_path / "config.py").write_text(
        """
from .constants import *
class Device(str, Enum):
    none = "none"
    cpu = "cpu"
class Base(Model):
    enabled: bool = False
class Block(Base):
    count: int = Field(5, ge=0, alias="num_count")
    ratio: Optional[float] = Field(None, gt=0.0, lt=1.0)
    device: Device = "none"
    names: List[str] = Field(default_factory=list)
    old: bool = Field(False, json_schema_extra={"deprecated": True, "new_param": "enabled"})
def read(param_dict, kind=SIZE):
    for key in ("left", "right"):
        param_dict.get(key, {})
    if "inner" in param_dict.keys():
        get_scalar_param(param_dict["inner"], SIZE, SIZE_DEFAULT)
    return get_scalar_param(param_dict, kind, Mode.WARN), args.chosen
def build(model, lr, steps=1000, name=None): ...
""",
        encoding="utf-8",
    )
    return Package(tmp_path)


def test_model_classes_are_read(package):
    assert model_fields(package, "config.py", "Block") == {
        "enabled": {"type": ["boolean"], "default": False},
        "num_count": {"type": ["integer"], "minimum": 0, "default": 5},
        "count": {"type": ["integer"], "minimum": 0, "default": 5, "alias_of": "num_count"},
        "ratio": {
            "type": ["number", "null"],
            "exclusive_minimum": 0.0,
            "exclusive_maximum": 1.0,
            "default": None,
        },
        "device": {"type": ["string"], "enum": ["none", "cpu"], "default": "none"},
        "names": {"type": ["array"], "items": "string"},
        "old": {"type": ["boolean"], "deprecated": "enabled", "default": False},
    }


def test_reads_from_dictionaries_are_found(package):
    source = {"source": "config.py:read"}
    assert read_keys(package, "config.py", "*", ["param_dict"]) == {
        "left": source,
        "right": source,
        "inner": source,
        "size": source | {"default": "WARN"},
    }
    assert read_keys(package, "config.py", "read", ["param_dict['inner']"]) == {"size": source | {"default": 67108864}}
    assert read_attributes(package, "config.py", "read", "args") == {"chosen": {}}
    assert read_keys(package, "config.py", "no_such_function", []) == {}


def test_arguments_are_read(package):
    assert arguments(package, "config.py", "build") == {
        "lr": {"required": True},
        "steps": {"default": 1000},
        "name": {},
    }
