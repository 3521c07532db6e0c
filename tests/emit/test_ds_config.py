from __future__ import annotations

import json

import pytest
from emit_builders import facts, plan

from zeroconf.emit.blocks import swap_buffer_elements
from zeroconf.emit.ds_config import ds_config, key_notes, to_json
from zeroconf.emit.notes import leaves
from zeroconf.errors import InputError
from zeroconf.types import Reason

_STAGE_3_ONLY = {
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_gather_16bit_weights_on_model_save",
    "sub_group_size",
    "zero_hpz_partition_size",
    "offload_param",
}


def test_the_trainer_gets_auto_only_where_it_fills_it_and_the_proven_sizes_as_numbers():
    assert ds_config(facts(), plan(2)) == {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "gradient_clipping": "auto",
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, "overlap_comm": False, "reduce_bucket_size": 50_000_000},
    }


@pytest.mark.parametrize("reader", ["accelerate", "deepspeed"])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_other_readers_get_no_auto(reader, stage):
    values = leaves(ds_config(facts(reader=reader), plan(stage)))
    assert "auto" not in values.values()
    assert values["gradient_clipping"] == 1.0


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("multi_rank", [False, True])
def test_each_stage_gets_only_the_keys_that_it_reads(stage, multi_rank):
    chosen = plan(stage, multi_rank_bucket_allreduce=multi_rank, zero_hpz_partition_size=8)
    zero = ds_config(facts(num_nodes=2), chosen)["zero_optimization"]
    assert zero["stage"] == stage
    assert bool(set(zero) & _STAGE_3_ONLY) == (stage == 3)
    assert ("use_multi_rank_bucket_allreduce" in zero) == (stage in (1, 2) and not multi_rank)
    assert ("overlap_comm" in zero) == ("reduce_bucket_size" in zero) == (stage > 0)
    assert not set(zero) & {"allgather_bucket_size", "allgather_partitions"}


def test_partition_inside_the_node_is_written_only_when_it_is_used():
    assert "zero_hpz_partition_size" not in ds_config(facts(), plan(3))["zero_optimization"]
    zero = ds_config(facts(num_nodes=2), plan(3, zero_hpz_partition_size=8))["zero_optimization"]
    assert zero["zero_hpz_partition_size"] == 8


@pytest.mark.parametrize(
    ("precision", "block"),
    [
        ("bf16", {"bf16": {"enabled": True}}),
        ("fp16", {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}}),
        ("fp32", {}),
    ],
)
def test_precision_is_explicit(precision, block):
    config = ds_config(facts(precision=precision), plan(1))
    assert {key: config[key] for key in ("bf16", "fp16") if key in config} == block


_OWN = {"zero_force_ds_cpu_optimizer": False}
_UNTESTED = {"zero_allow_untested_optimizer": True}


@pytest.mark.parametrize(
    ("reader", "optimizer", "client", "offload", "kind", "flags"),
    [
        ("trainer", "adamw", False, "none", None, {}),
        ("trainer", "adamw", False, "optimizer", "AdamW", {}),
        ("trainer", "lion", False, "none", "Lion", {}),
        ("trainer", "sgd", False, "none", "SGD", _UNTESTED),
        ("trainer", "adamw", True, "none", None, {}),
        ("trainer", "adamw", True, "optimizer", None, _OWN),
        ("accelerate", "adamw", False, "optimizer", None, {}),
        ("accelerate", "sgd", False, "optimizer", None, _OWN),
        ("accelerate", "sgd", False, "none", None, {}),
        ("accelerate", "adamw", True, "optimizer", None, _OWN),
        ("deepspeed", "adamw", False, "optimizer", "AdamW", {}),
        ("deepspeed", "sgd", False, "none", "SGD", _UNTESTED),
        ("deepspeed", "adamw", True, "none", None, _UNTESTED),
        ("deepspeed", "adamw", True, "optimizer", None, _OWN | _UNTESTED),
    ],
)
def test_who_owns_the_optimizer(*, reader, optimizer, client, offload, kind, flags):
    config = ds_config(facts(reader=reader, optimizer=optimizer, client_optimizer=client), plan(2, offload))
    assert config.get("optimizer", {}).get("type") == kind
    assert {key: value for key, value in config.items() if key.startswith("zero_") and key != "zero_optimization"} == (
        flags
    )
    assert "scheduler" not in config


def test_optimizer_parameters_are_those_that_the_optimizer_takes():
    def params(reader, optimizer):
        return ds_config(facts(reader=reader, optimizer=optimizer), plan(2, "optimizer"))["optimizer"]["params"]

    assert params("deepspeed", "adamw") == {"lr": 1e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}
    assert params("deepspeed", "adam")["adam_w_mode"] is False
    assert set(params("trainer", "lion")) == {"lr", "betas", "weight_decay"}
    assert params("trainer", "sgd") == {"lr": "auto", "weight_decay": "auto"}


