"""ZC265-ZC269: compilation, experts, rollouts, measuring and data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import number, offload_device, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

_MOVES = ("offload_activation", "offload_parameters", "offload_opt_states")


@rule("ZC265", "compile-settings", severity="error")
def compile_settings(config: DsConfig) -> Iterator[Problem]:
    """The compile block asks for what excludes each other.

    engine.compile() refuses offload_opt_states beside an offloaded optimizer, offload_activation beside the other two
    (compile/init_z3.py), the autotp pass beside others (runtime/engine.py, get_deepspeed_compile_backend) and
    autoep_non_moe beside DeepCompile, stage 3, tensor parallelism or offload. DeepCompile at stage 0 falls back to
    torch.compile, and without deepcompile its settings do nothing.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "compile": {"deepcompile": true, "offload_activation": true, "offload_parameters": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "compile": {"deepcompile": true, "offload_activation": true}}
        ```
    """
    block = config.path("compile")
    moves = [key for key in _MOVES if config.is_on("compile", key)]
    is_deep = config.is_on("compile", "deepcompile")
    if config.is_on("compile", "autoep_non_moe"):
        yield from _autoep_non_moe(config)
    if not is_deep:
        if moves:
            yield Problem(
                f"{', '.join(moves)} {'do' if len(moves) > 1 else 'does'} nothing without deepcompile",
                (*block, moves[0]),
                on_key=True,
                severity="info",
            )
        return
    if config.stage == 0:
        yield Problem(
            "DeepCompile needs ZeRO: at stage 0 engine.compile() falls back to torch.compile",
            (*block, "deepcompile"),
            severity="warning",
        )
    passes = config.get("compile", "passes", default=[])
    if isinstance(passes, list) and "autotp" in passes and any(one in passes for one in ("autosp", "z1", "z3")):
        yield Problem("the autotp pass runs by itself only", (*block, "passes"))
    if config.stage != 3:
        return
    if "offload_opt_states" in moves and offload_device(config, "offload_optimizer") != "none":
        yield Problem(
            "offload_opt_states and offload_optimizer both move the optimizer's states; keep one",
            (*block, "offload_opt_states"),
            on_key=True,
        )
    elif "offload_activation" in moves and len(moves) > 1:
        yield Problem(
            f"offload_activation excludes {' and '.join(moves[1:])}", (*block, "offload_activation"), on_key=True
        )
    elif "offload_parameters" in moves and "offload_opt_states" in moves:
        yield Problem("offload_parameters excludes offload_opt_states", (*block, "offload_parameters"), on_key=True)


def _autoep_non_moe(config: DsConfig) -> Iterator[Problem]:
    offloads = any(offload_device(config, name) != "none" for name in ("offload_optimizer", "offload_param"))
    reasons = [
        (config.is_on("compile", "deepcompile"), "DeepCompile"),
        (config.stage == 3, "stage 3"),
        ((whole(config, "tensor_parallel", "autotp_size") or 0) > 1, "tensor parallelism"),
        (offloads, "offload"),
        (config.get("expert_parallel", "comm_backend", default="comm") != "comm", "another comm_backend than comm"),
    ]
    for applies, reason in reasons:
        if applies:
            yield Problem(f"autoep_non_moe excludes {reason}", config.path("compile", "autoep_non_moe"), on_key=True)
            return


@rule("ZC266", "expert-parallel-settings", severity="error")
def expert_parallel_settings(config: DsConfig) -> Iterator[Problem]:
    """The expert_parallel block asks for what excludes each other.

    The engine stops with the reason (module_inject/auto_ep_config.py, validate_autoep_config;
    module_inject/auto_ep_folding.py, validate_folding_global): expert tensor parallelism is not there yet, DeepEP needs
    a token limit, and AutoEP with AutoTP excludes DeepCompile, offload and one-rank experts.

    Example:
        ```json
        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 8, "comm_backend": "deepep"}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 8, "comm_backend": "deepep",
         "comm_max_tokens_per_rank": 8192}}
        ```
    """
    if not config.enabled("expert_parallel"):
        return
    for applies, key, message in _expert_conflicts(config):
        if applies:
            yield Problem(message, config.path("expert_parallel", key))
            return


def _expert_conflicts(config: DsConfig) -> Iterator[tuple[bool, str, str]]:
    """In the order in which the engine asks."""
    block = "expert_parallel"
    experts = whole(config, block, "autoep_size") if config.has(block, "autoep_size") else 1
    tensor = whole(config, "tensor_parallel", "autotp_size") or 0
    inner = whole(config, block, "expert_tensor_parallel_size") or 1
    backend = config.get(block, "comm_backend", default="comm")
    offloads = any(offload_device(config, name) != "none" for name in ("offload_optimizer", "offload_param"))
    fused_sum = config.get(block, "combine_impl") == "fused_weighted_sum"
    folded = tensor > 1
    names = [config.get(name, "preset_model") for name in ("tensor_parallel", block)]
    limit, of = (number(config, block, key) for key in ("num_limited_groups", "num_expert_groups"))
    yield folded and fused_sum, "combine_impl", "fused_weighted_sum excludes tensor parallelism"
    yield (
        fused_sum and backend == "deepep" and experts != 1,
        "combine_impl",
        "fused_weighted_sum excludes comm_backend deepep, which reduces by itself",
    )
    yield folded and config.is_on("compile", "deepcompile"), "enabled", "AutoEP with AutoTP excludes DeepCompile"
    yield inner > 1, "expert_tensor_parallel_size", "expert tensor parallelism is not supported yet; use 1"
    yield (
        None not in names and names[0] != names[1],
        "preset_model",
        "tensor_parallel and expert_parallel name different presets",
    )
    yield folded and experts == 1, "autoep_size", "AutoEP with AutoTP needs autoep_size above 1"
    yield (
        folded and config.is_on("use_data_before_expert_parallelism"),
        "enabled",
        "AutoEP with AutoTP excludes use_data_before_expert_parallelism",
    )
    yield folded and offloads, "enabled", "AutoEP with AutoTP excludes offload"
    yield (
        config.get(block, "gate_up_impl") == "fused" and config.get(block, "use_grouped_mm") is False,
        "gate_up_impl",
        'gate_up_impl "fused" needs use_grouped_mm',
    )
    fused_rows = config.get(block, "row_weighting_impl") == "fused"
    yield (
        fused_rows and backend != "deepep",
        "row_weighting_impl",
        'row_weighting_impl "fused" needs comm_backend deepep',
    )
    yield fused_rows and experts == 1, "row_weighting_impl", 'row_weighting_impl "fused" needs autoep_size above 1'
    yield (
        backend == "deepep" and not config.get(block, "comm_max_tokens_per_rank", default=0),
        "comm_backend",
        "comm_backend deepep needs comm_max_tokens_per_rank, the tokens that one rank can route",
    )
    yield (
        limit is not None and of is not None and limit > of,
        "num_limited_groups",
        "num_limited_groups is more than num_expert_groups",
    )


@rule("ZC267", "graphs-for-rollouts", severity="warning")
def graphs_for_rollouts(config: DsConfig) -> Iterator[Problem]:
    """The hybrid engine runs without the CUDA graphs asked for.

    It warns and goes on without them at stage 3, with release_inference_cache, and with inference_tp_size above 1
    (runtime/hybrid_engine_graph.py, validate_cuda_graph_support).

    Example:
        ```json
        {"train_batch_size": 8, "hybrid_engine": {"enabled": true, "enable_cuda_graph": true},
         "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "hybrid_engine": {"enabled": true, "enable_cuda_graph": true},
         "zero_optimization": {"stage": 2}}
        ```
    """
    block = "hybrid_engine"
    if not config.enabled(block) or not config.is_on(block, "enable_cuda_graph"):
        return
    reasons = [
        (config.stage == 3, "stage 3"),
        (config.is_on(block, "release_inference_cache"), "release_inference_cache"),
        ((whole(config, block, "inference_tp_size") or 1) > 1, "inference_tp_size above 1"),
    ]
    for applies, reason in reasons:
        if applies:
            yield Problem(f"no CUDA graphs with {reason}", config.path(block, "enable_cuda_graph"), on_key=True)
            return


@rule("ZC268", "measuring-costs", severity="info")
def measuring_costs(config: DsConfig) -> Iterator[Problem]:
    """What measures the run slows it down.

    wall_clock_breakdown synchronises the GPU around forward, backward and step, flops_profiler switches it on too
    (runtime/config.py) and profiles a step, comms_logger times each collective, memory_breakdown and dump_state print
    at each stage of the engine. Good for a trial, not for the run.

    Example:
        ```json
        {"train_batch_size": 8, "wall_clock_breakdown": true}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "wall_clock_breakdown": false}
        ```
    """
    costs = {
        ("wall_clock_breakdown",): "synchronises the GPU in each micro step",
        ("flops_profiler", "enabled"): "profiles a step and switches wall_clock_breakdown on",
        ("comms_logger", "enabled"): "times each collective",
        ("memory_breakdown",): "asks for the memory at each stage of the engine",
    }
    for steps, cost in costs.items():
        if config.is_on(*steps):
            yield Problem(f"{steps[0]} {cost}; switch it off for the run itself", config.path(*steps))


@rule("ZC269", "data-efficiency-settings", severity="error")
def data_efficiency_settings(config: DsConfig) -> Iterator[Problem]:
    """data_efficiency is switched on without what it works by.

    "Curriculum learning is enabled, curriculum_metrics must be specified", and "Dynamic batching is enabled, so
    max_tokens must be specified" (runtime/data_pipeline/config.py); both are asked for even where data_efficiency or
    data_sampling is off.

    Example:
        ```json
        {"train_batch_size": 8,
         "data_efficiency": {"enabled": true, "data_sampling": {"curriculum_learning": {"enabled": true}}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "data_efficiency": {"enabled": true, "data_sampling": {"curriculum_learning": {
         "enabled": true, "curriculum_metrics": {"seqlen": {}}}}}}
        ```
    """
    needs = {"curriculum_learning": "curriculum_metrics", "dynamic_batching": "max_tokens"}
    for name, key in needs.items():
        steps = ("data_efficiency", "data_sampling", name)
        if config.is_on(*steps, "enabled") and not config.has(*steps, key):
            yield Problem(f"{name} needs {key}; DeepSpeed stops without it", config.path(*steps), on_key=True)
