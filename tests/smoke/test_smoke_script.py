"""The model that stands for the user's."""

from __future__ import annotations

from types import SimpleNamespace

import architecture
import pytest
import script

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("expected", "notes"), [(110, 0), (200, 1), (None, 0)])
def test_adapters_are_no_deviation_from_the_models_size(monkeypatch, expected, notes):
    model = torch.nn.Linear(10, 10)
    monkeypatch.setattr(architecture, "build_model", lambda *_: model)
    monkeypatch.setattr(
        script, "_with_adapters", lambda model, rank: torch.nn.ModuleList([model, torch.nn.Linear(10, rank)])
    )
    said = []
    job = {"zero_init": False, "activation_checkpointing": False, "lora_rank": 8}
    session = SimpleNamespace(
        job=job | {"architecture": {"num_parameters": expected}},
        record=SimpleNamespace(enter=lambda _phase: None),
        note=said.append,
    )
    built = script.build(session, {}, None, "")
    assert architecture.num_parameters(built) == 110 + 88
    assert len(said) == notes
    assert all("has 110 parameters, 200 were expected" in line for line in said)
