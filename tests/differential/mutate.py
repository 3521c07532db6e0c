"""Seeded mutants of valid configurations: one change each, of the kinds that people make."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from bases import BASES, Base, Config, to_text
from mutate_pools import ADDED, ADDED_YAML, COMBINED, COMBINED_YAML, ENUMS, PARAMETERS, REMOVED, REMOVED_YAML
from mutate_text import TEXT, duplicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Path = tuple[str | int, ...]
Change = tuple[str, Config]


class Mutant(NamedTuple):
    """A changed file; ``what`` says the change, ``config`` holds the values where the change was made to them."""

    base: Base
    reader: str
    kind: str
    what: str
    text: str
    config: Config | None = None

    @property
    def case(self) -> dict[str, Any]:
        """The mutant as the judge's input."""
        return {"reader": self.reader, "syntax": self.base.syntax, "text": self.text, "beside": self.base.beside}


def paths(config: Any, here: Path = ()) -> Iterator[Path]:
    """Every path below the root, mappings and lists included."""
    pairs = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for step, value in pairs:
        yield (*here, step)
        yield from paths(value, (*here, step))


def at(config: Any, path: Path) -> Any:
    """The value at the path."""
    for step in path:
        config = config[step]
    return config


def put(config: Config, path: Path, value: Any) -> None:
    """Sets the value at the path; the blocks that lead there are made."""
    holder: Any = config
    for step in path[:-1]:
        if isinstance(holder, dict) and not isinstance(holder.get(step), (dict, list)):
            holder[step] = {}
        holder = holder[step]
    holder[path[-1]] = value


def dotted(path: Path) -> str:
    """The path in words."""
    return ".".join(map(str, path))


def _members(config: Config) -> list[Path]:
    return [path for path in paths(config) if isinstance(path[-1], str)]


def _scalars(config: Config, kinds: tuple[type, ...]) -> list[Path]:
    return [path for path in paths(config) if isinstance(at(config, path), kinds)]


def _renamed(mapping: Config, old: str, new: str) -> Config:
    return {new if key == old else key: value for key, value in mapping.items()}


