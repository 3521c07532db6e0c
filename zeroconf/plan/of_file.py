"""A configuration file under facts: the plan that it describes, what that costs, and what would be chosen instead."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeroconf.errors import InputError
from zeroconf.estimate.links import job_link
from zeroconf.estimate.quantizer import refused
from zeroconf.inputs.agreed import BATCH_OPTIONS, workload_of_file
from zeroconf.inputs.workload import check_bitsandbytes, usual_precision
from zeroconf.plan.buckets import efficient_bucket, fill_share
from zeroconf.plan.choose import best_of, decide, seconds_per_sample
from zeroconf.plan.cures import find_cures
from zeroconf.plan.reasons import title, traffic_words
from zeroconf.plan.search import TIE, costed, trusted
from zeroconf.units import gib, gigabytes, seconds

if TYPE_CHECKING:
    from zeroconf.choices import Precision
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import Candidate, Decision, Facts, Link, Plan


# ratio of two plans' times beyond which the slower one is told at every end of the bands
CLEARLY: Final = 1.5
# ratio below which a warning is not worth a change, even where the bands lie apart
WORTH_IT: Final = 1.2


def facts_of_file(facts: Facts, file: ConfigFile) -> tuple[Facts, Plan]:
    """The file's plan, and the facts with what the file says in the place of options.

    Raises:
        InputError: the file contradicts itself at this number of GPUs, or an option contradicts it.
    """
    num_gpus = facts.cluster.num_gpus
    if num_gpus % file.plan.zero_hpz_partition_size:
        size = file.plan.zero_hpz_partition_size
        msg = f"{file.path}: zero_hpz_partition_size {size} does not divide {num_gpus} GPUs"
        raise InputError(msg)
    workload, plan = workload_of_file(file, facts.workload, facts.asked, num_gpus, facts.reader)
    if plan.quantized_weights and workload.ranks_per_sample == 1 and (part := refused(facts.model, num_gpus)):
        msg = f"{file.path}: zero_quantized_weights cannot run: {part} (ZC318 has the cure)"
        raise InputError(msg)
    facts = replace(facts, workload=workload)
    notes = [f"not modelled, so not in these figures: {', '.join(file.not_modelled)}"] if file.not_modelled else []
    if plan.quantized_weights or plan.quantized_gradients:
        notes.append("the buffers of quantized weights and gradients are not counted in memory")
    if None in (file.micro_batch_size, file.gradient_accumulation_steps) and not facts.asked.intersection(
        BATCH_OPTIONS
    ):
        split = f"micro batch {plan.micro_batch_size} x accumulation {plan.gradient_accumulation_steps}"
        notes.append(f"{split}, where the file leaves it open; --micro-batch-size and --gradient-accumulation say it")
    if _emulates_bf16(facts):
        notes.append(
            f"{facts.cluster.gpu.name} has no bf16 arithmetic and emulates it, several times slower (ZC305): the times"
            " are those of fp16"
        )
    check_bitsandbytes(facts.workload, plan.offload, file.path)
    recompute = workload.activation_checkpointing == "full"
    if workload.activation_checkpointing == "auto" and costed(facts, plan).estimate.verdict != "comfortable":
        recompute = True
        notes.append(
            "activation checkpointing is assumed, since without it the plan is not comfortable; the file cannot say: "
            "--activation-checkpointing none or full does"
        )
    facts = replace(facts, workload=replace(facts.workload, assumptions=tuple(notes)))
    return facts, replace(plan, activation_checkpointing=recompute)


def _emulates_bf16(facts: Facts) -> bool:
    return facts.workload.precision == "bf16" and not facts.cluster.gpu.bf16


class Words(NamedTuple):
    """A plan's figures in words, for messages about a file's ``plan``."""

    plan: Plan

    def title(self, candidate: Candidate) -> str:
        """``stage 1, optimizer on the CPU``; what else differs from the file's plan in parentheses."""
        plan, mine = candidate.plan, self.plan
        beside = {
            "a reduce to each owner": plan.stage in (1, 2) and not plan.multi_rank_bucket_allreduce,
            f"micro batch {plan.split}": plan.micro_batch_size != mine.micro_batch_size,
            "recomputing activations": plan.activation_checkpointing and not mine.activation_checkpointing,
        }
        told = ", ".join(words for words, is_so in beside.items() if is_so)
        return f"{title(plan)} ({told})" if told else title(plan)

    @staticmethod
    def memory(candidate: Candidate) -> str:
        """``38.2 of 79.2 GiB``."""
        cost = candidate.estimate
        return f"{gib(cost.gpu.peak_allocated_bytes).removesuffix(' GiB')} of {gib(cost.capacity_bytes)}"

    @staticmethod
    def time(candidate: Candidate) -> str:
        """``1.2 s per sample``."""
        return f"{seconds(candidate.estimate.step.seconds_per_sample)} per sample"

    @staticmethod
    def sent(candidate: Candidate) -> str:
        """``75.8 GB``."""
        return gigabytes(candidate.estimate.traffic.bytes_per_gpu_per_step)

    @staticmethod
    def traffic(candidate: Candidate) -> str:
        """Each collective's bytes and time."""
        return traffic_words(candidate.estimate)

    @staticmethod
    def choice(candidate: Candidate) -> str:
        """A plan with what it costs: ``stage 1, micro batch 4 x 8: 38.2 of 79.2 GiB, 1.2 s per sample``."""
        plan = candidate.plan
        recompute = ", recomputing activations" if plan.activation_checkpointing else ""
        words = Words(plan)
        cost = f"{words.memory(candidate)}, {words.time(candidate)}"
        return f"{words.title(candidate)}, micro batch {plan.split}{recompute}: {cost}"


