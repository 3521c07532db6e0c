"""The scripts that write documentation, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def writer(name="write_rules"):
    """A script of ``docs/``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