def misspell(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """A letter is lost, doubled, swapped or another; or the key is written in another style."""
    path = rng.choice(_members(config))
    key = str(path[-1])
    index = rng.randrange(len(key))
    new = rng.choice(
        (
            key[:index] + key[index + 1 :],
            key[:index] + key[index] + key[index:],
            key[:index] + key[index : index + 2][::-1] + key[index + 2 :],
            key[:index] + rng.choice("aeionrst") + key[index + 1 :],
            key.replace("_", "-"),
            key.replace("_", ""),
            key.upper(),
            key + "s",
            key.removeprefix("stage3_").removeprefix("train_").removeprefix("zero_"),
        )
    )
    if new == key or not new or new in at(config, path[:-1]):
        return None
    if len(path) == 1:
        return f"{key} -> {new}", _renamed(config, key, new)
    put(config, path[:-1], _renamed(at(config, path[:-1]), key, new))
    return f"{dotted(path)} -> {new}", config


def move(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """A key stands in another block, or in none."""
    path = rng.choice(_members(config))
    blocks = [(), *(there for there in _members(config) if isinstance(at(config, there), dict))]
    there = rng.choice(blocks)
    if there == path[:-1] or there[: len(path)] == path or path[-1] in at(config, there):
        return None
    value = at(config, path)
    del at(config, path[:-1])[path[-1]]
    at(config, there)[path[-1]] = value
    return f"{dotted(path)} moved to {dotted(there) or 'the top'}", config


def drop(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """A key is missing."""
    path = rng.choice(_members(config))
    del at(config, path[:-1])[path[-1]]
    return f"{dotted(path)} dropped", config


def _set(rng: random.Random, config: Config, pool: tuple[tuple[str, Any], ...]) -> Change | None:
    name, value = rng.choice(pool)
    path = tuple(name.split("."))
    for depth in range(1, len(path)):
        try:
            if not isinstance(at(config, path[:depth]), dict):
                return None
        except (KeyError, TypeError):
            if path[:depth] in {("optimizer",), ("scheduler",), ("optimizer", "params"), ("scheduler", "params")}:
                return None
    put(config, path, copy.deepcopy(value))
    return f"{name} = {value!r}", config


def add(rng: random.Random, config: Config, yaml: bool) -> Change | None:
    """A key that is unknown, known elsewhere, or rarely used."""
    return _set(rng, config, ADDED_YAML if yaml else ADDED)


def removed(rng: random.Random, config: Config, yaml: bool) -> Change | None:
    """A key of other releases."""
    return _set(rng, config, REMOVED_YAML if yaml else REMOVED)


def combine(rng: random.Random, config: Config, yaml: bool) -> Change | None:
    """A value that another one contradicts, or a valid combination that looks odd."""
    made: list[str] = []
    for _ in range(rng.choice((1, 1, 2))):
        change = _set(rng, config, COMBINED_YAML if yaml else COMBINED)
        made += [change[0]] if change else []
    return (" and ".join(made), config) if made else None


def parameters(rng: random.Random, config: Config, yaml: bool) -> Change | None:
    """Optimizer or scheduler parameters of another one, or none."""
    if yaml or not {"optimizer", "scheduler"} & set(config):
        return None
    return _set(rng, config, PARAMETERS)


def retype(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """A value of another type: quoted, a list, null, a boolean, a block."""
    path = rng.choice(list(paths(config)))
    value = at(config, path)
    others: list[Any] = [None, [value], {"value": value}, True, "text", 1, 1.5, [], {}]
    if isinstance(value, bool):
        others += [str(value), str(value).lower(), int(value), "yes"]
    elif isinstance(value, (int, float)):
        others += [str(value), str(value), float(value), float(value), value + 0.5, bool(value)]
    other = rng.choice(others)
    put(config, path, other)
    return f"{dotted(path)}: {value!r} -> {other!r}", config


def rerange(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """A number at or beyond its limits."""
    choices = [path for path in _scalars(config, (int, float)) if not isinstance(at(config, path), bool)]
    if not choices:
        return None
    path = rng.choice(choices)
    value = at(config, path)
    other = rng.choice((0, -1, 1, 3, 0.5, value + 0.5, -value, value * 1000, 10**18, 1e9, 2**31, 5e8))
    put(config, path, other)
    return f"{dotted(path)}: {value!r} -> {other!r}", config


def reword(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """Another word where only some are known, in another case, or of another list."""
    choices = [path for path in _members(config) if ENUMS.get(str(path[-1]))]
    path = rng.choice(choices)
    value = at(config, path)
    other = rng.choice((*ENUMS[str(path[-1])], str(value).upper(), f"{value} "))
    put(config, path, other)
    return f"{dotted(path)}: {value!r} -> {other!r}", config


def auto(rng: random.Random, config: Config, _yaml: bool) -> Change | None:
    """The word "auto" where a value stands."""
    path = rng.choice(list(paths(config)))
    put(config, path, "auto")
    return f"{dotted(path)}: auto", config


CONFIG_KINDS: dict[str, Callable[[random.Random, Config, bool], Change | None]] = {
    "misspelt key": misspell,
    "moved key": move,
    "dropped key": drop,
    "added key": add,
    "removed key": removed,
    "type": retype,
    "range": rerange,
    "word": reword,
    "combination": combine,
    "parameters": parameters,
    "auto": auto,
}
KINDS = (*CONFIG_KINDS, "duplicate", "text")


def _mutant(rng: random.Random, base: Base, kind: str) -> Mutant | None:
    reader = rng.choice(base.readers)
    yaml = base.syntax == "yaml"
    if kind in CONFIG_KINDS and not base.config:
        return None
    if kind in CONFIG_KINDS:
        # not deepcopy: it keeps one block that stands in two places one
        change = CONFIG_KINDS[kind](rng, json.loads(json.dumps(base.config)), yaml)
        if change is None or (change[1] == base.config and to_text(base.syntax, change[1]) == base.text):
            return None
        return Mutant(base, reader, kind, change[0], to_text(base.syntax, change[1]), change[1])
    if kind == "duplicate":
        what, text = duplicate(rng, base.text)
    else:
        name, edit = rng.choice(tuple(TEXT[base.syntax].items()))
        what, text = name, edit(rng, base.text)
    return None if text == base.text else Mutant(base, reader, kind, what, text)


def mutants(seed: int, count: int) -> list[Mutant]:
    """So many different mutants, all kinds alike; the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311  (repeatable, not secret)
    made: dict[tuple[str, str], Mutant] = {}
    while len(made) < count:
        mutant = _mutant(rng, rng.choice(BASES), rng.choice(KINDS))
        if mutant:
            made.setdefault((mutant.reader, mutant.text), mutant)
    return list(made.values())
