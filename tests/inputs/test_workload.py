from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.errors import InputError
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.model import read_model
from zeroconf.inputs.workload import make_workload

MODEL = read_model("llama-3.1-8b")
EIGHT = read_cluster("8xA100-80GB")


def test_defaults_are_those_of_the_documentation():
    work = make_workload(MODEL, EIGHT)
    assert (work.sequence_length, work.global_batch_size, work.precision) == (4096, 128, "bf16")
    assert (work.optimizer, work.attention, work.activation_checkpointing) == ("adamw", "flash", "auto")
    assert (work.micro_batch_size, work.gradient_accumulation_steps, work.zero_stage) == (None, None, None)
    assert work.headroom == 0.2
    said = "; ".join(work.assumptions)
    for word in ("4096", "128", "bf16", "adamw", "flash", "auto"):
        assert word in said


def test_given_values_are_not_said_to_be_assumed():
    work = make_workload(
        MODEL,
        EIGHT,
        seq_len=2048,
        global_batch_size=64,
        precision="bf16",
        optimizer="lion",
        attention="sdpa",
        activation_checkpointing="full",
    )
    assert work.assumptions == ()


def test_short_models_and_old_cards():
    work = make_workload(read_model("gpt2"), read_cluster("8xV100-32GB"))
    assert (work.sequence_length, work.precision) == (1024, "fp16")
    assert make_workload(read_model("7B"), EIGHT).sequence_length == 4096


@given(st.integers(1, 100_000), st.integers(1, 2**17))
def test_the_default_batch_divides_and_is_about_half_a_million_tokens(num_gpus, seq_len):
    work = make_workload(MODEL, read_cluster(f"{num_gpus}x1xA100-80GB"), seq_len=seq_len)
    per_gpu, rest = divmod(work.global_batch_size, num_gpus)
    assert rest == 0
    assert per_gpu & (per_gpu - 1) == 0
    if per_gpu > 1:
        assert 0.7 < work.global_batch_size * work.sequence_length / 524_288 < 1.42


def test_a_gpu_without_a_count_leaves_the_number_free():
    work = make_workload(MODEL, read_cluster("A100-80GB"))
    assert work.global_batch_size == 128


def test_parts_that_are_given_shape_the_batch():
    assert make_workload(MODEL, EIGHT, micro_batch_size=3).global_batch_size % 24 == 0
    both = make_workload(MODEL, EIGHT, micro_batch_size=3, gradient_accumulation=5)
    assert both.global_batch_size == 120


def test_beyond_the_models_maximum_is_a_note():
    work = make_workload(read_model("gpt2"), EIGHT, seq_len=2048)
    assert any("beyond the maximum" in note for note in work.assumptions)


def test_lora_counts_its_adapters():
    work = make_workload(MODEL, EIGHT, lora_rank=16)
    assert (work.lora_rank, work.trainable_parameters) == (16, 41_943_040)


def test_counts_may_be_written_as_people_do():
    work = make_workload(MODEL, EIGHT, trainable_params="20M", frozen_params="7B")
    assert (work.trainable_parameters, work.frozen_parameters) == (20_000_000, 7_000_000_000)
    assert make_workload(MODEL, EIGHT, frozen_params="0").frozen_parameters == 0


