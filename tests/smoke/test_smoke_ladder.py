from __future__ import annotations

from zeroconf.smoke.ladder import Rung, down


def rungs(rung, **options):
    found = []
    while rung := down(rung, **options):
        found.append(rung)
    return found


def test_each_rung_takes_less_of_the_card_and_the_batch_of_a_step_stays():
    given = {"train_batch_size": 64, "zero_optimization": {"stage": 1, "reduce_bucket_size": 7}}
    found = rungs(Rung(given, 4, 2, activation_checkpointing=False))
    assert [rung.title for rung in found] == [
        "micro batch 1 x accumulation 8",
        "activations recomputed",
        "stage 2",
        "stage 3",
        "the optimizer on the CPU",
        "the parameters on the CPU",
    ]
    assert all(rung.micro_batch_size * rung.gradient_accumulation_steps == 8 for rung in found)
    last = found[-1].content
    assert (last["train_micro_batch_size_per_gpu"], last["gradient_accumulation_steps"]) == (1, 8)
    assert last["train_batch_size"] == 64
    cpu = {"device": "cpu", "pin_memory": True}
    assert last["zero_optimization"] == {
        "stage": 3, "reduce_bucket_size": 7, "offload_optimizer": cpu, "offload_param": cpu,
    }  # fmt: skip
    assert given == {"train_batch_size": 64, "zero_optimization": {"stage": 1, "reduce_bucket_size": 7}}


def test_stage_0_goes_to_2_since_offload_and_partitions_need_one():
    titles = [rung.title for rung in rungs(Rung({}, 1, 1, activation_checkpointing=True))]
    assert titles == ["stage 2", "stage 3", "the optimizer on the CPU", "the parameters on the CPU"]


def test_a_full_host_gets_back_what_was_put_there_and_nothing_more():
    cpu = {"device": "cpu"}
    given = {"zero_optimization": {"stage": 3, "offload_optimizer": cpu, "offload_param": cpu}}
    found = rungs(Rung(given, 1, 1, activation_checkpointing=True), host_is_full=True)
    assert [rung.title for rung in found] == ["the parameters back on the card", "the optimizer back on the card"]
    assert found[-1].content == {"zero_optimization": {"stage": 3}}
