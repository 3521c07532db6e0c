from __future__ import annotations

import copy

import fill
import pytest


def leftover_autos(value: object) -> list[object]:
    if isinstance(value, dict):
        return [found for child in value.values() for found in leftover_autos(child)]
    return [value] if value == "auto" else []


TRAINER_FILE = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {
            "warmup_min_lr": "auto",
            "warmup_max_lr": "auto",
            "warmup_num_steps": "auto",
            "total_num_steps": "auto",
        },
    },
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
    },
}


def fill_all(config: dict[str, object], *, bf16: bool = True, gpu: bool = False) -> tuple[dict, list[str]]:
    filled, notes = fill.fill_batch(config, world_size=2, micro_batch_size=3, accumulation_steps=4)
    filled, more = fill.fill_auto(filled, hidden_size=64, steps=3, bf16=bf16, gpu=gpu)
    return filled, notes + more


def test_a_trainer_file_is_filled_as_the_trainer_does_and_every_value_is_named():
    before = copy.deepcopy(TRAINER_FILE)
    filled, notes = fill_all(TRAINER_FILE)
    assert before == TRAINER_FILE
    assert leftover_autos(filled) == []
    assert filled["train_batch_size"] == 3 * 4 * 2
    assert filled["gradient_clipping"] == 1.0
    assert filled["optimizer"]["params"] == {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}
    zero = filled["zero_optimization"]
    assert zero["reduce_bucket_size"] == 64 * 64
    assert zero["stage3_prefetch_bucket_size"] == 3686
    assert zero["stage3_param_persistence_threshold"] == 640
    assert (filled["bf16"]["enabled"], filled["fp16"]["enabled"]) == (True, False)
    assert len(notes) == 17


@pytest.mark.parametrize(
    ("bf16", "gpu", "expected"),
    [(True, True, (True, False)), (False, True, (False, True)), (True, False, (True, False))],
)
def test_auto_precision_is_what_the_device_can_do(bf16, gpu, expected):
    filled, _ = fill_all(TRAINER_FILE, bf16=bf16, gpu=gpu)
    assert (filled["bf16"]["enabled"], filled["fp16"]["enabled"]) == expected


@pytest.mark.parametrize(
    ("bf16", "gpu", "fp16_block"), [(False, True, {"enabled": True, "auto_cast": True}), (True, True, None)]
)
def test_a_card_without_bf16_computes_in_fp16_also_where_the_file_has_no_such_block(bf16, gpu, fp16_block):
    filled, notes = fill_all({"bf16": {"enabled": "auto"}}, bf16=bf16, gpu=gpu)
    assert filled["bf16"]["enabled"] is bf16
    assert filled.get("fp16") == fp16_block
    assert len(notes) == (2 if fp16_block else 1)


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "comet", "csv_monitor", "flops_profiler"])
@pytest.mark.parametrize("block", [{"enabled": True, "output_file": "out"}, {"enabled": False}, "auto", None])
def test_what_writes_or_connects_is_switched_off_and_said(name, block):
    config = {name: copy.deepcopy(block)}
    notes = fill.switch_reports_off(config)
    on = isinstance(block, dict) and block["enabled"]
    assert config == {name: block | {"enabled": False} if on else block}
    assert [note.startswith(f"{name} is off") for note in notes[:1]] == ([True] if on else [])


def test_a_missing_package_of_a_monitor_is_named(monkeypatch):
    monkeypatch.setattr(fill.util, "find_spec", lambda _name: None)
    _, note = fill.switch_reports_off({"comet": {"enabled": True}})
    assert "the job will fail without comet_ml" in note


def test_given_values_and_missing_keys_stay():
    config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}
    assert fill_all(config) == (config, [])


def test_the_scheduler_follows_a_given_learning_rate():
    config = {
        "optimizer": {"params": {"lr": 3e-4}},
        "scheduler": {"params": {"warmup_max_lr": "auto"}},
    }
    assert fill_all(config)[0]["scheduler"]["params"]["warmup_max_lr"] == 3e-4


def test_an_auto_micro_batch_follows_a_given_global_batch():
    config = {"train_batch_size": 16, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 2}
    assert fill_all(config)[0]["train_micro_batch_size_per_gpu"] == 4


@pytest.mark.parametrize("block", [None, 3, "auto", []])
@pytest.mark.parametrize("name", ["zero_optimization", "optimizer", "bf16", "scheduler"])
def test_malformed_blocks_are_left_for_deepspeed_to_judge(name, block):
    assert fill_all({name: block}) == ({name: block}, [])


@pytest.mark.parametrize(
    ("given", "cut"),
    [
        ({"micro": 1, "accumulation": 8}, {"micro": 1, "accumulation": 2}),
        ({"micro": 1, "accumulation": 8, "total": 64}, {"micro": 1, "accumulation": 2, "total": 16}),
        ({"micro": 1, "total": 64}, {"micro": 1, "total": 16}),
        ({"accumulation": 8, "total": 64}, {"accumulation": 2, "total": 16}),
        ({"total": 64}, {"total": 64}),
        ({"micro": 1, "accumulation": 2, "total": 16}, {"micro": 1, "accumulation": 2, "total": 16}),
        # a split that DeepSpeed refuses stays as it is
        ({"micro": 1, "accumulation": 8, "total": 60}, {"micro": 1, "accumulation": 8, "total": 60}),
    ],
)
def test_a_dry_run_cuts_accumulation_also_where_it_is_only_implied(given, cut):
    names = {
        "micro": "train_micro_batch_size_per_gpu",
        "accumulation": "gradient_accumulation_steps",
        "total": "train_batch_size",
    }
    config = {names[key]: value for key, value in given.items()}
    notes, uncut = fill.for_dry_run(config, 8, "/scratch")
    assert config == {names[key]: value for key, value in cut.items()}
    assert (bool(notes), uncut) == ((given != cut), 8 if given != cut else 0)
