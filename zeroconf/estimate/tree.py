"""A model's modules with their parameters by number, adapters and all, and where backward goes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.estimate.families import family_of
from zeroconf.estimate.modules import (
    ADAPTED,
    BLOCK,
    DECODER_BLOCK,
    LEAVES,
    LINEAR,
    NORMS,
    Layout,
    Word,
    layout_of,
    matrix,
    shared_expert,
    weights,
    words,
)
from zeroconf.estimate.packed import PACKED
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zeroconf.types import ModelSpec

_VOCABULARY: Final = 0
# they read what their parent reads, not what the module before them made
_READS_INPUT: Final = frozenset({"q", "k", "v", "qkv", "gate", "up", "gate_up", "base", "dropout"})
_READS_BLOCK: Final = NORMS | {"mlp"}  # where attention and MLP are parallel
_READS_TOKENS: Final = frozenset({"embed", "positions", "types", "position_bias"})
_WITHOUT_BACKWARD: Final = frozenset({"rotary"})


class Shape(NamedTuple):
    """What a model's modules depend on.

    ``layers`` is its depth, where that is not the model's own. ``adapters`` are the elements that train with LoRA.
    ``packs`` holds four frozen weights of a linear layer in one element. ``recomputes`` with activation checkpointing.
    ``partitioned`` at stage 3, which reduces a mixture's gradients together; ``bias_first`` as torch's linear layers
    have it.
    """

    model: ModelSpec
    layers: int
    lora_rank: int = 0
    adapters: int = 0
    packs: bool = False
    recomputes: bool = False
    partitioned: bool = True
    bias_first: bool = False


class Parameter(NamedTuple):
    """One parameter: ``linear`` is a linear layer's, ``adapter`` one of LoRA's."""

    elements: int
    trains: bool = True
    linear: bool = False
    adapter: bool = False


@dataclass(slots=True)
class Module:
    """A module with its own parameters, and all ``inside``; whether gradients flow into and out of it."""

    name: str
    parameters: tuple[int, ...] = ()
    children: tuple[Module, ...] = ()
    from_above: bool = True  # backward runs it
    to_below: bool = True  # and goes on below

    @property
    def inside(self) -> tuple[int, ...]:
        """Its own parameters and its children's."""
        return (*self.parameters, *(one for child in self.children for one in child.inside))


@dataclass(slots=True)
class _Builder:
    """Makes modules, and numbers their parameters."""

    model: ModelSpec
    layout: Layout
    lora_rank: int = 0
    packs: bool = False
    beyond: int = 0  # elements that a block has beyond its layout's
    more_adapters: int = 0  # a block's, beside those of its linear layers
    parameters: list[Parameter] = field(default_factory=list)
    blocks: list[range] = field(default_factory=list)

    def tree(self) -> Module:
        """The model, with adapters inside peft's."""
        model = Module("", (), tuple(self._level(words(self.layout.model))))
        return Module("", (), (model,)) if self.lora_rank else model

    def _level(self, level: Iterable[Word]) -> Iterator[Module]:
        for word in level:
            if word.name in (BLOCK, DECODER_BLOCK):
                yield from self._blocks(word.name)
            else:
                yield self._module(word)

    def _blocks(self, name: str) -> Iterator[Module]:
        layers, text = self.model.num_layers, self.layout.block
        if self.model.kind == "encoder-decoder":
            layers = layers // 2 if name == BLOCK else layers - layers // 2
        if name == DECODER_BLOCK:
            text = text.replace("feed_forward", "cross(norm attention(q k v o) drop) feed_forward")
        for layer in range(layers):
            # the first block of a stack has the position biases of all
            inside = words(text if layer == 0 else text.replace(" position_bias", ""))
            first = len(self.parameters)
            block = self._module(Word(BLOCK, biased=False, children=inside))
            self.blocks.append(range(first, len(self.parameters)))
            yield block

    def _module(self, word: Word) -> Module:
        shared = word.name == "embed" or (word.name == "head" and self.model.tied_embeddings)
        own = weights(self.model, word)
        if shared and self.parameters:
            return Module(word.name, (_VOCABULARY, *self._number(own[1:], word)))
        if word.name in ("down", "experts") and self.beyond:
            own = (max(1, own[0] + self.beyond), *own[1:])
        elif word.name in LEAVES and self.beyond > 0:
            own = (*own, *shared_expert(self.model, self.beyond))
        parameters = self._number(own, word)
        if self.lora_rank and word.name in ADAPTED:
            return self._adapted(word, parameters)
        if self.more_adapters and (word.name in LEAVES or word.name == "experts"):
            parameters = (*parameters, len(self.parameters))
            self.parameters.append(Parameter(elements=self.more_adapters, adapter=True))
        return Module(word.name, parameters, tuple(self._level(word.children)))

    def _number(self, sizes: Iterable[int], word: Word) -> tuple[int, ...]:
        linear, first = word.name in LINEAR, len(self.parameters)
        trains = self.lora_rank == 0
        if self.packs and word.name in ADAPTED:
            sizes = [ceil_div(size, PACKED) for size in sizes]
        self.parameters += [Parameter(elements=size, trains=trains, linear=linear) for size in sizes]
        return tuple(range(first, len(self.parameters)))

    def _adapted(self, word: Word, frozen: tuple[int, ...]) -> Module:
        """A linear layer, its dropout, A and B (peft/tuners/lora/layer.py: Linear.forward)."""
        rows, columns = matrix(self.model, word.name)
        first = len(self.parameters)
        for size in (self.lora_rank * columns, rows * self.lora_rank):
            self.parameters.append(Parameter(elements=size, linear=True, adapter=True))
        adapters = Module("adapter", (first,)), Module("adapter", (first + 1,))
        return Module(word.name, (), (Module("base", frozen), Module("dropout"), *adapters))


