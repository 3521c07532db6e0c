"""How tensors are packed, by hand."""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B

from zeroconf.estimate import tensors


def test_a_models_matrices_are_all_but_its_norms():
    norms = (2 * LLAMA_3_8B.num_layers + 1) * LLAMA_3_8B.hidden_size
    assert sum(tensors.model_tensors(LLAMA_3_8B)) + norms == LLAMA_3_8B.num_parameters


@pytest.mark.parametrize(("size", "groups"), [(6, [8, 4]), (4, [4, 4, 4]), (100, [12])])
def test_the_tensor_that_fills_a_sub_group_closes_it(size, groups):
    assert tensors.sub_groups([4, 4, 4], size) == groups


@pytest.mark.parametrize(("shard", "touched"), [(4, 4), (6, 8), (12, 12)])
def test_a_share_touches_whole_tensors(shard, touched):
    assert tensors.touched_elements([4, 4, 4], shard) == touched


def test_a_bucket_is_reduced_before_what_would_not_go_in():
    packed = tensors.buckets([3, 4, 4, 4, 12, 4], 10)
    assert (packed.first, packed.filled, packed.reduced, packed.waiting) == (7, 8, 15, 8)
    # nothing waits when the first layer's passes by
    assert tensors.buckets([4, 4, 12], 10).waiting == 0


def test_the_last_reduction_beside_the_first_vocabulary_matrix():
    # 8 are reduced when 4 are left; without a live limit nothing is gathered beside it
    assert tensors.last_reduction([4, 4, 4], 10, 6) == (4, 8)
    assert tensors.last_reduction([4, 4, 4], 10, 0) == (0, 4)
