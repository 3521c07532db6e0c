"""One micro step's modules as DeepSpeed's hooks see them: forward, recomputation, backward (zero/parameter_offload.py).

Numbers stand for parameters, in the order in which they compute first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.estimate.families import family_of
from zeroconf.estimate.packed import PACKED
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

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zeroconf.types import ModelSpec

FETCH: Final = 0
RELEASE: Final = 1
# a frozen parameter that recomputation fetches belongs to the module whose backward made it recompute
FETCH_AGAIN: Final = 2
RELEASE_OWNER: Final = 3

_VOCABULARY: Final = 0
# they read what their parent reads, not what the module before them made
_READS_INPUT: Final = frozenset({"q", "k", "v", "qkv", "gate", "up", "gate_up", "base", "dropout"})
_READS_BLOCK: Final = NORMS | {"mlp"}  # where attention and MLP are parallel
_READS_TOKENS: Final = frozenset({"embed", "positions", "types", "position_bias"})
_WITHOUT_BACKWARD: Final = frozenset({"rotary"})


class Event(NamedTuple):
    """A module is fetched or released: the kind, and its own parameters."""

    kind: int
    parameters: tuple[int, ...]


class Parameter(NamedTuple):
    """One parameter: ``linear`` is a linear layer's, ``adapter`` one of LoRA's."""

    elements: int
    trains: bool = True
    linear: bool = False
    adapter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # one for each model: caches look it up by identity
class Trace:
    """One micro step.

    ``queue`` is the order of prefetching: parameters with the fetch that they are for. ``uses`` are the fetches of each
    parameter, ``passed`` the elements of all fetches before each, which is how far reuse is. ``whole_uses`` and
    ``whole_passed`` are the same with all that is inside a fetched module: so those ``in_leaf`` are counted, which
    DeepSpeed gathers together. ``gradients`` are ready in this order, ``registered`` is the optimizer's.
    ``lingering`` are fetched in backward by modules whose inputs have no gradient, so that no hook releases them.
    """

    parameters: tuple[Parameter, ...]
    events: tuple[Event, ...]
    queue: tuple[tuple[int, int], ...]
    uses: tuple[tuple[int, ...], ...]
    passed: tuple[int, ...]
    whole_uses: tuple[tuple[int, ...], ...]
    whole_passed: tuple[int, ...]
    in_leaf: frozenset[int]
    gradients: tuple[int, ...]
    registered: tuple[int, ...]
    lingering: frozenset[int]


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
        if not self.model.gated_mlp:
            text = text.replace("gate act up", "up act")
        for layer in range(layers):
            # the first block of a stack has the position biases of all
            inside = words(text if layer == 0 else text.replace(" position_bias", ""))
            yield self._module(Word(BLOCK, biased=False, children=inside))

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


def _registered(module: Module, norms: str) -> Iterator[int]:
    """Parameters as classes register them: a block's normalisations after its other modules, before, or between."""
    yield from module.parameters
    children = list(module.children)
    if norms != "between" and module.name in (BLOCK, "attention"):
        children.sort(key=lambda child: (child.name in NORMS) == (norms == "last"))
    for child in children:
        yield from _registered(child, norms)


