"""ZC246: ZenFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.facts import AUTO
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import offload_device, optimizer_type, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

# what ZenFlowSelectiveAdamW, a torch AdamW, does not take
_NOT_TORCH = ("bias_correction", "torch_adam", "adam_w_mode", "fp32_optimizer_states", "set_grad_none")


@rule("ZC246", "zenflow-settings", severity="error")
def zenflow_settings(config: DsConfig) -> Iterator[Problem]:
    """ZenFlow stands where it cannot work, or its settings contradict each other.

    It needs ZeRO with an optimizer that the file names and offloads; its selective optimizer takes the parameters of
    torch's AdamW (runtime/zenflow/zenflow_stage_1_and_2.py). select_strategy "auto" excludes a select_interval, the
    others need one, not below update_interval (runtime/zenflow/engine.py, configure_zenflow), and offload needs
    overlap_comm.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "zenflow": {"topk_ratio": 0.1}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}}, "zero_optimization": {
         "stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow": {"topk_ratio": 0.1}}}
        ```
    """
    node = config.node("zero_optimization", "zenflow")
    if node is None or node.kind != "mapping" or config.stage is None:
        return
    path = config.path("zero_optimization", "zenflow")
    yield from _surroundings(config)
    strategy, interval = (config.zero("zenflow", key, default=AUTO) for key in ("select_strategy", "select_interval"))
    update = whole(config, "zero_optimization", "zenflow", "update_interval")
    selected = whole(config, "zero_optimization", "zenflow", "select_interval")
    if strategy == AUTO and selected is not None:
        yield Problem('select_interval needs select_strategy "step" or "epoch"', (*path, "select_interval"))
    elif strategy in ("step", "epoch") and interval == AUTO:
        yield Problem(f'select_strategy "{strategy}" needs a select_interval', (*path, "select_strategy"))
    elif strategy == "step" and selected and update and selected < update:
        yield Problem(f"select_interval {selected} is below update_interval {update}", (*path, "select_interval"))
    by_default = config.stage == 3 and config.zero("overlap_comm", default=AUTO) == AUTO
    overlaps = by_default or config.is_on("zero_optimization", "overlap_comm")
    if config.is_on("zero_optimization", "zenflow", "offload") and config.stage and not overlaps:
        yield Problem("zenflow.offload needs overlap_comm true", (*path, "offload"))
    steps = whole(config, "gradient_accumulation_steps")
    if steps is not None and update is not None and steps != update:
        yield Problem(
            f"ZenFlow replaces gradient_accumulation_steps {steps} by its update_interval {update}",
            config.path("gradient_accumulation_steps"),
            severity="info",
        )


def _surroundings(config: DsConfig) -> Iterator[Problem]:
    """What ZenFlow needs around it, one lack at a time."""
    path = config.path("zero_optimization", "zenflow")
    if config.stage == 0:
        yield Problem("zenflow has no effect at stage 0", path, on_key=True)
    elif offload_device(config, "offload_optimizer") == "none":
        yield Problem(
            "ZenFlow works on an offloaded optimizer: set offload_optimizer",
            path,
            on_key=True,
            severity=None if config.stage in {1, 2} else "warning",
        )
    elif config.stage in {1, 2} and optimizer_type(config) is None:
        yield Problem("ZenFlow takes its parameters from the optimizer block, and there is none", path, on_key=True)
    elif config.stage in {1, 2}:
        for key in _NOT_TORCH:
            if config.has("optimizer", "params", key):
                yield Problem(
                    f"ZenFlow's selective AdamW takes no {key}", config.path("optimizer", "params", key), on_key=True
                )