class FilePlan:
    """A file's plan under the facts, with its cost; plans that differ from it in a key; what would be chosen instead.

    ``facts`` are those of the file: its batch, precision and optimizer stand in the workload.
    """

    def __init__(self, facts: Facts, file: ConfigFile) -> None:
        """Reads the plan.

        Raises:
            InputError: the file contradicts itself at this number of GPUs, or an option contradicts it.
        """
        self.file = file
        self.facts, self.plan = facts_of_file(facts, file)
        self._asked = facts.workload
        self._costed: dict[Plan, Candidate] = {}

    @cached_property
    def candidate(self) -> Candidate:
        """The plan with its cost and the limit that it breaks."""
        return self.with_changes()

    @property
    def open_batch(self) -> tuple[str, ...]:
        """The options that say what file and options leave open of the batch and its split, which times depend on."""
        file, asked = self.file, self.facts.asked
        sizes = (file.train_batch_size, file.micro_batch_size, file.gradient_accumulation_steps)
        said = {option for option, size in zip(BATCH_OPTIONS, sizes, strict=True) if size is not None}
        known = said | asked.intersection(BATCH_OPTIONS)
        # DeepSpeed itself takes one step where the file says none, while the Trainer has a value of its own
        enough = 1 if self.facts.reader == "deepspeed" else 2
        # the global batch first: it fixes none of what a better plan may split otherwise
        return tuple(option for option in BATCH_OPTIONS if option not in known)[: max(0, enough - len(known))]

    @property
    def words(self) -> Words:
        """Figures in words."""
        return Words(self.plan)

    def with_changes(self, **changes: Any) -> Candidate:
        """The same plan but for some of its fields, with its cost: several rules ask for the same ones."""
        plan = replace(self.plan, **changes)
        if plan not in self._costed:
            self._costed[plan] = costed(self.facts, plan)
        return self._costed[plan]

    @property
    def link(self) -> Link:
        """The slowest link of a ring over all GPUs."""
        return job_link(self.facts.cluster)

    def fill_share(self, bucket: int) -> float:
        """The share of the link that collectives of so many elements reach."""
        return fill_share(self.facts.cluster, bucket * self._element_bytes)

    @property
    def efficient_bucket(self) -> int:
        """The reduce bucket that fills the link, in elements."""
        return efficient_bucket(self.facts.cluster, self.facts.model.hidden_size, self._element_bytes)

    @property
    def _element_bytes(self) -> int:
        return 4 if self.facts.workload.precision == "fp32" else 2

    def may_vary(self, option: str) -> bool:
        """Whether nobody pinned it."""
        return option not in self.facts.asked

    def alternative(self, **changes: Any) -> Candidate | None:
        """The same plan but for some of its fields, where it fits, and leaves room if the file's does.

        Activations may be computed again for it where nobody says that they are not, as they are for the file's plan.
        """
        if self.candidate.rejected_by is not None:
            return None
        tried = [changes]
        if self.facts.workload.activation_checkpointing == "auto" and not self.plan.activation_checkpointing:
            tried.append({**changes, "activation_checkpointing": True})
        enough = "comfortable", self.candidate.estimate.verdict
        others = (trusted(self.facts, self.with_changes(**each)) for each in tried)
        fitting = (other for other in others if other.rejected_by is None and other.estimate.verdict in enough)
        return next(fitting, None)

    best_of = staticmethod(best_of)

    def is_no_slower(self, other: Candidate, *, ties: bool = False) -> bool:
        """Whether another plan of the same batch takes no more time than the file's; ``ties``: within 3 percent."""
        most = self.candidate.estimate.step.total_seconds * (TIE if ties else 1)
        return other.estimate.step.total_seconds <= most

    def is_surely_slower_than(self, other: Candidate, *, mine: Candidate | None = None) -> bool:
        """Whether the file's plan, or ``mine``, is slower than another of the same batch, whatever the figures are off.

        Either even the low end of its band is above the high end of the other's, and it takes 1.2 times as long; or it
        takes 1.5 times as long at the low end, as predicted and at the high end: what both rest on, like the link's
        rate, is off for both alike.
        """
        slow, fast = (mine or self.candidate).estimate.step, other.estimate.step
        if slow.low_seconds > fast.high_seconds and slow.total_seconds > WORTH_IT * fast.total_seconds:
            return True
        ends = (
            (slow.low_seconds, fast.low_seconds),
            (slow.total_seconds, fast.total_seconds),
            (slow.high_seconds, fast.high_seconds),
        )
        return all(own > CLEARLY * its for own, its in ends)

    @property
    def surely_exceeds_gpu(self) -> bool:
        """Whether the low end of the predicted peak is over the card, also with the shortest sequences if none is said.

        A batch that the file leaves open counts as one sequence, and activations as recomputed where nobody says.
        """
        cost = self.candidate.estimate
        if "seq_len" not in self.facts.asked:
            shortest = replace(self.facts, workload=replace(self.facts.workload, sequence_length=1))
            cost = costed(shortest, replace(self.plan, activation_checkpointing=True)).estimate
        return cost.gpu.low_bytes > cost.capacity_bytes

    @property
    def free_facts(self) -> Facts:
        """The facts with a free choice of plan for the file's batch, optimizer and, unless emulated, precision."""
        asked = self._asked
        workload = replace(
            self.facts.workload,
            precision=self._chosen_precision,
            micro_batch_size=asked.micro_batch_size,
            gradient_accumulation_steps=asked.gradient_accumulation_steps,
            assumptions=(),
        )
        return replace(self.facts, workload=workload, given=self.file.plan)

    @cached_property
    def decision(self) -> Decision | None:
        """What ``generate`` would decide for the file's batch, optimizer and, unless that is emulated, precision."""
        try:
            return _decide(self.free_facts)
        except InputError:  # an option pins what the batch does not allow
            return None

    @property
    def _chosen_precision(self) -> Precision:
        if _emulates_bf16(self.facts):
            return usual_precision(self.facts.cluster.gpu, self.facts.model)
        return self.facts.workload.precision

    def choice(self, chosen: Candidate) -> str:
        """What ``generate`` would choose with what it costs, and its precision where it is another than the file's."""
        other = f"{self._chosen_precision}, " if _emulates_bf16(self.facts) else ""
        return f"{other}{Words.choice(chosen)}"

    @property
    def instead(self) -> str:
        """What ``generate`` would choose, as a clause behind a message; what would make it fit, if nothing does."""
        decision = self.decision
        if decision is None:
            return self.assumed
        if decision.chosen is not None:
            return f"; generate would choose {self.choice(decision.chosen)}{self.assumed}"
        cures = find_cures(decision)
        helps = f", {cures[0].title} would help" if cures and cures[0].fits else ""
        return f"; no plan fits{helps}{self.assumed}"

    def instead_of(self, other: Candidate) -> str:
        """``instead`` behind a plan that the message names: nothing of a choice that gains no more."""
        chosen = self.decision.chosen if self.decision else None
        as_good = chosen is None or seconds_per_sample(other) <= TIE * seconds_per_sample(chosen)
        return self.assumed if as_good else self.instead

    @property
    def assumed(self) -> str:
        """The length of sequences that all figures rest on, where nobody said it."""
        if "seq_len" in self.facts.asked:
            return ""
        return f" (sequences of {self.facts.workload.sequence_length} tokens, since --seq-len is not given)"


# files of one project often come to the same facts
_decide = lru_cache(maxsize=256)(decide)
