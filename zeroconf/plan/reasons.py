"""Why: the arithmetic behind each chosen value and each rejection, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zeroconf.estimate.links import job_link
from zeroconf.plan.buckets import DEEPSPEED_LIVE, DEEPSPEED_PREFETCH_BUCKET, fill_share
from zeroconf.plan.limits import error_words, host_words, limit_words, peak_words
from zeroconf.plan.search import TIE
from zeroconf.types import Reason
from zeroconf.units import count, gib, gigabits_per_second, gigabytes, ranks_name, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.types import Candidate, Estimate, Facts, Plan

_OFFLOAD_WORDS = {
    "none": "no offload",
    "optimizer": "optimizer on the CPU",
    "all": "optimizer and parameters on the CPU",
    "nvme": "optimizer on NVMe, parameters on the CPU",
}
WITHIN_TIE: Final = f"within {TIE - 1:.0%}"


def title(plan: Plan) -> str:
    """The plan in a few words: ``stage 2, optimizer on the CPU``."""
    words = [f"stage {plan.stage}"]
    if plan.offload != "none":
        words.append(_OFFLOAD_WORDS[plan.offload])
    if plan.zero_hpz_partition_size > 1:
        words.append(f"weights partitioned inside groups of {plan.zero_hpz_partition_size}")
    return ", ".join(words)


def traffic_words(estimate: Estimate) -> str:
    """Each collective's bytes and time: ``3.2 GB all-reduce (gradients, once per step) over 1gbe: 29 s``.

    What is less than a thousandth of all bytes is left out: norms, flags.
    """
    total = estimate.traffic.bytes_per_gpu_per_step
    parts = [
        f"{gigabytes(collective.bytes)} by {collective.collective} ({collective.purpose}) over {collective.link}: "
        f"{seconds(collective.seconds)}"
        for collective in estimate.traffic.per_collective
        if 1000 * collective.bytes >= total
    ]
    return "; ".join(parts) or "nothing to send on one GPU"


def rejection(candidate: Candidate, chosen: Candidate | None, facts: Facts) -> Candidate:
    """The candidate with ``rejected_by`` and ``because`` filled in against the chosen one."""
    if candidate is chosen or chosen is None:
        fits = f"{candidate.estimate.verdict}: {peak_words(candidate.estimate)}"
        return replace(candidate, because=candidate.because or limit_words(candidate.estimate, facts) or fits)
    if candidate.rejected_by is not None:
        return replace(candidate, because=candidate.because or limit_words(candidate.estimate, facts))
    mine, best = (c.estimate.step.seconds_per_sample for c in (candidate, chosen))
    speed = f"{seconds(mine)} per sample against {seconds(best)}"
    if candidate.estimate.verdict == "tight" and chosen.estimate.verdict == "comfortable":
        free = f"leaves less than {facts.workload.headroom:.0%} free"
        return replace(candidate, because=f"tight: {peak_words(candidate.estimate)} {free}; {speed}")
    if mine < best and candidate.plan.offload_param != "none" and chosen.plan.offload_param == "none":
        unsure = "gains less than a fifth on a slow host: published speeds of parameters on the CPU differ many times"
        return replace(candidate, because=f"{unsure}; {speed}")
    if mine <= best and candidate.plan.offload != "none" and chosen.plan.offload == "none":
        because = f"{speed}: the optimizer leaves the card only where that is faster on a slow host, too"
    elif mine <= best:
        because = f"{speed}: {WITHIN_TIE}, and the chosen plan is simpler"
    else:
        because = f"{speed}: {traffic_words(candidate.estimate)}"
    return replace(candidate, rejected_by="slower", because=because)


def reasons(
    facts: Facts, chosen: Candidate, candidates: Sequence[Candidate], searched: Sequence[Candidate]
) -> tuple[Reason, ...]:
    """One reason for each value that the search decided; ``candidates`` are those shown of all that it looked at."""
    plan = chosen.plan
    found = [
        _stage_reason(facts, chosen, candidates),
        *_offload_reasons(facts, chosen, candidates),
        *_batch_reasons(facts, chosen, searched),
    ]
    if plan.stage > 0:
        found += _bucket_reasons(facts, plan)
    if plan.stage == 3:
        found += _stage_3_reasons(facts, plan)
    if plan.stage in (1, 2) and not plan.multi_rank_bucket_allreduce:
        found.append(
            Reason(
                key="zero_optimization.use_multi_rank_bucket_allreduce",
                value=False,
                rule="fewer-bytes",
                because="the default all-reduces every bucket, which sends it twice; a reduce to each owner, once",
            )
        )
    return tuple(found)


def _stage_reason(facts: Facts, chosen: Candidate, candidates: Sequence[Candidate]) -> Reason:
    stage, cost = chosen.plan.stage, chosen.estimate
    key = "zero_optimization.stage"
    speed = "per sample, as measured on this cluster" if facts.rates.measured else "per sample"
    own = f"{peak_words(cost)} is {cost.verdict}; {seconds(cost.step.seconds_per_sample)} {speed}"
    if facts.workload.zero_stage is not None:
        of_base = facts.given is not None and "zero_stage" not in facts.asked
        why = "what the base file's keys go with" if of_base else "asked for by --zero-stage"
        return Reason(key=key, value=stage, rule="pinned", because=f"{why}; {own}")
    lower = [c for c in candidates if c.plan.stage < stage and c.plan.offload == "none"]
    higher = [c for c in candidates if c.plan.stage > stage and c.plan.offload == "none" and c.rejected_by is None]
    words = [own, *(_against(candidate, chosen) for candidate in lower)]
    words += [candidate.because for candidate in candidates if candidate.rejected_by == "release"]
    if higher:
        next_one = min(higher, key=lambda c: c.estimate.step.seconds_per_sample)
        words.append(_against(next_one, chosen))
    rule = (
        "lowest-stage-that-fits"
        if lower and all(c.rejected_by in ("gpu_memory", "release") for c in lower)
        else "least-time"
    )
    return Reason(key=key, value=stage, rule=rule, because="; ".join(dict.fromkeys(words)))


def _against(candidate: Candidate, chosen: Candidate) -> str:
    """How a candidate compares: wrong in this release, does not fit, tight, slower, no faster."""
    cost, stage = candidate.estimate, f"stage {candidate.plan.stage}"
    if candidate.rejected_by == "release":
        return candidate.because
    if candidate.rejected_by == "gpu_memory":
        return f"{stage} needs {_too_much(cost)}"
    if candidate.rejected_by == "host_memory":
        return f"{stage} needs {gib(cost.host.peak_bytes)} of host memory (does not fit)"
    if candidate.rejected_by == "nvme":
        return f"{stage} needs {gib(cost.nvme_bytes)} of NVMe (does not fit)"
    ratio = cost.step.seconds_per_sample / chosen.estimate.step.seconds_per_sample
    if abs(ratio - 1) < 0.005:
        speed = "takes the same time"
    elif ratio > 1:
        speed = f"takes {ratio:.2f}x the time"
    else:
        is_tie = ratio * TIE >= 1 and (cost.verdict, chosen.plan.offload) == (chosen.estimate.verdict, "none")
        speed = f"is {1 / ratio:.2f}x as fast{f', {WITHIN_TIE}' if is_tie else ''}"
    return f"{stage} {speed} ({gib(cost.gpu.peak_allocated_bytes)}, {cost.verdict})"


def _too_much(cost: Estimate) -> str:
    """The peak that the card does not hold, with the predicted error where that decides."""
    return f"{', '.join(filter(None, [gib(cost.gpu.peak_allocated_bytes), error_words(cost)]))} (does not fit)"


def _offload_reasons(facts: Facts, chosen: Candidate, candidates: Sequence[Candidate]) -> list[Reason]:
    plan, cost = chosen.plan, chosen.estimate
    if plan.offload == "none":
        return []
    pinned = facts.workload.offload is not None
    host = facts.cluster.host_memory_bytes
    room = f"of {gib(host)}" if host else "(host memory is not known: check it, or give --host-memory)"
    update = seconds(cost.step.offload_seconds - cost.step.upload_seconds)
    because = (
        f"takes optimizer states off the card{_gain_words(chosen, candidates)}; costs {update} per step on host and "
        f"PCIe; needs {host_words(cost)} {room}"
    )
    rule = "pinned" if pinned else "memory-before-speed"
    found = [
        Reason(
            key="zero_optimization.offload_optimizer.device", value=plan.offload_optimizer, rule=rule, because=because
        )
    ]
    if plan.offload_param != "none":
        found.append(
            Reason(
                key="zero_optimization.offload_param.device",
                value=plan.offload_param,
                rule=rule,
                because=f"{_offload_param_words(facts, chosen, candidates)}; costs {seconds(cost.step.upload_seconds)}"
                " per step on PCIe",
            )
        )
    return found


def _gain_words(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """Where the same stage fits comfortably without offload: how much longer it takes, and what offload spares it."""
    plan, mine = chosen.plan, chosen.estimate.step.seconds_per_sample
    for one in candidates:
        other = one.plan
        without = (other.stage, other.offload, other.zero_hpz_partition_size) == (plan.stage, "none", 1)
        if without and one.rejected_by in (None, "slower") and one.estimate.verdict == "comfortable":
            ratio = one.estimate.step.seconds_per_sample / mine
            recomputes = other.activation_checkpointing and not plan.activation_checkpointing
            room = ", so that activations need not be recomputed" if recomputes else ""
            return f"{room}: without offload the stage takes {ratio:.2f}x the time" if ratio > 1 else ""
    return ""


def _offload_param_words(facts: Facts, chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    shard = facts.model.num_parameters * (4 if facts.workload.precision == "fp32" else 2) // facts.cluster.num_gpus
    off = f"takes the weights' share of {gib(shard)} off each card"
    if facts.workload.offload is not None:
        return f"asked for; {off}"
    on_card = [c for c in candidates if c.plan.offload_param == "none" and c.estimate.verdict == "comfortable"]
    if on_card and chosen.estimate.verdict == "comfortable":
        least = min(candidate.estimate.step.seconds_per_sample for candidate in on_card)
        ratio = least / chosen.estimate.step.seconds_per_sample
        return (
            f"{off}, for what a step gathers and computes: {ratio:.2f}x as fast as with them there, and faster on a"
            " slow host too"
        )
    return f"the weights' share of {gib(shard)} does not fit on each card beside what a step gathers"


def _batch_reasons(facts: Facts, chosen: Candidate, searched: Sequence[Candidate]) -> list[Reason]:
    plan, workload = chosen.plan, facts.workload
    ranks = f"{facts.data_parallel_size} {ranks_name(workload.ranks_per_sample)}"
    product = f"{plan.split} x {ranks} = {workload.global_batch_size} sequences of {workload.sequence_length} tokens"
    kept = gib(chosen.estimate.gpu.moments["forward"].activations)
    if plan.activation_checkpointing:
        recompute = f"keeps one tensor per block instead of all, {kept} at most: a third more compute"
    else:
        recompute = f"activations of {kept} fit: nothing to recompute"
    asked_recompute = None if workload.activation_checkpointing == "auto" else workload.activation_checkpointing
    return [
        _chosen_or_pinned("train_micro_batch_size_per_gpu", plan.micro_batch_size, "batch-equation",
                          product + _larger_words(chosen, searched),
                          workload.micro_batch_size),
        _chosen_or_pinned("gradient_accumulation_steps", plan.gradient_accumulation_steps, "batch-equation",
                          _accumulation_words(facts, plan), workload.gradient_accumulation_steps),
        _chosen_or_pinned("(gradient checkpointing)", plan.activation_checkpointing, "memory-before-speed", recompute,
                          asked_recompute),
    ]  # fmt: skip


def _chosen_or_pinned(key: str, value: object, rule: str, because: str, pinned: object) -> Reason:
    """The reason of the search, or that there was nothing to choose, and what it comes to."""
    if pinned is not None:
        return Reason(key=key, value=value, rule="pinned", because=f"asked for; {because}")
    return Reason(key=key, value=value, rule=rule, because=because)


def _larger_words(chosen: Candidate, searched: Sequence[Candidate]) -> str:
    """Why the next larger micro batch was not taken, where the search looked at it; empty where it is as good."""
    plan = chosen.plan
    larger = [
        one
        for one in searched
        if one.plan.micro_batch_size > plan.micro_batch_size
        and one.plan == replace(plan, **_split_of(one.plan))
        and (one.rejected_by or one.estimate.verdict != chosen.estimate.verdict)
    ]
    if not larger:
        return ""
    following = min(larger, key=lambda one: one.plan.micro_batch_size)
    cost = following.estimate
    needed = {
        "host_memory": f"{gib(cost.host.peak_bytes)} of host memory per node (does not fit)",
        "nvme": f"{gib(cost.nvme_bytes)} of NVMe (does not fit)",
        "gpu_memory": _too_much(cost),
    }.get(following.rejected_by or "", f"{gib(cost.gpu.peak_allocated_bytes)} ({cost.verdict})")
    return f"; micro batch {following.plan.micro_batch_size} would need {needed}"


def _split_of(plan: Plan) -> dict[str, Any]:
    return {
        "micro_batch_size": plan.micro_batch_size,
        "gradient_accumulation_steps": plan.gradient_accumulation_steps,
    }


def _accumulation_words(facts: Facts, plan: Plan) -> str:
    steps = plan.gradient_accumulation_steps
    if facts.cluster.num_gpus == 1:
        return f"the rest of the batch, in {steps} micro steps: one GPU has nothing to send"
    if plan.stage >= 2 and steps == 1:
        return f"stage {plan.stage} communicates in each micro step, so one is the best"
    if plan.stage >= 2:
        return f"stage {plan.stage} communicates in each of {steps} micro steps: the fewer, the better"
    return f"stage {plan.stage} communicates once per step, whatever the number of micro steps, here {steps}"


def _bucket_reasons(facts: Facts, plan: Plan) -> list[Reason]:
    link, width = job_link(facts.cluster), facts.model.hidden_size
    if plan.reduce_bucket_size <= max(width**2, 1_000_000):
        rule, because = "small-buffer", f"one {width} x {width} matrix: more would not make {link.name} faster"
        if link.kind == "nvlink" or facts.cluster.num_gpus == 1:
            because = f"one {width} x {width} matrix, to save memory"
    else:
        rule = "fill-the-link"
        element_bytes = 4 if facts.workload.precision == "fp32" else 2
        share = fill_share(facts.cluster, plan.reduce_bucket_size * element_bytes)
        because = (
            f"{plan.reduce_bucket_size / 1e6:.0f}e6 elements reach {share:.0%} of {link.name} "
            f"({gigabits_per_second(link.bandwidth_bytes_per_second)})"
        )
    key = "zero_optimization.reduce_bucket_size"
    return [Reason(key=key, value=plan.reduce_bucket_size, rule=rule, because=because)]


def _stage_3_reasons(facts: Facts, plan: Plan) -> list[Reason]:
    width = facts.model.hidden_size
    keys = {
        "stage3_prefetch_bucket_size": (plan.prefetch_bucket_size, *_prefetch_words(facts, plan)),
        "stage3_param_persistence_threshold": (
            plan.param_persistence_threshold,
            "no-tiny-gathers",
            f"10 x hidden size {width} keeps norms and biases on every GPU",
        ),
        "stage3_max_live_parameters": (plan.max_live_parameters, "memory-against-traffic", _live_words(facts, plan)),
        "stage3_max_reuse_distance": (plan.max_reuse_distance, "memory-against-traffic", _reuse_words(facts, plan)),
        "sub_group_size": (plan.sub_group_size, *_sub_group_words(plan)),
    }
    if plan.zero_hpz_partition_size > 1:
        group, width = plan.zero_hpz_partition_size, 4 if facts.workload.precision == "fp32" else 2
        copy = gib(width * facts.model.num_parameters // group)
        because = (
            f"a second copy in each group of {group} GPUs, {copy} on each: weights cross the network once per step, "
            "not twice per micro step"
        )
        keys["zero_hpz_partition_size"] = (plan.zero_hpz_partition_size, "gather-inside-the-node", because)
    return [
        Reason(key=f"zero_optimization.{key}", value=value, rule=rule, because=because)
        for key, (value, rule, because) in keys.items()
    ]


def _prefetch_words(facts: Facts, plan: Plan) -> tuple[str, str]:
    size, width = plan.prefetch_bucket_size, facts.model.hidden_size
    if size == DEEPSPEED_PREFETCH_BUCKET:
        return "deepspeed-default", f"DeepSpeed's default, {size / 1e6:.0f}e6 elements gathered ahead"
    if size == plan.reduce_bucket_size and size > width**2:
        return "fill-the-link", f"as the reduce bucket: {size / 1e6:.0f}e6 elements gathered ahead fill the link"
    return "one-matrix-ahead", f"one {width} x {width} matrix, {size / 1e6:.3g}e6 elements, is gathered ahead"


def _live_words(facts: Facts, plan: Plan) -> str:
    model = facts.model
    if plan.max_live_parameters > DEEPSPEED_LIVE:
        return (
            f"above the model's {count(model.num_parameters)}: weights gathered for forward are still there in "
            "backward, one all-gather less"
        )
    if plan.max_live_parameters < DEEPSPEED_LIVE:
        return f"two blocks of {count(model.layer_parameters)}: the prefetcher would fill whatever is allowed"
    return "DeepSpeed's default: at most 1e9 gathered elements"


def _reuse_words(facts: Facts, plan: Plan) -> str:
    """What is used again within the distance stays gathered."""
    if plan.max_reuse_distance > DEEPSPEED_LIVE:
        return f"three times the model's {count(facts.model.num_parameters)}: forward, recomputation, backward"
    if plan.max_reuse_distance < DEEPSPEED_LIVE:
        return f"two blocks of {count(facts.model.layer_parameters)}, as what is live"
    return "DeepSpeed's default: what is used again within 1e9 elements stays gathered"


def _sub_group_words(plan: Plan) -> tuple[str, str]:
    fewer = f"{plan.sub_group_size / 1e6:.0f}e6 elements are updated at a time"
    if plan.sub_group_size < DEEPSPEED_LIVE:
        return "memory-against-speed", f"{fewer}, a tenth of DeepSpeed's default: smaller fp32 temporaries in the step"
    return "deepspeed-default", f"DeepSpeed's default: {fewer}"