def test_nvme_offload_with_a_disk():
    with_disk = read_cluster("8xA100-80GB", nvme="/scratch:3TB")
    assert make_workload(MODEL, with_disk, zero_stage=3, offload="nvme").offload == "nvme"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"global_batch_size": 100}, "give 96 or 104"),
        ({"global_batch_size": 4}, "give 8"),
        ({"global_batch_size": 64, "micro_batch_size": 9}, "more than the 8 sequences"),
        ({"global_batch_size": 64, "gradient_accumulation": 9}, "more than the 8 sequences"),
        ({"global_batch_size": 64, "micro_batch_size": 2, "gradient_accumulation": 2}, "= 32; give 32"),
        ({"global_batch_size": 64, "micro_batch_size": 3}, "give a multiple, 48 or 72"),
        ({"seq_len": 0}, "sequence length 0"),
        ({"seq_len": 10**12}, "out of range"),
        ({"micro_batch_size": 0}, "micro batch size 0"),
        ({"gradient_accumulation": -1}, "gradient accumulation -1"),
        ({"global_batch_size": 10**30}, "out of range"),
        ({"micro_batch_size": 10**9, "gradient_accumulation": 10**9}, "out of range"),
        ({"zero_stage": 4}, "0 to 3"),
        ({"zero_stage": -1}, "0 to 3"),
        ({"zero_stage": 0, "offload": "optimizer"}, "1, 2 or 3"),
        ({"zero_stage": 2, "offload": "all"}, "needs stage 3"),
        ({"zero_stage": 2, "offload": "nvme"}, "needs stage 3"),
        ({"zero_stage": 3, "offload": "nvme"}, "--nvme"),
        ({"headroom": 0.95}, "0 to 0.9"),
        ({"headroom": -0.1}, "0 to 0.9"),
        ({"headroom": float("nan")}, "0 to 0.9"),
        ({"lora_rank": 0}, "rank 0"),
        ({"lora_rank": 5000}, "1 to 4096"),
        ({"lora_rank": 8, "trainable_params": 5}, "give one"),
        ({"trainable_params": 0}, "out of range"),
        ({"trainable_params": "9B"}, "out of range"),
        ({"trainable_params": "many"}, "not a quantity"),
        ({"frozen_params": -1}, "out of range"),
        ({"precision": "fp8"}, "bf16, fp16, fp32"),
        ({"optimizer": "adamx"}, "adamw"),
        ({"attention": "x"}, "flash"),
        ({"activation_checkpointing": "some"}, "none, full, auto"),
        ({"offload": "disk"}, "nvme"),
    ],
)
def test_contradictions_get_a_cure(options, part):
    with pytest.raises(InputError, match=part):
        make_workload(MODEL, EIGHT, **options)


def test_bf16_needs_a_card_with_it():
    with pytest.raises(InputError, match="fp16"):
        make_workload(MODEL, read_cluster("8xV100-32GB"), precision="bf16")


def test_a_gpu_alone_has_no_disk():
    with pytest.raises(InputError, match="--nvme"):
        make_workload(MODEL, read_cluster("A100-80GB"), zero_stage=3, offload="nvme")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adamw-8bit", "offload": "optimizer"}, "put DeepSpeedCPUAdam in its place"),
        ({"optimizer": "lion-8bit", "offload": "all", "zero_stage": 3}, "use --optimizer adamw, or no offload"),
        ({"quantize": "nf4"}, "--lora-rank 16"),
        ({"quantize": "nf4", "lora_rank": 16, "precision": "fp32"}, "computes in 16 bits"),
        ({"quantize": "nf4", "lora_rank": 16, "offload": "all"}, "packed weights on the GPU"),
        ({"quantize": "int8", "lora_rank": 16}, "give one of nf4, nf4-double"),
    ],
)
def test_what_bitsandbytes_cannot_do(options, message):
    with pytest.raises(InputError, match=message):
        make_workload(MODEL, EIGHT, **options)


def test_a_frozen_model_says_where_it_is():
    work = make_workload(MODEL, EIGHT, frozen_params="7B")
    assert any("partitioned at stage 3, as TRL" in note for note in work.assumptions)


sizes = st.none() | st.integers(-2, 10**7)


@given(sizes, sizes, sizes, sizes)
def test_any_batch_is_a_workload_or_an_input_error(seq_len, micro, batch, accumulation):
    options = {
        "seq_len": seq_len,
        "micro_batch_size": micro,
        "global_batch_size": batch,
        "gradient_accumulation": accumulation,
    }
    try:
        work = make_workload(MODEL, EIGHT, **options)
    except InputError:
        return
    assert work.global_batch_size % (8 * (micro or 1) * (accumulation or 1)) == 0


def test_pascal_trains_in_fp32_unless_asked():
    """DeepSpeed refuses fp16 there without an environment variable (rule ZC306)."""
    model, cluster = read_model("gpt2-medium"), read_cluster("4xP100-16GB")
    made = make_workload(model, cluster)
    assert made.precision == "fp32"
    assert any("DS_ALLOW_DEPRECATED_FP16" in note for note in made.assumptions)
    assert make_workload(model, cluster, precision="fp16").precision == "fp16"
