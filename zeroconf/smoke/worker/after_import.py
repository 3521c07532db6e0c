"""Acts on modules as a program imports them."""

from __future__ import annotations

import importlib.util
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class AfterImport(MetaPathFinder):
    """Calls a function with a module once it is imported, whoever imports it and when."""

    def __init__(self, actions: dict[str, Callable[[Any], None]]) -> None:
        self._actions = actions
        self._looking = False

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> Any:
        """The module's own spec, with the action behind its loading, which may never come."""
        if fullname not in self._actions or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_act(module: Any) -> None:
            load(module)
            if action := self._actions.pop(fullname, None):
                action(module)

        spec.loader.exec_module = load_and_act  # type: ignore[method-assign]
        return spec
