"""What the worker builds from a ModelSpec's fields, with the real transformers, in this process."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from zeroconf.inputs import catalogue
from zeroconf.inputs.model import read_model
from zeroconf.smoke.command import WORKER

sys.path.append(str(WORKER))
torch = pytest.importorskip("torch")

import architecture  # noqa: E402  (after the path)
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from transformers.initialization import no_init_weights  # noqa: E402

SPEC = {
    "num_layers": 4,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "tied_embeddings": False,
    "max_sequence_length": 64,
    "kind": "decoder",
}
EMBEDDING = 512 * 64
GROUPED_ATTENTION = 2 * 64 * 64 + 2 * 64 * 32
GATED_MLP = 3 * 64 * 160
LLAMA = 2 * EMBEDDING + 4 * (GROUPED_ATTENTION + GATED_MLP + 2 * 64) + 64
# tied, 64 learned positions, biases everywhere, no gate, two norms with bias per layer and one at the end
GPT2 = EMBEDDING + 64 * 64 + 4 * (4 * 64 * 64 + 4 * 64 + 2 * 64 * 160 + 160 + 64 + 4 * 64) + 2 * 64
EXPERTS = {"num_experts": 4, "num_experts_per_token": 2}


def build(spec: dict[str, object]):
    config, class_name, notes = architecture.make_config(spec, 32)
    model = architecture.build_model(config, class_name, torch.float32)
    batch = architecture.make_batch(config, rank=0, micro_batch_size=2, sequence_length=32, device="cpu")
    return model, batch, notes


@pytest.mark.parametrize(
    ("name", "changes", "num_parameters"),
    [
        ("llama", {}, LLAMA),
        ("mistral", {}, LLAMA),
        ("qwen2", {}, LLAMA + 4 * (64 + 2 * 32)),  # biases of queries, keys, values
        ("qwen3", {}, LLAMA + 4 * 2 * 16),  # norms of queries and keys
        ("phi3", {}, LLAMA),
        ("mixtral", EXPERTS, LLAMA + 4 * (3 * GATED_MLP + 64 * 4)),
        ("qwen3-moe", EXPERTS, LLAMA + 4 * (3 * GATED_MLP + 64 * 4 + 2 * 16)),
        ("LlamaForCausalLM", {}, LLAMA),
        ("gpt2", {"tied_embeddings": True}, GPT2),
        ("gpt_neox", {}, None),
        ("opt", {}, None),
        ("bert", {"kind": "encoder", "tied_embeddings": True}, None),
        ("t5", {"kind": "encoder-decoder", "tied_embeddings": True}, None),
    ],
)
def test_it_has_the_shape_and_learns(name, changes, num_parameters):
    model, batch, _ = build(SPEC | {"architecture": name} | changes)
    if num_parameters is not None:
        assert architecture.num_parameters(model) == num_parameters
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[2] < losses[0]


def test_an_unknown_architecture_is_built_in_the_same_shape_and_says_so():
    model, _, notes = build(SPEC | {"architecture": "dense-decoder"})
    assert architecture.num_parameters(model) == LLAMA
    assert notes == ["architecture 'dense-decoder' is built as llama, in the same shape"]


def test_a_config_file_or_its_folder(tmp_path):
    values = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 512, "n_positions": 64}
    (tmp_path / "config.json").write_text(json.dumps(values))
    sizes = {
        architecture.num_parameters(build({"config": str(path)})[0]) for path in (tmp_path, tmp_path / "config.json")
    }
    assert len(sizes) == 1


def whole(entry: dict[str, Any]) -> int:
    """Parameters of the class that trains an entry; the catalogue counts an encoder's pooler, which trains no words."""
    spec = catalogue.spec(entry, entry["name"])
    if spec.kind == "encoder" and "vocab_size" in entry["config"]:
        return spec.num_parameters + spec.vocab_size + 2 * spec.hidden_size
    return spec.num_parameters


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry["name"])
def test_every_model_of_the_catalogue_is_built_whole(entry):
    spec = asdict(catalogue.spec(entry, entry["name"])) | {"config": dict(entry["config"])}
    config, class_name, notes = architecture.make_config(spec, 32)
    with torch.device("meta"):
        model = architecture.build_model(config, class_name, torch.bfloat16)
    if notes:  # an architecture that transformers does not have: its shape as another
        assert architecture.num_parameters(model) == pytest.approx(entry["num_parameters"], rel=0.01)
    else:
        assert architecture.num_parameters(model) == whole(entry)


def smallest_of_each_type() -> list[dict[str, Any]]:
    entries = sorted(catalogue.entries(), key=lambda entry: -entry["num_parameters"])
    return list({entry["config"]["model_type"]: entry for entry in entries}.values())


