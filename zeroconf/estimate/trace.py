"""One micro step's modules as DeepSpeed's hooks see them: forward, recomputation, backward (zero/parameter_offload.py).

Numbers stand for parameters, in the order in which they compute first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.estimate.families import family_of
from zeroconf.estimate.modules import BLOCK, LEAVES, NORMS, layout_of
from zeroconf.estimate.tree import Module, Parameter, Shape, tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FETCH: Final = 0
RELEASE: Final = 1
# a frozen parameter that recomputation fetches belongs to the module whose backward made it recompute
FETCH_AGAIN: Final = 2
RELEASE_OWNER: Final = 3


class Event(NamedTuple):
    """A module is fetched or released: the kind, and its own parameters."""

    kind: int
    parameters: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # one for each model: caches look it up by identity
class Trace:
    """One micro step.

    ``queue`` is the order of prefetching: parameters with the fetch that they are for. ``uses`` are the fetches of each
    parameter, ``passed`` the elements of all fetches before each, which is how far reuse is. ``whole_uses`` and
    ``whole_passed`` are the same with all that is inside a fetched module: so those ``in_leaf`` are counted, which
    DeepSpeed gathers together. ``gradients`` are ready in this order, ``registered`` is the optimizer's.
    ``lingering`` are fetched in backward by modules whose inputs have no gradient, so that no hook releases them.
    ``blocks`` are the numbers of each block's parameters.
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
    blocks: tuple[range, ...]


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

    parameters: Sequence[Parameter]
    recomputes: bool
    drops: bool  # dropout with a probability above 0, which keeps its mask
    bias_first: bool
    whole_leaves: bool
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
        self.gradients += trained if module.name in LEAVES and self.whole_leaves else self._reversed(module, trained)

    def _reversed(self, module: Module, trained: list[int]) -> list[int]:
        """Autograd comes to what was used last first; torch's linear layers have their biases first."""
        if module.name == "experts":
            return trained[len(trained) // 2 :] + trained[: len(trained) // 2]
        if module.name == "moe_router_last" and len(trained) > 1:
            return [trained[1], trained[0], *trained[2:]]
        return trained[::-1] if self.bias_first or module.name in LEAVES else trained


@lru_cache(maxsize=64)
def trace(shape: Shape) -> Trace:
    """A model's trace."""
    model, found = shape.model, tree(shape)
    root, parameters, layout = found.root, found.parameters, layout_of(model)
    bias_first = shape.bias_first or model.architecture == "gpt2"
    writer = _Writer(parameters, shape.recomputes, family_of(model).dropout, bias_first, shape.partitioned)
    writer.forward(root)
    writer.backward(root)
    fetched = writer.fetched
    leaves = frozenset(one for module in fetched if module.name in LEAVES for one in module.parameters)
    own = [() if module.name in LEAVES else module.parameters for module in fetched]
    whole = [tuple(dict.fromkeys(module.inside)) for module in fetched] if leaves else []
    return Trace(
        parameters=parameters,
        events=tuple(writer.events),
        queue=tuple((one, at) for at, module in enumerate(fetched) for one in sorted(module.parameters)),
        uses=_uses(own, len(parameters)),
        passed=_passed(own, parameters),
        whole_uses=_uses(whole, len(parameters)),
        whole_passed=_passed(whole, parameters),
        in_leaf=leaves,
        # a shared parameter's gradient is complete with its last part
        gradients=tuple(dict.fromkeys(reversed(writer.gradients)))[::-1],
        registered=tuple(dict.fromkeys(_registered(root, layout.norms))),
        blocks=found.blocks,
        lingering=frozenset(writer.lingering),
    )


def _uses(fetched: list[tuple[int, ...]], number: int) -> tuple[tuple[int, ...], ...]:
    uses: list[list[int]] = [[] for _ in range(number)]
    for at, inside in enumerate(fetched):
        for one in inside:
            uses[one].append(at)
    return tuple(tuple(ats) for ats in uses)


def _passed(fetched: list[tuple[int, ...]], parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """Elements of the fetches before each, and of all."""
    return tuple(accumulate((sum(parameters[one].elements for one in inside) for inside in fetched), initial=0))
