"""The rates by which a smoke test takes what it took: of the card or the host that it waits for, and of CPU Adam."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeroconf.errors import InputError
from zeroconf.estimate.compute import host_seconds, product_seconds_at_peak, trained_in_blocks
from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.sizes import sizes as sizes_of
from zeroconf.estimate.tensors import model_tensors
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.versions import read_versions
from zeroconf.plan.ran import Shapes, workload_and_plan
from zeroconf.rates import RATES, Rates
from zeroconf.types import ModelSpec
from zeroconf.units import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.types import Cluster, Estimate, Plan, Versions, Workload

# another plan has other shapes than the one that ran, however alike its steps were
_LEAST_ERROR: Final = 0.05
# beyond these no run is described, and arithmetic would fail
_MOST_PARAMETERS: Final = 10**15
_MOST: Final = 10**7
# parameters over the elements of the matrices, or the other way: 0.51 to 1.17 in the catalogue
_OFF: Final = 4
_HOST_OPTIMIZER: Final = "DeepSpeedCPUAdam"
# times the predicted seconds, and shares of their median that steps lie apart: beyond these it was not the hardware
_SLOWEST: Final = 20
_WIDEST: Final = 2
_ELSEWHERE: Final = "something else held it up (another job, swapping, a breakpoint); measure again"


class Timed(NamedTuple):
    """Seconds of the steps that count: their median, and how far from it the farthest is."""

    median: float
    spread: float
    number: int


class Run(NamedTuple):
    """What ran, in the estimate's terms, and what it took; ``optimizer`` is the name of its class."""

    model: ModelSpec
    workload: Workload
    plan: Plan
    versions: Versions
    optimizer: str
    step: Timed
    update: Timed