def test_cpu_offload_states_the_device_and_pinning():
    zero = ds_config(facts(), plan(3, "all"))["zero_optimization"]
    assert zero["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert zero["offload_param"] == {"device": "cpu", "pin_memory": True}
    assert "offload_param" not in ds_config(facts(), plan(2, "optimizer"))["zero_optimization"]


def test_nvme_has_paths_buffers_and_an_aio_block_in_the_words_of_the_release():
    new = ds_config(facts("70b"), plan(3, "nvme"))
    assert new["zero_optimization"]["offload_param"]["nvme_path"] == "/mnt/nvme"
    assert new["zero_optimization"]["offload_param"]["buffer_size"] == 128_256 * 8192 // 8
    assert new["aio"] == {"block_size": 1_048_576, "queue_depth": 32, "intra_op_parallelism": 4}
    old = ds_config(facts(deepspeed=(0, 16, 3)), plan(3, "nvme"))
    assert old["aio"] == {"block_size": 1_048_576, "queue_depth": 32, "thread_count": 4}


def test_swap_buffers_hold_the_largest_shard():
    assert swap_buffer_elements(facts("1b").model, 8) == 100_000_000
    # Mixtral: 8 experts' gate and up projections in one tensor, 8 x 14336 x 4096 x 2 / 4 ranks
    assert swap_buffer_elements(facts("moe").model, 4) == 234_881_024


@pytest.mark.parametrize(
    ("stage", "fields", "nvme", "sentence"),
    [
        (2, {"offload_param": "cpu"}, "/n", "reads no offload_param"),
        (1, {"offload_optimizer": "nvme"}, "/n", "treats NVMe as CPU memory"),
        (0, {"offload_optimizer": "cpu"}, "/n", "stage 0 cannot offload"),
        (3, {"offload_optimizer": "nvme"}, None, "--nvme PATH:SIZE"),
    ],
)
def test_what_no_release_reads_is_refused(stage, fields, nvme, sentence):
    with pytest.raises(InputError, match=sentence):
        ds_config(facts(nvme=nvme), plan(stage, **fields))


def test_explain_adds_the_reasons_once_each():
    reasons = [
        Reason(key="zero_optimization.stage", value=3, rule="fits", because="it fits"),
        Reason(key="overlap_comm", value=True, rule="overlap", because="the network is slow"),
    ]
    config = ds_config(facts(), plan(3), reasons, explain=True)
    told = config.pop("_zeroconf")["reasons"]
    assert told[:2] == [
        {"key": "zero_optimization.stage", "value": 3, "rule": "fits", "because": "it fits"},
        {"key": "overlap_comm", "value": True, "rule": "overlap", "because": "the network is slow"},
    ]
    keys = [reason["key"].rsplit(".", 1)[-1] for reason in told]
    assert keys.count("stage") == keys.count("overlap_comm") == 1
    assert config == ds_config(facts(), plan(3), reasons)


_DECIDED_BY_THE_PLAN = {
    "reduce_bucket_size",
    "use_multi_rank_bucket_allreduce",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "sub_group_size",
    "zero_hpz_partition_size",
    "device",
}


@pytest.mark.parametrize("reader", ["trainer", "accelerate", "deepspeed"])
@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize(
    ("stage", "offload"), [(0, "none"), (1, "none"), (2, "optimizer"), (3, "none"), (3, "all"), (3, "nvme")]
)
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "lion", "sgd"])
@pytest.mark.parametrize("client", [False, True])
def test_every_emitted_key_has_a_note_or_belongs_to_the_plan(*, reader, precision, stage, offload, optimizer, client):
    given = facts(reader=reader, precision=precision, optimizer=optimizer, client_optimizer=client)
    chosen = plan(stage, offload)
    values = leaves(ds_config(given, chosen))
    notes = key_notes(given, chosen)
    assert {note.key: note.value for note in notes} == {
        key: value for key, value in values.items() if key.rsplit(".", 1)[-1] not in _DECIDED_BY_THE_PLAN
    }
    assert all(note.because and "\n" not in note.because for note in notes)


def test_saving_names_its_cost():
    (note,) = [note for note in key_notes(facts("70b"), plan(3)) if "gather_16bit" in note.key]
    assert "131.4 GiB into rank 0's host memory" in note.because  # 70.55e9 x 2 bytes


def test_json_is_stable_strict_and_has_whole_numbers():
    config = ds_config(facts("70b", nvme="/mnt/nvmé"), plan(3, "nvme"), explain=True)
    text = to_json(config)
    assert text == to_json(ds_config(facts("70b", nvme="/mnt/nvmé"), plan(3, "nvme"), explain=True))
    assert json.loads(text) == config
    assert text.isascii()
    assert text.endswith("}\n")
    assert '"reduce_bucket_size": 50000000' in text
    assert not any(isinstance(value, float) for key, value in leaves(config).items() if "size" in key)
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": float("nan")})
