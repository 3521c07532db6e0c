"""A model as its modules, in the order in which they compute: what stage 3 gathers, and buckets fill with.

A tree is written as words with their children in parentheses (``mlp(gate act up down)``). Written down from the traces
that DeepSpeed 0.19.8 records of Transformers 5.24's classes (zero/partitioned_param_coordinator.py: record_module).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import ModelSpec

BLOCK, DECODER_BLOCK = "blocks", "decoder_blocks"


class Word(NamedTuple):
    """A module's name, whether its parameters have biases (written ``q+``), and the modules that it calls."""

    name: str
    biased: bool
    children: tuple[Word, ...]


class Layout(NamedTuple):
    """A class of models: one block, what is around the blocks, and where a block registers its normalisations."""

    block: str
    model: str = "model(embed rotary blocks norm) head"
    norms: str = "last"  # or first, or between: where they compute


_GATED: Final = "mlp(gate act up down)"
_PLAIN: Final = "mlp(up+ act down+)"
_LLAMA: Final = Layout(f"norm attention(q k v o) norm {_GATED}")
_MIXTURE: Final = Layout("norm attention(q k v o) norm mlp(router experts)")
_GPT_NEOX: Final = Layout(
    f"norm+ attention(qkv+ o+) drop norm+ {_PLAIN} drop", "model(embed drop rotary blocks norm+) head", "first"
)
_GPT2: Final = Layout(
    "norm+ attention(qkv+ o+ drop) norm+ mlp(up+ act down+ drop)",
    "model(embed positions drop blocks norm+) head",
    "between",
)
_BERT: Final = Layout(
    "attention(self(q+ k+ v+) output(o+ drop norm+)) intermediate(up+ act) output(down+ drop norm+)",
    "model(embeddings(embed types positions norm+ drop) encoder(blocks)) "
    "heads(head_bias(transform(dense+ act norm+) head))",
    "between",
)
_T5_SELF: Final = "self(norm attention(q k v position_bias o) drop)"
_T5_MLP: Final = "feed_forward(norm mlp(gate act up drop down) drop)"
_T5: Final = Layout(
    f"{_T5_SELF} {_T5_MLP}",
    "encoder(embed drop blocks norm drop) decoder(embed drop decoder_blocks norm drop) head",
    "between",
)
_LAYOUTS: Final = {
    "qwen2": Layout(f"norm attention(q+ k+ v+ o) norm {_GATED}"),
    "qwen2_moe": Layout("norm attention(q+ k+ v+ o) norm moe"),
    "qwen3": Layout(f"norm attention(q head_norm k head_norm v o) norm {_GATED}"),
    "qwen3_moe": Layout("norm attention(q head_norm k head_norm v o) norm moe_router_last"),
    "mixtral": Layout("norm attention(q k v o) norm moe"),
    "gemma2": Layout(f"norm attention(q k v o) norm norm {_GATED} norm"),
    "gemma3_text": Layout(f"norm attention(q k v head_norm head_norm o) norm norm {_GATED} norm"),
    "phi3": Layout("norm attention(qkv o) drop norm mlp(gate_up act down) drop"),
    "phi": Layout(f"norm+ attention(q+ k+ v+ o+) drop {_PLAIN} drop", "model(embed drop rotary blocks norm+) head+"),
    "glm": Layout("norm attention(q+ k+ v+ o) norm mlp(gate_up act down)"),
    "glm4": Layout("norm attention(q+ k+ v+ o) norm norm mlp(gate_up act down) norm"),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neox": _GPT_NEOX,
    "codegen": Layout(
        f"norm+ attention(qkv o drop) {_PLAIN[:-1]} drop)", "model(embed drop rotary blocks norm+) head+", "first"
    ),
    "opt": Layout(
        "norm+ attention(q+ k+ v+ o+) norm+ up+ act down+", "model(embed positions blocks norm+) head", "between"
    ),
    "bloom": Layout(f"norm+ attention(qkv+ drop o+) norm+ {_PLAIN}", "model(embed norm+ blocks norm+) head", "between"),
    "mpt": Layout("norm attention(qkv o) drop norm mlp(up act down)", "model(embed blocks norm) head", "between"),
    "starcoder2": Layout(f"norm+ attention(q+ k+ v+ o+) norm+ {_PLAIN}", "model(embed rotary blocks norm+) head"),
    "stablelm": Layout(f"norm+ attention(q k v o) norm+ {_GATED} drop", "model(embed rotary blocks norm+) head"),
    "olmo2": Layout(f"attention(q query_norm k key_norm v o) norm {_GATED} norm"),
    "cohere": Layout(f"norm attention(q k v o) {_GATED}"),
    "gpt_oss": Layout("norm attention_sinks(q+ k+ v+ o+) norm mlp(router+ experts+)"),
    "bert": _BERT,
    "roberta": _BERT,
    "t5": _T5,
}
_SAME: Final = {"gemma3": "gemma3_text", "olmo3": "olmo2", "exaone4": "olmo2", "distilbert": "bert"}
# the linear layers that adapters go beside (peft: all-linear), and those that PyTorch's autocast casts
ADAPTED: Final = frozenset({"q", "k", "v", "o", "qkv", "gate", "up", "gate_up", "down"})
LINEAR: Final = ADAPTED | {"head", "dense"}
NORMS: Final = frozenset({"norm", "head_norm", "query_norm", "key_norm"})
# DeepSpeed gathers them whole (zero/leaf_module_config.py)
LEAVES: Final = frozenset({"moe", "moe_router_last"})


