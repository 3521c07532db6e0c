"""``~/`` in what the user gives, also where the user has no home: a container's uid that no passwd file knows."""

from __future__ import annotations

import pwd

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.model import read_model
from zeroconf.inputs.text import as_path
from zeroconf.inputs.versions import read_versions


def test_the_home_is_filled_in(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert as_path("~/model") == tmp_path / "model"
    assert str(as_path("~other/model")) == "~other/model"


@pytest.mark.parametrize("read", [read_model, lambda text: read_versions(python=text)])
def test_without_a_home_the_path_is_one_that_is_not_there(monkeypatch, read):
    def unknown(_uid: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(InputError, match="~/nowhere"):
        read("~/nowhere")
