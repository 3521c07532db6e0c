"""Model architectures: a Hugging Face configuration to a shape with its exact parameter count.

Each family is a function ``Config -> Shape``; the counts are compared with Transformers' own modules on
the meta device in ``tests/inputs``.
"""

from __future__ import annotations

from zeroconf.inputs.architectures.read import FAMILIES, family_of, language_part, spec_from_config

__all__ = ["FAMILIES", "family_of", "language_part", "spec_from_config"]
