"""ZC291-ZC292: classes of torch.optim that do not start, or cannot step, as DeepSpeed calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.optimizer import CANNOT_STEP, TORCH
from zeroconf.rules.values.optimizer_params import class_built
from zeroconf.rules.values.settings import number, optimizer_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

# what the constructors of torch.optim refuse below 0, wherever they take it
_NOT_NEGATIVE = ("lr", "eps", "weight_decay", "momentum", "lr_decay", "initial_accumulator_value", "momentum_decay")


@rule("ZC291", "torch-optimizer-bounds", severity="error")
def torch_optimizer_bounds(config: DsConfig) -> Iterator[Problem]:
    """A class of torch.optim does not take this number.

    The constructors of torch.optim check what FusedAdam does not: "Invalid beta parameter at index 1: 1.0", "Invalid
    learning rate: -1" (torch/optim/adam.py, Adam.__init__). AdamW with torch_adam, Adagrad without offload and the
    types named after a class of torch.optim are built by them (runtime/engine.py, _configure_basic_optimizer).

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 1.0], "torch_adam": true}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.99], "torch_adam": true}}}
        ```
    """
    name = _torch_class(config)
    if not name:
        return
    for key in _NOT_NEGATIVE:
        value = number(config, "optimizer", "params", key)
        if value is not None and value < 0:
            path = config.path("optimizer", "params", key)
            yield Problem(f"torch's {name} takes no negative {key}, and stops on {value:g}", path)
    betas = config.get("optimizer", "params", "betas")
    for index, beta in enumerate(betas if isinstance(betas, list) else ()):
        if isinstance(beta, (int, float)) and not 0 <= beta < 1:
            path = config.path("optimizer", "params", "betas", index)
            yield Problem(f"torch's {name} takes betas from 0 to below 1, and stops on {float(beta):g}", path)


@rule("ZC292", "optimizer-that-cannot-step", severity="error")
def optimizer_that_cannot_step(config: DsConfig) -> Iterator[Problem]:
    """DeepSpeed builds this optimizer, and its first step fails.

    The engine calls step() without a closure (runtime/engine.py, _take_model_step), which LBFGS needs: "missing 1
    required positional argument: 'closure'". SparseAdam "does not support dense gradients"
    (torch/optim/sparse_adam.py), and ZeRO's flat gradients are dense; at stage 0, where a model of sparse embeddings
    alone could do, it is a warning.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "LBFGS", "params": {"lr": 0.1}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
        ```
    """
    name = optimizer_type(config)
    if name in CANNOT_STEP:
        yield Problem(
            f"{name} fails in the first step: {CANNOT_STEP[name]}",
            config.path("optimizer", "type"),
            severity="warning" if name == "SparseAdam" and not config.stage else None,
        )


def _torch_class(config: DsConfig) -> str:
    """The class of torch.optim that the file's optimizer becomes; empty where it becomes none."""
    name, made = optimizer_type(config), class_built(config)
    if made is not None:
        return made.name.removeprefix("torch's ") if made.name.startswith("torch's ") else ""
    return name if name in TORCH else ""
