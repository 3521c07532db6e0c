"""The version, in a module that PyPI's mDNS library of the same import name does not overwrite."""

VERSION = "0.1.0"