@dataclass(frozen=True, slots=True)
class _Flow:
    """Marks where backward goes.

    With ``from_inputs`` embeddings have gradients although they are frozen (transformers: enable_input_require_grads).
    """

    parameters: list[Parameter]
    parallel: bool
    from_inputs: bool

    def mark(self, module: Module, *, reaches: bool) -> bool:
        """``reaches`` is whether the input has a gradient; answers for the output."""
        module.to_below = last = reaches
        for child in module.children:
            if child.name in _WITHOUT_BACKWARD:
                child.from_above = False
                continue
            beside = child.name in _READS_INPUT or (
                self.parallel and module.name == BLOCK and child.name in _READS_BLOCK
            )
            given = False if child.name in _READS_TOKENS else reaches if beside else last
            last = self.mark(child, reaches=given)
        trains = any(self.parameters[one].trains for one in module.parameters)
        module.from_above = last or trains or (self.from_inputs and module.name == "embed")
        return module.from_above


@dataclass(frozen=True, slots=True)
class Tree:
    """The model as one module, its parameters by number, and those of each block."""

    root: Module
    parameters: tuple[Parameter, ...]
    blocks: tuple[range, ...]


def tree(shape: Shape) -> Tree:
    """The modules, with as many parameters as the model has and as many adapters.

    What the model has beyond its layout is taken as a shared expert, or goes to one matrix of each block: a variant's
    biases, another width of some blocks. A shape that says little of the size is scaled.
    """
    model, layout = shape.model, layout_of(shape.model)
    layers = max(1, model.num_layers)
    outside, block = _listed(model, layout)
    listed = outside + layers * block
    beyond = round((model.num_parameters - listed) / layers)
    scaled = -2 * beyond > model.hidden_size * model.intermediate_size
    builder = _Builder(
        replace(model, num_layers=shape.layers),
        layout,
        shape.lora_rank,
        packs=shape.packs,
        beyond=0 if scaled else beyond,
    )
    root = builder.tree()
    # all adapters are in blocks
    wanted = shape.adapters * shape.layers // layers
    made = sum(one.elements for one in builder.parameters if one.adapter)
    if model.num_experts and wanted - made >= shape.layers:
        # a mixture's experts have adapters too
        builder = replace(builder, parameters=[], blocks=[], more_adapters=(wanted - made) // shape.layers)
        root = builder.tree()
        made = wanted
    ratio = model.num_parameters / listed if scaled else 1.0
    share = wanted / made if made and wanted else 1.0
    parameters = builder.parameters
    if (ratio, share) != (1.0, 1.0):
        parameters = [
            one._replace(elements=max(1, round(one.elements * (share if one.adapter else ratio)))) for one in parameters
        ]
    from_inputs = shape.recomputes and shape.lora_rank > 0
    _Flow(parameters, family_of(model).parallel, from_inputs).mark(root, reaches=False)
    return Tree(root, tuple(parameters), tuple(builder.blocks))


def adds_up(model: ModelSpec) -> bool:
    """Whether the layout lists just the parameters that the model has, so that each one's size is known."""
    outside, block = _listed(model, layout_of(model))
    return outside + max(1, model.num_layers) * block == model.num_parameters


def _listed(model: ModelSpec, layout: Layout) -> tuple[int, int]:
    """Elements that the layout has outside of the blocks, and in one."""
    two_stacks = model.kind == "encoder-decoder"
    builder = _Builder(model if two_stacks else replace(model, num_layers=2), layout)
    builder.tree()
    sizes = [one.elements for one in builder.parameters]
    if two_stacks:
        # whose blocks differ
        return sum(sizes), 0
    block = sum(sizes[one] for one in builder.blocks[0])
    return sum(sizes) - 2 * block, block
