"""zeroconf: model + hardware + network to a DeepSpeed / Accelerate configuration that trains.

This module holds the docstring and the version only: PyPI's mDNS library uses the same import name
and would overwrite it (see README, "Name"), so nothing in the package imports from here.
"""

from zeroconf.about import VERSION

__version__ = VERSION

__all__ = ["__version__"]