@pytest.mark.parametrize("entry", smallest_of_each_type(), ids=lambda entry: entry["config"]["model_type"])
def test_every_architecture_of_the_catalogue_takes_its_batch(entry):
    spec = asdict(catalogue.spec(entry, entry["name"])) | {"config": dict(entry["config"])}
    config, class_name, _ = architecture.make_config(spec, 32)
    config.num_hidden_layers = 2
    # shapes only: operators that look at values are refused, as ViT's first values would
    with FakeTensorMode():
        with no_init_weights():
            model = architecture.build_model(config, class_name, torch.bfloat16)
        model.tie_weights()
        batch = architecture.make_batch(
            config, rank=0, micro_batch_size=2, sequence_length=32, device="cpu", with_mask=False
        )
        model(**batch).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_weights_are_the_same_on_every_rank_and_batches_are_not():
    spec = SPEC | {"architecture": "llama"}
    (one, batch, _), (other, _, _) = build(spec), build(spec)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    config, _, _ = architecture.make_config(spec, 32)
    far = architecture.make_batch(config, rank=1, micro_batch_size=2, sequence_length=32, device="cpu")
    assert not torch.equal(batch["input_ids"], far["input_ids"])


def test_checkpointing_is_switched_on():
    model, _, _ = build(SPEC | {"architecture": "llama"})
    architecture.checkpoint(model)
    layers = model.model.layers
    assert all(layer.gradient_checkpointing for layer in layers)


def test_too_long_a_sequence_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_positions": 16}))
    with pytest.raises(ValueError, match="beyond the model's 16 positions"):
        architecture.make_config({"config": str(tmp_path)}, 32)


def test_a_vision_language_models_language_is_built_from_its_shape(tmp_path):
    text = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    text |= {"intermediate_size": 96, "vocab_size": 128, "max_position_embeddings": 64}
    values = {"model_type": "qwen2_5_vl", "text_config": {"model_type": "qwen2_5_vl_text", **text}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    spec = asdict(read_model(str(tmp_path))) | {"config": str(tmp_path)}
    config, class_name, notes = architecture.make_config(spec, 32)
    model = architecture.build_model(config, class_name, torch.float32)
    assert architecture.num_parameters(model) == spec["num_parameters"]
    assert any("built as qwen2" in note for note in notes)


def test_positions_that_rotate_end_nowhere(tmp_path):
    values = {"model_type": "llama", "max_position_embeddings": 16}
    (tmp_path / "config.json").write_text(json.dumps(values))
    config, _, notes = architecture.make_config({"config": str(tmp_path)}, 32)
    assert config.max_position_embeddings == 32
    assert any("32 positions for the model's 16" in note for note in notes)


def test_sounds_are_longer_than_what_is_written_of_them():
    entry = catalogue.find("whisper-tiny")
    spec = asdict(catalogue.spec(entry, entry["name"])) | {"config": dict(entry["config"])}
    config, _, _ = architecture.make_config(spec, spec["max_sequence_length"])
    batch = architecture.make_batch(config, rank=0, micro_batch_size=1, sequence_length=1500, device="cpu")
    assert (batch["input_features"].shape, batch["labels"].shape) == ((1, 80, 3000), (1, 448))


@pytest.mark.parametrize("value_size", [16, 24])
def test_flash_attention_pads_narrower_values_as_transformers_does(value_size, monkeypatch):
    from transformers.integrations import flash_attention as real  # noqa: PLC0415

    given = {}

    def kernel(query, _key, value, *_args, **_named):
        given["transformers"] = (tuple(query.transpose(1, 2).shape), tuple(value.transpose(1, 2).shape))
        return torch.zeros_like(query)

    def ours(query, _key, value, **_named):
        given["dry run"] = (tuple(query.shape), tuple(value.shape))
        return torch.zeros_like(query)

    monkeypatch.setattr(real, "_flash_attention_forward", kernel)
    monkeypatch.setattr(importlib.import_module("gpu_kernels"), "flash_attention", ours)
    module = torch.nn.Linear(1, 1)
    module.config, module.is_causal = SimpleNamespace(_attn_implementation="flash_attention_2"), True
    query, value = (
        torch.zeros(2, 4, 8, 24, dtype=torch.bfloat16),
        torch.zeros(2, 4, 8, value_size, dtype=torch.bfloat16),
    )
    (theirs, _), (output, _) = (
        forward(module, query, query, value, None) for forward in (real.flash_attention_forward, architecture._flash)
    )
    assert output.shape == theirs.shape == (2, 8, 4, value_size)
    assert given["dry run"] == given["transformers"]


@pytest.mark.parametrize("tied", [True, False])
def test_a_language_model_alone_is_tied_as_in_the_whole_model(tied):
    # mistral3's whole configuration decides, whatever its text_config says
    text = {"model_type": "mistral", "hidden_size": 64, "num_hidden_layers": 2, "tie_word_embeddings": not tied}
    values = {"model_type": "mistral3", "tie_word_embeddings": tied, "text_config": {**text, "vocab_size": 512}}
    spec = {**SPEC, "architecture": "mistral", "tied_embeddings": tied, "config": values}
    config, _, _ = architecture.make_config(spec, 32)
    assert config.tie_word_embeddings is tied


def test_an_image_of_two_sides():
    values = {"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    values |= {"intermediate_size": 64, "image_size": [32, 64], "patch_size": 16}
    model, batch, _ = build({"kind": "encoder", "config": values})
    assert batch["pixel_values"].shape == (2, 3, 32, 64)
    assert torch.isfinite(model(**batch).loss)
