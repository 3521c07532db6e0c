from __future__ import annotations

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs import catalogue
from zeroconf.inputs.model import TINY, model_source, read_model


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Meta-Llama-3-8B", "llama-3-8b"),
        ("LLAMA3_8B", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("bert-base", "bert-base-uncased"),
        ("t5", "t5-base"),
        ("gpt-2-xl", "gpt2-xl"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout-17b-16e"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("bloom-176b", "bloom"),
    ],
)
def test_names_are_read_leniently(asked, name):
    assert read_model(asked).name == name


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("llama-8b", "one of llama-3-8b, llama-3.1-8b$"),
        ("gpt-oss", "one of gpt-oss-20b, gpt-oss-120b$"),
        ("whisper", "one of whisper-tiny, whisper-base, "),
        ("qwen2.5", "one of .*qwen2.5-7b"),
        ("llama", "one of .* and [0-9]+ more$"),
    ],
)
def test_ambiguous_names_list_the_candidates(asked, part):
    with pytest.raises(InputError, match=rf"'{asked}' is ambiguous; write {part}"):
        read_model(asked)


def test_a_size_with_a_word_that_says_nothing_is_told_of_the_bare_size():
    with pytest.raises(InputError, match="'7b-chat' is only a size; write 7B for any decoder of that size, or one of "):
        read_model("7b-chat")


def test_a_shortened_name_is_read_and_said():
    model = read_model("neox-20b")
    assert model.name == "gpt-neox-20b"
    assert "'neox-20b' is read as gpt-neox-20b, the only model with these words" in model.assumptions


def test_no_two_entries_share_a_name():
    owners = {}
    for entry in catalogue.entries():
        for name in (entry["name"], entry["id"], *entry["aliases"]):
            assert owners.setdefault(name.lower(), entry["name"]) == entry["name"]
            assert catalogue.find(name) is entry


def test_recalled_shapes_are_said_to_be():
    for entry in catalogue.entries():
        said = any("is recalled, not read" in note for note in read_model(entry["name"]).assumptions)
        assert said == (entry["confidence"] == "recalled"), entry["name"]


def test_every_entry_is_found_by_all_its_names():
    for entry in catalogue.entries():
        for name in (entry["name"], entry["id"], entry["id"].upper(), *entry["aliases"]):
            assert catalogue.find(name) is entry, name


def test_every_entry_says_where_it_comes_from():
    for entry in catalogue.entries():
        assert entry["source"]
        assert entry["confidence"] in {"verified", "recalled"}
        assert entry["source"] in read_model(entry["name"]).source


def test_another_owners_copy_is_said_to_be_taken_for_the_original():
    model = read_model("NousResearch/Meta-Llama-3.1-8B")
    assert model.num_parameters == 8_030_261_248
    assert any("NousResearch/Meta-Llama-3.1-8B" in note for note in model.assumptions)
    assert read_model("meta-llama/Llama-3.1-8B").assumptions == ()


def test_known_shapes():
    llama = read_model("llama-3.1-8b")
    assert (llama.num_layers, llama.hidden_size, llama.num_key_value_heads, llama.max_sequence_length) == (
        32,
        4096,
        8,
        131072,
    )
    t5 = read_model("flan-t5-xl")
    assert (t5.kind, t5.num_layers, t5.gated_mlp, t5.tied_embeddings) == ("encoder-decoder", 48, True, False)
    assert read_model("bert-large").kind == "encoder"
    moe = read_model("qwen3-30b-a3b")
    assert (moe.num_experts, moe.num_experts_per_token, moe.intermediate_size) == (128, 8, 768)
    assert moe.num_active_parameters == 3_353_032_704


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("lama-3-8b", "nearest: llama-3-8b"),
        ("zzzzzz", "config.json or a bare size"),
        ("", "empty"),
        ("  ", "empty"),
        ("a\nb", "not a name"),
        ("x" * 5000, "not a name"),
    ],
)
def test_unknown_names_get_a_cure(asked, part):
    with pytest.raises(InputError, match=part):
        read_model(asked)


def test_a_hub_id_that_cannot_be_fetched_is_one_line(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="not in the catalogue") as error:
        read_model("some-owner/some-unheard-of-model")
    assert "\n" not in str(error.value)


def test_tiny_is_the_smoke_tests_model_to_every_command():
    """Not whisper-tiny, the only one of the catalogue with this word."""
    assert read_model("tiny") is TINY
    assert model_source("tiny") is None
    assert TINY.num_parameters == sum(matrices(TINY)) + TINY.num_layers * 2 * TINY.hidden_size + TINY.hidden_size


def matrices(model):
    """Both vocabulary matrices, and those of each block."""
    yield 2 * model.embedding_parameters
    yield model.num_layers * (4 * model.hidden_size**2 + 3 * model.hidden_size * model.intermediate_size)
