from __future__ import annotations

import pytest

from zeroconf.inputs.model import read_model


# counted with Transformers 5.24 on the meta device
@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("mixtral-8x7b", 939_524_096),
        ("qwen3-30b-a3b", 402_653_184),
        ("llama-3.1-8b", 525_336_576),
        ("llama-2-7b", 131_072_000),
    ],
)
def test_the_largest_tensor(name, elements):
    assert read_model(name).largest_parameter == elements
