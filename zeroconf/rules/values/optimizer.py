"""ZC220-ZC222, ZC227, ZC228: the optimizer that the file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.names import meant_type
from zeroconf.rules.values.settings import is_off, number, optimizer_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Release, Releases
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.registry import Severity

_OWN = ("Adam", "AdamW", "Adagrad", "Lamb", "Lion", "Muon", "MuAdam", "MuAdamW", "MuSGD")
_ONE_BIT = {"onebitadam", "zerooneadam", "onebitlamb"}
_ONE_BIT_UNTIL = (0, 19, 6)
_MUON_SINCE = (0, 17, 6)
# torch.optim of PyTorch 2.13, less what DeepSpeed reads as its own
TORCH = {
    *("ASGD", "Adadelta", "Adafactor", "Adamax", "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam"),
}
# of them those that fail as DeepSpeed calls them, and why
CANNOT_STEP = {
    "LBFGS": "it needs a closure, and DeepSpeed calls step() without",
    "SparseAdam": "it takes sparse gradients only, and DeepSpeed's are dense",
}
# DeepSpeed's classes, which are no types
_CLASSES = {
    **dict.fromkeys(("fusedadam", "deepspeedcpuadam"), "AdamW"),
    **dict.fromkeys(("fusedlion", "deepspeedcpulion"), "Lion"),
    "deepspeedcpuadagrad": "Adagrad",
    "fusedlamb": "Lamb",
}
# optimizers of other packages whose names are near, and no slips
_OF_OTHERS = {"adai", "adamp", "adan", "sgdp", "sgdw"}
_ZERO_TESTED = {"adam", "adamw", "adagrad", "lion", "muon", "muadam", "muadamw"}


@rule("ZC220", "unknown-optimizer", severity="error")
def unknown_optimizer(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """DeepSpeed has no optimizer of this name.

    It takes its own names in any case, and classes of torch.optim as they are written (runtime/engine.py,
    _is_supported_optimizer: "is not a supported DeepSpeed Optimizer"). OneBitAdam, ZeroOneAdam and OneBitLamb are gone
    since 0.19.7 (DeepSpeed#8489); 8-bit and paged ones come from the script, without an optimizer block. FusedAdam and
    DeepSpeedCPUAdam are classes: DeepSpeed chooses them for AdamW by itself. A name with points
    (sat.ops.FusedEmaAdam) is for a framework that builds the optimizer itself, unless `--for` says otherwise.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam", "params": {"lr": 0.001}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
        ```
    """
    name = optimizer_type(config)
    if name is None or _is_known(name, releases.deepspeed) or ("." in name and not reader.stated):
        return
    meant = None
    if name.lower() in _ONE_BIT:
        does = f"{name} went with 0.19.7; use AdamW, or DeepSpeed 0.19.6"
    elif name == "muon":
        does = "Muon came after this release"
    else:
        meant = _meant(name, releases.deepspeed)
        place = "the class of torch.optim" if meant in TORCH else "the type"
        does = f"{place} is {meant}" if meant else f"it has {', '.join(_OWN)} and those of torch.optim"
    path = config.path("optimizer", "type")
    made = edits.replace(config.document, path, meant) if meant else ()
    yield Problem(
        f"DeepSpeed does not know the optimizer {name}: {does}",
        path,
        fix=cure(f"Write {meant}", made, safe=meant is not None and meant.lower() == name.lower()),
    )


@rule("ZC221", "untested-optimizer", severity="error")
def untested_optimizer(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """ZeRO refuses this optimizer without a word of consent.

    "You are using an untested ZeRO Optimizer": stages 1 to 3 take Adam, AdamW, Adagrad, Lion and Muon, any other only
    with zero_allow_untested_optimizer (runtime/engine.py, _do_optimizer_sanity_check; runtime/zero/utils.py). The
    Trainer and Accelerate set that key for optimizers of the script, not for those of the file.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
         "zero_allow_untested_optimizer": true}
        ```
    """
    name = optimizer_type(config)
    if not config.stage or name is None or name in _ZERO_TESTED or not _is_known(name, releases.deepspeed):
        return
    if name in CANNOT_STEP:
        return  # allowed or not, it fails
    if config.get("zero_allow_untested_optimizer", default=False) is False:
        path = config.path("zero_allow_untested_optimizer")
        fix = edits.replace if config.has("zero_allow_untested_optimizer") else edits.insert
        yield Problem(
            f"ZeRO stops with {name} unless zero_allow_untested_optimizer is true",
            config.path("optimizer", "type"),
            fix=cure("Allow it", fix(config.document, path, value=True), safe=False),
        )


@rule("ZC222", "block-without-type", severity="error")
def block_without_type(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """An optimizer or scheduler block without a type does nothing.

    DeepSpeed goes by the type (runtime/config.py, get_optimizer_name and get_scheduler_name): without it the block is
    ignored, the learning rate stays as it is, and a run whose script brings no optimizer stops at its first backward
    pass. An empty block is taken for none, a warning; but with any optimizer block Accelerate and the Trainer take none
    from the script (accelerate/accelerator.py, _prepare_deepspeed).

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"params": {"lr": 0.001}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
        ```
    """
    for block in ("optimizer", "scheduler"):
        node = config.node(block)
        if node is not None and node.kind == "mapping" and config.get(block, "type") is None:
            is_empty = not node.members
            does = f"takes an empty {block} for none" if is_empty else f"ignores {block} without a type"
            is_needed = block == "optimizer" and reader.stated and reader.fills_auto
            severity: Severity | None = "warning" if is_empty and not is_needed else None
            yield Problem(f"DeepSpeed {does}", config.path(block), on_key=True, severity=severity)


@rule("ZC227", "adam-that-is-adamw", severity="info")
def adam_that_is_adamw(config: DsConfig) -> Iterator[Problem]:
    """The type does not decide between Adam and AdamW.

    DeepSpeed's "Adam" decays weights as AdamW does unless adam_w_mode is false, and "AdamW" does so whatever
    adam_w_mode says (runtime/engine.py, _configure_basic_optimizer: ADAM_W_MODE_DEFAULT is true).

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "weight_decay": 0.1}}}
        ```
    """
    name, decay = optimizer_type(config), number(config, "optimizer", "params", "weight_decay")
    is_plain = is_off(config, "optimizer", "params", "adam_w_mode")
    if name == "adamw" and is_plain:
        yield Problem(
            'adam_w_mode false has no effect with "AdamW"; type "Adam" with adam_w_mode false is plain Adam',
            config.path("optimizer", "params", "adam_w_mode"),
            severity="warning",
        )
    elif name == "adam" and decay and not config.has("optimizer", "params", "adam_w_mode"):
        path = config.path("optimizer", "type")
        yield Problem(
            f'"Adam" is AdamW in DeepSpeed: weight_decay {decay:g} is decoupled; write "AdamW", or adam_w_mode false',
            path,
            fix=cure('Write "AdamW"', edits.replace(config.document, path, "AdamW")),
        )


@rule("ZC228", "muon-with-reduce-scatter", severity="error")
def muon_with_reduce_scatter(config: DsConfig) -> Iterator[Problem]:
    """Muon at stage 3 needs whole gradients.

    "Muon and reduce scatter cannot be used together" (runtime/zero/stage3.py, DeepSpeedZeroOptimizer_Stage3): it
    orthogonalises whole matrices, and reduce_scatter is on by default. Quantised gradients, which travel by all-to-all,
    are refused as well.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "optimizer": {"type": "Muon", "params": {"lr": 0.02}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_scatter": false},
         "optimizer": {"type": "Muon", "params": {"lr": 0.02}}}
        ```
    """
    if config.stage != 3 or optimizer_type(config) != "muon":
        return
    path = config.path("zero_optimization", "reduce_scatter")
    if not is_off(config, "zero_optimization", "reduce_scatter"):
        fix = edits.replace if config.has("zero_optimization", "reduce_scatter") else edits.insert
        yield Problem(
            "Muon at stage 3 stops while reduce_scatter is on, its default; set it to false",
            path,
            fix=cure("Switch reduce_scatter off", fix(config.document, path, value=False), safe=False),
        )
    elif config.is_on("zero_optimization", "zero_quantized_gradients"):
        yield Problem(
            "Muon at stage 3 takes no quantised gradients", config.path("zero_optimization", "zero_quantized_gradients")
        )


def _meant(name: str, release: Release) -> str | None:
    if name.lower() in _OF_OTHERS:
        return None
    own = [known for known in _OWN if _is_known(known.lower(), release)]
    return _CLASSES.get(name.lower()) or meant_type(name, (*own, *TORCH))


def _is_known(name: str, release: Release) -> bool:
    if name.lower() in _ONE_BIT:
        return release <= _ONE_BIT_UNTIL
    if name == "muon":
        return release >= _MUON_SINCE
    return name in TORCH or name in {own.lower() for own in _OWN}