@dataclass(slots=True)
class _Writer:
    """Writes what the hooks see."""

    parameters: list[Parameter]
    recomputes: bool
    drops: bool  # dropout with a probability above 0, which keeps its mask
    bias_first: bool
    events: list[Event] = field(default_factory=list)
    fetched: list[Module] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    lingering: list[int] = field(default_factory=list)

    def forward(self, module: Module) -> None:
        """Children between the module's fetch and release."""
        self._fetch(module, FETCH)
        for child in module.children:
            self.forward(child)
        self._release(module, RELEASE)

    def _again(self, module: Module, last: Module) -> bool:
        """Forward again, until the module that saved the last tensor (torch.utils.checkpoint stops there)."""
        self._fetch(module, FETCH_AGAIN)
        if module is last or any(self._again(child, last) for child in module.children):
            return True
        self._release(module, RELEASE)
        return False

    def backward(self, module: Module, block: Module | None = None) -> bool:
        """The mirror image; the first module that saved a tensor makes ``block`` recompute. Answers whether it did."""
        self._fetch(module, FETCH)
        owns = block is not None and not module.children and (self.drops or module.name != "drop")
        if owns and block is not None:
            any(self._again(child, module) for child in block.children)
        done = owns
        for child in reversed(module.children):
            if child.from_above:
                starts = self.recomputes and child.name == BLOCK
                done = self.backward(child, child if starts else None if done else block) or done
        self._ready(module)
        if module.to_below:
            self._release(module, RELEASE_OWNER if owns else RELEASE)
        else:
            self.lingering += module.parameters
        return done

    def _fetch(self, module: Module, kind: int) -> None:
        self.events.append(Event(kind, module.parameters))
        self.fetched.append(module)

    def _release(self, module: Module, kind: int) -> None:
        if module.parameters or kind == RELEASE_OWNER:
            self.events.append(Event(kind, module.parameters))

    def _ready(self, module: Module) -> None:
        trained = [one for one in module.parameters if self.parameters[one].trains]
        if module.name == "experts":
            trained = trained[len(trained) // 2 :] + trained[: len(trained) // 2]
        elif self.bias_first and module.name not in LEAVES:
            trained.reverse()
        self.gradients += trained


def _fitted(
    model: ModelSpec, layout: Layout, lora_rank: int, adapters: int, packs: bool
) -> tuple[_Builder, Module]:
    """The modules, with as many parameters as the model has, and as many adapters."""
    layers = max(1, model.num_layers)
    plain = _Builder(model, layout)
    plain.tree()
    listed = sum(one.elements for one in plain.parameters)
    beyond = round((model.num_parameters - listed) / layers)
    # a shape that says little of the size is scaled
    scaled = -2 * beyond > model.hidden_size * model.intermediate_size
    builder = _Builder(model, layout, lora_rank, packs=packs, beyond=0 if scaled else beyond)
    tree = builder.tree()
    made = sum(one.elements for one in builder.parameters if one.adapter)
    if model.num_experts and adapters - made >= layers:
        # a mixture's experts have adapters too
        builder = replace(builder, parameters=[], more_adapters=(adapters - made) // layers)
        tree = builder.tree()
        made = adapters
    ratio = model.num_parameters / listed if scaled else 1.0
    share = adapters / made if made and adapters else 1.0
    if (ratio, share) != (1.0, 1.0):
        builder.parameters = [
            one._replace(elements=max(1, round(one.elements * (share if one.adapter else ratio))))
            for one in builder.parameters
        ]
    return builder, tree


@lru_cache(maxsize=64)
def trace(
    model: ModelSpec,
    lora_rank: int = 0,
    *,
    adapters: int = 0,
    packs: bool = False,
    recomputes: bool = False,
    bias_first: bool = True,
) -> Trace:
    """A model's trace.

    ``adapters`` are the elements that train with LoRA, 0 where the linear layers' own are meant. ``packs`` holds four
    frozen weights of a linear layer in one element. ``recomputes`` with activation checkpointing, ``bias_first`` as
    torch's linear layers have it.

    What the model has beyond its layout is taken as a shared expert, or goes to one matrix of each block: a variant's
    biases, another width of some blocks.
    """
    layout, family = layout_of(model), family_of(model)
    builder, tree = _fitted(model, layout, lora_rank, adapters, packs)
    parameters = builder.parameters
    _Flow(parameters, family.parallel, recomputes and lora_rank > 0).mark(tree, reaches=False)
    writer = _Writer(parameters, recomputes, family.dropout, bias_first or model.architecture == "gpt2")
    writer.forward(tree)
    writer.backward(tree)
    fetched = writer.fetched
    leaves = frozenset(one for module in fetched if module.name in LEAVES for one in module.parameters)
    own = [() if module.name in LEAVES else module.parameters for module in fetched]
    whole = [tuple(dict.fromkeys(module.inside)) for module in fetched] if leaves else []
    return Trace(
        parameters=tuple(parameters),
        events=tuple(writer.events),
        queue=tuple((one, at) for at, module in enumerate(fetched) for one in sorted(module.parameters)),
        uses=_uses(own, len(parameters)),
        passed=_passed(own, parameters),
        whole_uses=_uses(whole, len(parameters)),
        whole_passed=_passed(whole, parameters),
        in_leaf=leaves,
        # a shared parameter's gradient is complete with its last part
        gradients=tuple(dict.fromkeys(reversed(writer.gradients)))[::-1],
        registered=tuple(dict.fromkeys(_registered(tree, layout.norms))),
        lingering=frozenset(writer.lingering),
    )


def _uses(fetched: list[tuple[int, ...]], number: int) -> tuple[tuple[int, ...], ...]:
    uses: list[list[int]] = [[] for _ in range(number)]
    for at, inside in enumerate(fetched):
        for one in inside:
            uses[one].append(at)
    return tuple(tuple(ats) for ats in uses)


def _passed(fetched: list[tuple[int, ...]], parameters: list[Parameter]) -> tuple[int, ...]:
    """Elements of the fetches before each, and of all."""
    return tuple(accumulate((sum(parameters[one].elements for one in inside) for inside in fetched), initial=0))
