"""Where the shipped data files are: inside the installed wheel, or the checkout that this package stands in."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def data_path(relative: str) -> Path:
    """The path of ``schemas/...`` or ``templates/...``.

    The installed copy (``zeroconf/_data``) comes first; the repository's folders count only beside our own
    ``pyproject.toml``, so that a user's ``schemas`` folder is never read by mistake.

    Raises:
        FileNotFoundError: neither place has it: the installation is broken.
    """
    installed = _PACKAGE / "_data" / relative
    if installed.exists():
        return installed
    project = _PACKAGE.parent / "pyproject.toml"
    checkout = _PACKAGE.parent / relative
    if checkout.exists() and project.exists() and 'name = "zeroconf-deepspeed"' in project.read_text(encoding="utf-8"):
        return checkout
    raise FileNotFoundError(installed)
