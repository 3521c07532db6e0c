"""A model's modules: as many parameters as it has, in the order in which they compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import LLAMA_3_8B

from zeroconf.estimate.modules import layout_of, weights, words
from zeroconf.estimate.trace import FETCH, FETCH_AGAIN, trace
from zeroconf.estimate.tree import Shape, tree
from zeroconf.inputs.catalogue import names
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.model import read_model

VOCABULARY, NORM, DOWN = 128256 * 4096, 4096, 14336 * 4096
ONE_BLOCK = replace(LLAMA_3_8B, num_layers=1, num_parameters=2 * VOCABULARY + 218_112_000 + NORM)


def kinds(shape):
    return [event.kind for event in trace(shape).events]


def test_words_are_a_tree():
    norm, mlp = words("norm+ mlp(up act down)")
    assert (norm.name, norm.biased, norm.children) == ("norm", True, ())
    assert [word.name for word in mlp.children] == ["up", "act", "down"]
    assert weights(LLAMA_3_8B, norm) == (4096, 4096)


def test_every_model_of_the_catalogue_has_its_own_size():
    for name in names():
        model = read_model(name)
        listed = sum(one.elements for one in tree(Shape(model, model.num_layers)).parameters)
        # what a layout does not list is shared among the blocks
        assert listed == pytest.approx(model.num_parameters, rel=1e-6, abs=model.num_layers), name


@pytest.mark.parametrize(
    "name",
    [
        *("llama-3.1-8b", "qwen2.5-7b", "qwen3-8b", "gemma-2-9b", "gemma-3-1b", "phi-3-mini"),
        *("gpt2", "pythia-1b", "opt-125m", "bloom-560m", "mixtral-8x7b"),
    ],
)
def test_layouts_list_every_tensor(name):
    """With one block more than there are parameters for, nothing but that block is missing."""
    model = read_model(name)
    shallow = replace(model, num_layers=2)
    block = [sum(tree(Shape(model, 2)).parameters[one].elements for one in at) for at in tree(Shape(model, 2)).blocks]
    assert block[0] == block[1]
    rest = model.num_parameters - (model.num_layers - 2) * block[0]
    exact = tree(Shape(replace(shallow, num_parameters=rest), 2))
    assert sum(one.elements for one in exact.parameters) == rest
    assert [one.elements for one in exact.parameters] == [one.elements for one in tree(Shape(model, 2)).parameters]
    assert layout_of(model) == layout_of(shallow)


def test_backward_is_the_mirror_image():
    found = trace(Shape(ONE_BLOCK, 1))
    sizes = [found.parameters[one].elements for one in found.gradients]
    # output, last norm, down, up, gate, norm, output projection, values, keys, queries, norm, vocabulary
    attention = [4096 * 4096, 1024 * 4096, 1024 * 4096, 4096 * 4096]
    assert sizes == [VOCABULARY, NORM, DOWN, DOWN, DOWN, NORM, *attention, NORM, VOCABULARY]
    # the optimizer has a block's norms after its matrices
    registered = [found.parameters[one].elements for one in found.registered]
    assert registered == [
        VOCABULARY,
        *attention[::-1][:1],
        *attention[1:3],
        attention[0],
        *[DOWN] * 3,
        *[NORM] * 3,
        VOCABULARY,
    ]
    # 6 modules around the block and 13 with it, the rotary embedding forward alone
    assert kinds(Shape(ONE_BLOCK, 1)).count(FETCH) == 2 * 19 - 1


def test_recomputation_starts_at_the_first_module_that_kept_a_tensor():
    recomputed = kinds(Shape(ONE_BLOCK, 1, recomputes=True))
    # all of the block but itself, after backward has come to the block, its MLP and the down projection
    assert recomputed.count(FETCH_AGAIN) == 12
    before = recomputed[: recomputed.index(FETCH_AGAIN)]
    assert before.count(FETCH) == 19 + 7


def test_adapters_beside_each_linear_layer():
    found = tree(Shape(LLAMA_3_8B, 32, lora_rank=16, adapters=with_lora(LLAMA_3_8B, 16)))
    assert sum(one.elements for one in found.parameters if one.adapter) == with_lora(LLAMA_3_8B, 16) == 41_943_040
    assert all(one.trains is one.adapter for one in found.parameters)


def test_gradients_stop_where_nothing_below_trains():
    first, _ = tree(Shape(LLAMA_3_8B, 2, lora_rank=16)).root.children[0].children[0].children[2:4]
    query = first.children[1].children[0]
    layer, dropout, a, b = query.children
    # the first block's input has no gradient, so that its projections' own backward is not run
    assert [one.from_above for one in (layer, dropout, a, b)] == [False, False, True, True]
    assert [one.to_below for one in (a, b)] == [False, True]
