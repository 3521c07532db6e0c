"""What tensor and sequence parallelism leave on one rank."""

from __future__ import annotations

import builders
import pytest

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.shares import tensor_share
from zeroconf.inputs.model import read_model


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # as AutoTP of DeepSpeed 0.19.8 leaves them on rank 0 of two; pythia's biases of row layers stay whole
        ("pythia-1.4b", 758_984_704),
        ("llama-3.2-1b", 617_940_992),
    ],
)
def test_a_share_is_what_deepspeed_leaves(model, parameters):
    assert tensor_share(read_model(model), 2).num_parameters == pytest.approx(parameters, rel=5e-4)


def test_a_checkpoint_holds_all_shares():
    model, cluster, plan = read_model("llama-3.1-8b"), builders.cluster(), builders.plan(1)
    whole, split = (
        estimate(model, cluster, builders.workload(tensor_parallel_size=size), plan).checkpoint_bytes for size in (1, 2)
    )
    # the input's vocabulary and the norms are there twice, at 14 bytes: weight, master, two moments
    twice = model.embedding_parameters + (2 * model.num_layers + 1) * model.hidden_size
    assert split == pytest.approx(whole + 14 * twice, rel=1e-6)


def test_one_rank_has_the_whole_model():
    model = read_model("llama-3.1-8b")
    assert tensor_share(model, 1) == model


def test_ranks_that_share_sequences_share_activations_and_logits_alone():
    model, cluster, plan = read_model("llama-3.1-8b"), builders.cluster(), builders.plan(1)
    whole, shared = (
        estimate(model, cluster, builders.workload(sequence_length=8192, sequence_parallel_size=size), plan).gpu.moments
        for size in (1, 2)
    )
    # flash attention's output is there twice: before and after it is exchanged
    extra = 32 * 2 * 4096 * 4096
    assert shared["forward"].activations == whole["forward"].activations // 2 + extra
    assert shared["forward"].logits == whole["forward"].logits // 2
    assert shared["step"] == whole["step"]