@lru_cache
def layout_of(model: ModelSpec) -> Layout:
    """A model's layout; one that is not known is taken as Llama, Mixtral, or without a gate as GPT-NeoX."""
    layout = _class_layout(model)
    return layout if model.gated_mlp else layout._replace(block=layout.block.replace("gate act up", "up act"))


def _class_layout(model: ModelSpec) -> Layout:
    name = model.architecture.lower().replace("-", "_")
    name = _SAME.get(name, name)
    if name in _LAYOUTS:
        return _LAYOUTS[name]
    if model.kind != "decoder":
        return _BERT if model.kind == "encoder" else _T5
    if model.num_experts:
        return _MIXTURE
    return _LLAMA if model.gated_mlp else _GPT_NEOX


@lru_cache
def words(text: str) -> tuple[Word, ...]:
    """The words of a tree. ``mlp(up+ down)``: mlp with up, which has a bias, and down."""
    parts = iter(re.findall(r"[\w+]+|[()]", text))

    def level() -> Iterator[Word]:
        pending = ""
        for part in parts:
            if part == "(":
                yield _word(pending, tuple(level()))
                pending = ""
                continue
            if pending:
                yield _word(pending, ())
            if part == ")":
                return
            pending = part
        if pending:
            yield _word(pending, ())

    return tuple(level())


def _word(name: str, children: tuple[Word, ...]) -> Word:
    return Word(name.rstrip("+"), name.endswith("+"), children)


def leaf_names(tree: tuple[Word, ...]) -> list[str]:
    """The names of the words without children, in order. ``attention(q k) norm``: q, k, norm."""
    return [name for word in tree for name in (leaf_names(word.children) if word.children else [word.name])]


def matrix(model: ModelSpec, name: str) -> tuple[int, int]:
    """Rows and columns of a linear layer's weight, as torch has them: outputs, inputs."""
    size, inner, query, key = model.hidden_size, model.intermediate_size, model.query_size, model.key_value_size
    return {
        "q": (query, size),
        "k": (key, size),
        "v": (key, size),
        "o": (size, query),
        "qkv": (query + 2 * key, size),
        "gate": (inner, size),
        "up": (inner, size),
        "gate_up": (2 * inner, size),
        "down": (size, inner),
        "dense": (size, size),
        "head": (model.vocab_size, size),
    }[name]


def weights(model: ModelSpec, word: Word) -> tuple[int, ...]:
    """Elements of a module's own parameters, in the order in which its class registers them."""
    size, name = model.hidden_size, word.name
    if name in LINEAR:
        rows, columns = matrix(model, name)
        return (rows * columns, rows) if word.biased else (rows * columns,)
    if name in LEAVES or name in ("router", "experts"):
        return _mixture(model, word)
    positions = model.max_sequence_length or 0
    extra = 2 if model.architecture == "opt" else 0
    rows = {
        "norm": 1,
        "embed": model.vocab_size,
        "positions": positions + extra,
        "types": 2,
    }.get(name, 0)
    other = {
        "head_norm": model.head_dim,
        "query_norm": model.query_size,
        "key_norm": model.key_value_size,
        "position_bias": 32 * model.num_attention_heads,
        "attention_sinks": model.num_attention_heads,
        "head_bias": model.vocab_size,
    }.get(name, rows * size)
    return (other,) * (2 if word.biased else 1) if other else ()


def _mixture(model: ModelSpec, word: Word) -> tuple[int, ...]:
    """A mixture's router and experts: gates and up projections in one parameter, down projections in another."""
    size, inner, experts = model.hidden_size, model.intermediate_size, model.num_experts
    gates = 2 if model.gated_mlp else 1
    router, first, second = experts * size, experts * gates * inner * size, experts * inner * size
    if word.name == "router":
        return (router, experts) if word.biased else (router,)
    if word.name == "experts":
        return (first, experts * gates * inner, second, experts * size) if word.biased else (first, second)
    return (router, first, second) if word.name == "moe" else (first, second, router)


def shared_expert(model: ModelSpec, elements: int) -> tuple[int, ...]:
    """Three matrices and a gate of one row (models/qwen2_moe/modeling_qwen2_moe.py: Qwen2MoeSparseMoeBlock)."""
    matrix_elements = (elements - model.hidden_size) // 3
    if matrix_elements < model.hidden_size:
        return (elements,)
    return (*(matrix_elements,) * 3, elements - 3 * matrix_elements)
