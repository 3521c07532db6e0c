"""ZC2xx: values that contradict each other, or have no effect where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig


@rule("ZC240", "offload-param-below-stage-3", severity="error")
def offload_param_below_stage_3(config: DsConfig) -> Iterator[Problem]:
    """offload_param below stage 3 has no effect.

    DeepSpeed moves parameters to the host only at stage 3 (runtime/engine.py, _configure_zero_optimizer); at the
    other stages the block is parsed and ignored, and the parameters stay on the GPU.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
        ```
    """
    device = config.offload("offload_param")
    if config.stage is not None and config.stage < 3 and device != "none":
        yield Problem(
            f"offload_param to {device} has no effect at stage {config.stage}: only stage 3 offloads parameters",
            config.path("zero_optimization", "offload_param"),
            on_key=True,
        )