def read_run(values: Mapping[str, Any], where: str) -> Run:
    """The run of a smoke test's JSON.

    Raises:
        InputError: it does not say what ran, or timed too few steps.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  (for this file only)

    step, update = (_timed(values, name, where) for name in ("step_seconds", "update_seconds"))
    facts, environment = values["facts"], values["environment"]
    fields = {name: value for name, value in facts["architecture"].items() if name in ModelSpec.__slots__}
    try:
        model = TypeAdapter(ModelSpec).validate_python(fields)
        ran = dict(environment["ds_config"])
        micro, accumulation = (
            TypeAdapter(int).validate_python(environment[name])
            for name in ("micro_batch_size", "gradient_accumulation_steps")
        )
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        msg = f"{where}: it does not say what ran: the model's shape, its configuration and batch"
        raise InputError(msg) from error
    _check_range(model, (micro, accumulation, facts["sequence_length"], facts["world_size"]), where)
    _check_agreement(values, ran, (micro, accumulation), where)
    job = Shapes(
        sequence_length=facts["sequence_length"],
        micro_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        activation_checkpointing=facts["activation_checkpointing"],
        attention=facts["attention"],
        lora_rank=facts["lora_rank"],
        zero_init=facts["zero_init"],
        world_size=facts["world_size"],
    )
    trainable = with_lora(model, job.lora_rank) if job.lora_rank else None
    versions = read_versions(deepspeed=str(environment.get("deepspeed")))
    workload, plan = workload_and_plan(job, parse_config(ran, where), trainable)
    return Run(model, workload, plan, versions, str(environment.get("optimizer")), step, update)


def _check_agreement(values: Mapping[str, Any], ran: Mapping[str, Any], batch: tuple[int, int], where: str) -> None:
    """Refuses a run whose parts tell different things.

    Raises:
        InputError: ranks are missing, or the configuration has another batch than the environment.
    """
    ranks, world_size = len(values["ranks"]), values["facts"]["world_size"]
    if ranks != world_size:
        msg = f"{where}: it has figures of {ranks} ranks, and ran on {world_size}; take the file as it was printed"
        raise InputError(msg)
    for key, size in zip(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), batch, strict=True):
        stated = ran.get(key, size)
        if isinstance(stated, int) and stated != size:
            msg = f"{where}: its configuration has {key} {stated}, and {size} ran; take the file as it was printed"
            raise InputError(msg)


def _check_range(model: ModelSpec, batch: tuple[int, ...], where: str) -> None:
    """Refuses what no run has.

    Raises:
        InputError: a size is not positive, or absurd.
    """
    heads = (model.num_attention_heads, model.num_key_value_heads, model.head_dim)
    sizes = (model.num_layers, model.hidden_size, model.intermediate_size, model.vocab_size, *heads, *batch)
    parameters = (model.num_parameters, model.num_active_parameters)
    experts = (model.num_experts, model.num_experts_per_token)
    if (
        all(0 < size <= _MOST for size in sizes)
        and all(0 < size <= _MOST_PARAMETERS for size in parameters)
        and all(0 <= size <= _MOST for size in experts)
    ):
        _check_parameters(model, where)
        return
    msg = f"{where}: its model or batch has a size that no run has"
    raise InputError(msg)


def _check_parameters(model: ModelSpec, where: str) -> None:
    """Refuses a number of parameters that is not its matrices'.

    Raises:
        InputError: it is several times too small or too large.
    """
    in_matrices = sum(model_tensors(model))
    if in_matrices / _OFF <= model.num_parameters <= in_matrices * _OFF:
        return
    told = f"{model.num_parameters:,} parameters, and its matrices have {in_matrices:,} elements"
    msg = f"{where}: its model is said to have {told}; measure again"
    raise InputError(msg)


def _timed(values: Mapping[str, Any], name: str, where: str) -> Timed:
    """All steps but the first, which also fills caches; of the ranks the slowest, for which the others wait."""
    slowest = [max(times) for times in zip(*(rank[name] for rank in values["ranks"]), strict=False)][1:]
    if not slowest or not all(0 < one < _MOST for one in slowest):
        msg = f"{where}: no step was timed after the first, which warms up; run it with --steps 6"
        raise InputError(msg)
    median = statistics.median(slowest)
    spread = max(abs(one / median - 1) for one in slowest)
    if spread > _WIDEST:
        msg = f"{where}: its steps took {seconds(min(slowest))} to {seconds(max(slowest))}: {_ELSEWHERE}"
        raise InputError(msg)
    return Timed(median, spread, len(slowest))


def fitted(run: Run, node: Cluster, where: str) -> Rates:
    """The rates by which the run takes what it took on ``node``.

    The slower of card and host decides, and is known by it; of the other one it shows that it takes no longer.

    Raises:
        InputError: it took less than what is not fitted, or its optimizer on the host is not CPU Adam.
    """
    cost = estimate(run.model, node, run.workload, run.plan, run.versions)
    expected, rates, adam = cost.step.total_seconds, RATES, ""
    if run.plan.offload_optimizer != "none":
        rates, adam = _host_optimizer(run, node, cost, where)
        cost = estimate(run.model, node, run.workload, run.plan, run.versions, rates)
    card = cost.step.compute_seconds
    host = run.plan.gradient_accumulation_steps * host_seconds(run.model, run.workload, run.plan, RATES)
    work = run.step.median - (cost.step.total_seconds - max(card, host))
    took = f"a step took {seconds(run.step.median)}"
    _check_possible(run, node, work, f"{where}: {took}")
    if run.update.median > run.step.median:
        msg = f"{where}: {took}, its update {seconds(run.update.median)}; take the file as it was printed"
        raise InputError(msg)
    if work > _SLOWEST * max(card, host):
        msg = f"{where}: {took}, {seconds(expected)} are predicted: {_ELSEWHERE}"
        raise InputError(msg)
    error = max(run.step.spread, _LEAST_ERROR)
    if card >= host or work < card:
        rates = replace(rates, compute_factor=work / card, compute_error=error)
    if host > card or work < host:
        rates = replace(
            rates,
            host_pass_seconds=rates.host_pass_seconds * work / host,
            stage_3_fetch_seconds=rates.stage_3_fetch_seconds * work / host,
            host_error=error,
        )
    who, share = ("the card", work / card) if card >= host else ("the host", work / host)
    spread = f"{run.step.number} steps within {run.step.spread:.0%}" if run.step.number > 1 else "one step was timed"
    unseen = "" if card >= host else "; the card waits for the host in it and was not measured"
    told = f"{who} takes {share:.3g} x the predicted time: {took}, {seconds(expected)} predicted"
    return replace(rates, measured=f"{told} ({where}, {spread}){adam}{unseen}")


def _check_possible(run: Run, node: Cluster, work: float, took: str) -> None:
    """Whether what is left of the step for ``work`` is time enough for the card, and the step itself is.

    Raises:
        InputError: even at its peak the card needs longer.
    """
    least = product_seconds_at_peak(run.model, node.gpu, run.workload, run.plan)
    if run.step.median < least:
        msg = f"{took}; that would be {least / run.step.median:.2g} times the peak of {node.gpu.name}: "
        msg += "its matrix products alone take longer than that; measure again, or correct the inventory's peak"
        raise InputError(msg)
    if work < least:
        others = "communication, hooks, offload and optimizer"
        msg = f"{took}, less than the {seconds(run.step.median - work)} predicted for {others}"
        msg += f" and the card's products at its peak, {seconds(least)}; "
        msg += "measure the links (zeroconf detect --measure-network)"
        raise InputError(msg)


def _host_optimizer(run: Run, node: Cluster, cost: Estimate, where: str) -> tuple[Rates, str]:
    """CPU Adam's rate, of what the update took beside copying weights up, gathering them and hooks; and the words."""
    if run.optimizer != _HOST_OPTIMIZER:
        msg = f"{where}: {run.optimizer} ran on the host, not {_HOST_OPTIMIZER}, whose rate counts; measure with that"
        raise InputError(msg)
    plan, sizes = run.plan, sizes_of(run.model, node, run.workload, run.plan, run.versions)
    rest = trained_in_blocks(run.model, run.workload) * RATES.step_hook_seconds
    if plan.offload_param == "none":
        rest += sizes.element_bytes * sizes.shard / node.gpu.host_link_bytes_per_second
    if plan.stage < 3:
        rest += sum(one.seconds for one in cost.traffic.per_collective if one.collective == "all-gather")
    spent = run.update.median - rest
    if spent <= 0:
        took = f"the update took {seconds(run.update.median)}, less than the {seconds(rest)} predicted for its copies"
        msg = f"{where}: {took}; measure the links (zeroconf detect --measure-network)"
        raise InputError(msg)
    rate = sizes.shard * node.gpus_per_node / spent
    if rate * _SLOWEST < RATES.cpu_adam_per_second:
        msg = f"{where}: the update took {seconds(run.update.median)}: {_ELSEWHERE}"
        raise InputError(msg)
    low = rate / (1 + max(run.update.spread, _LEAST_ERROR))
    words = f", CPU Adam updates {rate / 1e9:.3g}e9 parameters a second, not {RATES.cpu_adam_per_second / 1e9:.3g}e9"
    return replace(RATES, cpu_adam_per_second=rate, low_cpu_adam_per_second=low), words
