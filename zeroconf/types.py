"""The values that flow through zeroconf: facts, a plan, and what a plan costs.

All are frozen and carry their unit in the name: ``_bytes`` are integers, ``_seconds`` and
``_bytes_per_second`` floats, ``num_`` counts. Facts are read by ``inputs``, plans are made by ``plan``
from the arithmetic of ``estimate``; ``emit`` and ``render`` only read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from zeroconf.choices import (  # noqa: TC001  (pydantic reads them)
    Attention,
    Checkpointing,
    CrossEntropy,
    Offload,
    Optimizer,
    Precision,
    Quantization,
    Reader,
)
from zeroconf.rates import RATES, Rates
from zeroconf.units import ceil_div

Device = Literal["none", "cpu", "nvme"]
ModelKind = Literal["decoder", "encoder", "encoder-decoder"]
Verdict = Literal["comfortable", "tight", "does-not-fit"]
NodeLimit = Literal["gpu_memory", "host_memory", "nvme"]
Limit = Literal["gpu_memory", "host_memory", "nvme", "release", "slower"]
Moment = Literal["init", "forward", "backward", "step"]
CollectiveKind = Literal["all-reduce", "all-gather", "reduce-scatter", "reduce", "all-to-all"]
TransferRoute = Literal["GPU to host", "host to GPU", "NVMe to host", "host to NVMe"]
# the optimizers of a workload, and those that only a configuration can ask for
OptimizerVariant = Literal[
    "adamw",
    "adam",
    "lion",
    "sgd",
    "sgd-momentum",
    "adamw-8bit",
    "lion-8bit",
    "torch-adamw",
    "torch-adamw-loop",
    "torch-adamw-fused",
    "adafactor",
    "muon",
]


# 2048 GiB beside 8 GPUs: AWS p5, OCI BM.GPU.H100.8
_LARGEST_HOST_BYTES_PER_GPU: Final = 256 * 2**30

# --- facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2): what queries, and keys with values, are compressed to.

    All are widths in elements. ``query_rank`` is 0 where queries are not compressed. A head of keys has
    ``rotary_size`` elements that all heads share, beside its own; one of values has ``value_size``.
    """

    query_rank: int
    key_value_rank: int
    rotary_size: int
    value_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model's shape: what memory, traffic and compute are derived from.

    ``num_parameters`` counts tied tensors once. ``num_active_parameters`` are those that one token
    passes through (equal for dense models). ``num_layers`` counts encoder and decoder blocks together.
    ``intermediate_size`` is one expert's for a mixture of experts; ``shared_intermediate_size`` that of the experts
    which every token passes, together; ``num_dense_layers`` are its blocks without experts, of
    ``dense_intermediate_size``. ``has_text_config``: the configuration is a vision-language model's, with the width in
    its text_config alone. ``source`` says where the shape comes from, ``assumptions`` what was filled in.
    """

    name: str
    architecture: str
    num_parameters: int
    num_active_parameters: int
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tied_embeddings: bool
    max_sequence_length: int | None
    num_experts: int = 0
    num_experts_per_token: int = 0
    shared_intermediate_size: int = 0
    num_dense_layers: int = 0
    dense_intermediate_size: int = 0
    latent: LatentAttention | None = None
    kind: ModelKind = "decoder"
    gated_mlp: bool = True
    has_text_config: bool = False
    source: str
    assumptions: tuple[str, ...] = ()

    @property
    def query_size(self) -> int:
        """Width of the concatenated attention heads, in elements per token."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_value_size(self) -> int:
        """Width of the keys (or of the values), in elements per token."""
        return self.num_key_value_heads * self.head_dim

    @property
    def embedding_parameters(self) -> int:
        """Elements of one vocabulary matrix."""
        return self.vocab_size * self.hidden_size

    @property
    def largest_parameter(self) -> int:
        """Elements of the largest single tensor: the vocabulary matrix, or an MLP's.

        Transformers 5 holds all experts of a block in one tensor, gate and up projection together
        (``mlp.experts.gate_up_proj``). Mixtral-8x7B: 8 x 2 x 14336 x 4096 = 939,524,096.
        """
        matrix = self.hidden_size * self.intermediate_size
        experts = self.num_experts * matrix * (2 if self.gated_mlp else 1)
        return max(self.embedding_parameters, matrix, experts)

    @property
    def largest_module(self) -> int:
        """Elements of the largest module that computes at once: all experts of a block, else the largest tensor.

        DeepSeek-V3: 256 experts x 3 x 2048 x 7168 = 11.3e9.
        """
        experts = self.num_experts * self.hidden_size * self.intermediate_size * (3 if self.gated_mlp else 2)
        return max(self.largest_parameter, experts)

    @property
    def layer_parameters(self) -> int:
        """Elements of one transformer block: what is left without the vocabulary matrices, shared evenly."""
        vocabularies = self.embedding_parameters * (1 if self.tied_embeddings else 2)
        return max(1, (self.num_parameters - vocabularies) // max(1, self.num_layers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link that collectives run over: GPUs inside a node, or a node's ports together.

    ``bandwidth_bytes_per_second`` is what ring collectives reach in one direction (NCCL's busbw), not
    the line rate; ``low_bandwidth_bytes_per_second`` the pessimistic end. ``latency_seconds`` is one hop.
    """

    name: str
    kind: Literal["nvlink", "pcie", "ethernet", "rdma"]
    bandwidth_bytes_per_second: float
    low_bandwidth_bytes_per_second: float
    latency_seconds: float
    source: str
    confidence: Literal["measured", "verified", "assumed", "recalled", "given"] = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator. ``memory_bytes`` is the total that PyTorch reports, not the label.

    ``half_flops_per_second`` is the dense bf16 / fp16 peak, ``single_flops_per_second`` the fp32 peak without
    TF32, which PyTorch leaves off by default. ``max_efficiency`` is the share of the 16-bit peak that a transformer's
    matrix products reach. ``architecture`` is the vendor's word (``Ampere``), empty where nobody said.
    """

    name: str
    memory_bytes: int
    bf16: bool
    half_flops_per_second: float
    single_flops_per_second: float
    memory_bandwidth_bytes_per_second: float
    max_efficiency: float
    host_link_bytes_per_second: float
    intra_node: Link
    source: str
    confidence: Literal["measured", "verified", "assumed", "recalled", "given"] = "verified"
    architecture: str = ""

    @property
    def deprecates_fp16(self) -> bool:
        """Whether DeepSpeed refuses fp16 there, unless told otherwise (accelerator/cuda_accelerator.py)."""
        return self.architecture == "Pascal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvme:
    """A node's local NVMe: capacity in bytes, sustained rates in bytes per second."""

    path: str
    capacity_bytes: int
    read_bytes_per_second: float
    write_bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Equal nodes of equal GPUs. ``network`` joins the nodes (None on one node, unless how many there will be is open).

    ``host_memory_bytes`` is per node; None means that nobody said. ``node_name`` is how the command line writes
    one node (``8xA100-80GB``, ``p4d.24xlarge``); empty for an inventory file.
    """

    name: str
    num_nodes: int
    gpus_per_node: int
    gpu: Gpu
    intra_node: Link
    network: Link | None = None
    host_memory_bytes: int | None = None
    nvme: Nvme | None = None
    node_name: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """The world size."""
        return self.num_nodes * self.gpus_per_node

    @property
    def host_limit_bytes(self) -> int:
        """Host memory that a plan may use per node: what is known, else what the largest cloud nodes have."""
        return self.host_memory_bytes or _LARGEST_HOST_BYTES_PER_GPU * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class GpuType:
    """A GPU without a count. ``one`` is a node with one of it; its memory, disk and network are those of any node."""

    one: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one optimizer step has to do, and which choices the user pinned (None = free).

    Batch sizes count sequences. ``trainable_parameters`` is None when all parameters train;
    ``quantize`` is how its frozen linear layers are packed. ``frozen_parameters`` belong to a second model beside (a
    reference model). ``sequence_parallel_size`` ranks share each sequence (Ulysses), ``tensor_parallel_size`` each
    layer (AutoTP). ``headroom`` is the share of the card that a comfortable plan leaves free.
    """

    sequence_length: int
    global_batch_size: int
    micro_batch_size: int | None = None
    gradient_accumulation_steps: int | None = None
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    client_optimizer: bool = False
    activation_checkpointing: Checkpointing = "auto"
    attention: Attention = "flash"
    cross_entropy: CrossEntropy = "torch"
    trainable_parameters: int | None = None
    lora_rank: int | None = None
    quantize: Quantization | None = None
    frozen_parameters: int = 0
    sequence_parallel_size: int = 1
    tensor_parallel_size: int = 1
    zero_stage: int | None = None
    offload: Offload | None = None
    headroom: float = 0.2
    assumptions: tuple[str, ...] = ()

    @property
    def local_sequence_length(self) -> int:
        """Tokens of one sequence that one rank holds outside attention."""
        return ceil_div(self.sequence_length, self.sequence_parallel_size)

    @property
    def ranks_per_sample(self) -> int:
        """GPUs that work on the same sequences: the number of GPUs by this is the data parallel size."""
        return self.sequence_parallel_size * self.tensor_parallel_size

    @property
    def optimizer_on_gpu(self) -> bool:
        """Whether it is one of bitsandbytes', which the script builds and offload would replace."""
        return self.optimizer.endswith("-8bit")

    @property
    def script_optimizer(self) -> bool:
        """Whether the training script builds the optimizer, whoever reads the configuration."""
        return self.client_optimizer or self.optimizer_on_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The releases whose keys and defaults apply."""

    deepspeed: tuple[int, ...] = (0, 19, 8)
    accelerate: tuple[int, ...] = (1, 15, 0)
    source: str = "the newest that zeroconf knows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that a decision rests on. ``cluster`` is one GPU's when only a type was given.

    ``given`` holds what a base file says of a plan's fields that the search leaves alone; its others mean nothing.
    ``asked`` names the workload's options that were given, not left to a default. ``rates`` are what seconds are made
    of: published, or measured on the cluster.
    """

    model: ModelSpec
    cluster: Cluster
    workload: Workload
    reader: Reader = "trainer"
    versions: Versions = Versions()
    given: Plan | None = None
    asked: frozenset[str] = frozenset()
    rates: Rates = RATES

    def script_builds_optimizer(self, *, offloaded: bool) -> bool:
        """Whether the configuration that is written leaves the optimizer to the training script, or to the Trainer.

        Accelerate's scripts build theirs; the Trainer builds PyTorch's AdamW, which under offload would be replaced.
        """
        workload = self.workload
        trainers = self.reader == "trainer" and workload.optimizer == "adamw" and not offloaded
        return workload.script_optimizer or self.reader == "accelerate" or trainers

    @property
    def data_parallel_size(self) -> int:
        """Ranks, or groups of ranks, that each have sequences of their own."""
        return self.cluster.num_gpus // self.workload.ranks_per_sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value of a base file that a plan changed: ``key`` is its dotted path."""

    key: str
    kind: Literal["added", "changed", "removed"]
    before: object
    after: object


# --- a plan --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One complete choice: stage, offload, batch split, buckets. Sizes of buckets are elements.

    ``zero_hpz_partition_size`` 1 means no secondary partition. ``multi_rank_bucket_allreduce`` is
    DeepSpeed's ``use_multi_rank_bucket_allreduce`` (stages 1 and 2): false sends reduce instead of
    all-reduce. Fields that a stage does not read keep DeepSpeed's defaults.

    The fields from ``optimizer_variant`` on are what a configuration may say and the search leaves alone: the
    optimizer where it is not the workload's, fp32 gradients (``data_types.grad_accum_dtype``) and communication beside
    16-bit weights, the keys of the same name, ``quantized_weights`` and ``quantized_gradients`` those of ZeRO++ without
    their ``zero_``, ``offload_ratio`` the share of stage 3's sub-groups on the host,
    ``buffer_count`` (times ``buffer_size`` for parameters) of offload to NVMe, and ``zero_init`` whether stage 3's
    model is built partitioned (Transformers does). ``pin_memory`` None is the release's default.
    """

    stage: int
    offload_optimizer: Device = "none"
    offload_param: Device = "none"
    micro_batch_size: int
    gradient_accumulation_steps: int
    activation_checkpointing: bool = False
    zero_hpz_partition_size: int = 1
    multi_rank_bucket_allreduce: bool = True
    overlap_comm: bool = False
    reduce_bucket_size: int = 500_000_000
    prefetch_bucket_size: int = 50_000_000
    param_persistence_threshold: int = 100_000
    max_live_parameters: int = 1_000_000_000
    max_reuse_distance: int = 1_000_000_000
    sub_group_size: int = 1_000_000_000
    optimizer_variant: OptimizerVariant | None = None
    fp32_gradients: bool = False
    fp32_communication: bool = False
    torch_autocast: bool = False
    contiguous_gradients: bool = True
    reduce_scatter: bool = True
    pin_memory: bool | None = True
    offload_ratio: float = 1.0
    nvme_param_buffer_elements: int = 500_000_000
    nvme_optimizer_buffers: int = 4
    memory_efficient_linear: bool = True
    zero_init: bool = True
    quantized_weights: bool = False
    quantized_gradients: bool = False

    @property
    def split(self) -> str:
        """How a rank's share of the batch is divided, ``4 x 8``: sequences of a micro step x micro steps."""
        return f"{self.micro_batch_size} x {self.gradient_accumulation_steps}"

    @property
    def offload(self) -> Offload:
        """The offload axis as one word: none, optimizer, all (optimizer and parameters), nvme."""
        if "nvme" in (self.offload_optimizer, self.offload_param):
            return "nvme"
        if self.offload_param == "cpu":
            return "all"
        return "optimizer" if self.offload_optimizer == "cpu" else "none"


# --- what a plan costs ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParts:
    """What lives on one GPU at one moment, in bytes."""

    parameters: int = 0
    gradients: int = 0
    optimizer_states: int = 0
    buffers: int = 0
    gathered_parameters: int = 0
    activations: int = 0
    logits: int = 0
    temporaries: int = 0
    overhead: int = 0

    @property
    def total(self) -> int:
        """The sum of all parts, in bytes."""
        return (
            self.parameters
            + self.gradients
            + self.optimizer_states
            + self.buffers
            + self.gathered_parameters
            + self.activations
            + self.logits
            + self.temporaries
            + self.overhead
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """One GPU's memory at its four moments, in bytes.

    ``moments`` maps each moment to its parts. ``overhead`` (CUDA context and NCCL) is on the card but
    outside PyTorch's counters: ``torch.cuda.max_memory_allocated()`` shows ``peak_allocated_bytes -
    overhead``, ``max_memory_reserved()`` ``peak_reserved_bytes - overhead``. ``low_bytes`` and ``high_bytes`` bound the
    peak.
    """

    moments: dict[Moment, MemoryParts]
    peak_reserved_bytes: int
    low_bytes: int
    high_bytes: int
    textbook_bytes: int

    @property
    def peak_moment(self) -> Moment:
        """The moment that needs most."""
        return max(self.moments, key=lambda moment: self.moments[moment].total)

    @property
    def peak(self) -> MemoryParts:
        """The parts at the peak moment."""
        return self.moments[self.peak_moment]

    @property
    def peak_allocated_bytes(self) -> int:
        """All parts at the peak moment."""
        return self.peak.total


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """One node's host memory for all of its ranks, in bytes.

    ``rounding_bytes`` are those of ``pinned_bytes`` that nothing uses, as pinned blocks are powers of two.
    """

    pinned_bytes: int = 0
    pageable_bytes: int = 0
    loading_bytes: int = 0
    rounding_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """The larger of training and loading."""
        return max(self.pinned_bytes + self.pageable_bytes, self.loading_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One kind of collective in one optimizer step.

    ``elements`` and ``bytes`` are what one GPU sends over ``link`` in the whole step, in NCCL's rings of ``group_size``
    ranks; ``payload_elements`` those of the whole tensors, of ``element_bytes`` each; ``count`` the number of calls;
    ``seconds`` its time unhidden.
    """

    collective: CollectiveKind
    purpose: str
    elements: int
    bytes: int
    count: int
    link: str
    seconds: float
    group_size: int
    payload_elements: int
    element_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What one GPU's process moves between GPU, host and disk in one optimizer step, in bytes."""

    route: TransferRoute
    purpose: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """All collectives of one optimizer step, as DeepSpeed sends them, beside the textbook's volume (of one micro step).

    ``transfers`` are what offload moves.
    """

    per_collective: tuple[Collective, ...]
    textbook_elements: int
    transfers: tuple[Transfer, ...] = ()

    @property
    def bytes_per_gpu_per_step(self) -> int:
        """Bytes that one GPU sends per optimizer step, all links together."""
        return sum(collective.bytes for collective in self.per_collective)

    @property
    def seconds(self) -> float:
        """Time of all collectives if nothing hid them."""
        return sum(collective.seconds for collective in self.per_collective)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one optimizer step; ``low_seconds`` and ``high_seconds`` bound it.

    ``host_seconds`` is what the GPU waits for the host: launches and DeepSpeed's hooks. Of ``offload_seconds``
    ``upload_seconds`` are those that offloaded parameters take to the GPU.
    """

    compute_seconds: float
    host_seconds: float
    communication_seconds: float
    exposed_communication_seconds: float
    offload_seconds: float
    upload_seconds: float
    optimizer_seconds: float
    total_seconds: float
    low_seconds: float
    high_seconds: float
    seconds_per_sample: float
    tokens_per_second_per_gpu: float
    model_flops_utilization: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one plan costs on one cluster."""

    plan: Plan
    gpu: GpuMemory
    host: HostMemory
    nvme_bytes: int
    checkpoint_bytes: int
    traffic: Traffic
    step: StepTime
    capacity_bytes: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan with its cost. ``rejected_by`` is None for what could be chosen; ``because`` shows the arithmetic."""

    plan: Plan
    estimate: Estimate
    rejected_by: Limit | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one key has its value; ``rule`` is a stable short name of the deciding rule."""

    key: str
    value: object
    rule: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """Something that would make the model fit, or brings it nearer: its option, what it saves, what it costs.

    ``gpu_bytes``, and per node ``host_bytes`` and ``nvme_bytes``, are what the plan takes that ``generate`` chooses
    with it, or where it does not fit the nearest one. ``saves_bytes`` are those of one limit, ``saves``, that it takes
    less than the plan that is named in ``against``; 0 where it takes no less of it.
    """

    option: str
    title: str
    saves: NodeLimit
    saves_bytes: int
    against: str
    cost: str
    fits: bool
    gpu_bytes: int
    host_bytes: int
    nvme_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome of a search. ``chosen`` is None when nothing fits; then ``cures`` are ranked.

    ``candidates`` holds the best of each stage and offload, the chosen one first. ``faster_tight`` is a
    faster plan without headroom, if there is one. ``notes`` are facts that the user should see.
    """

    facts: Facts
    chosen: Candidate | None
    candidates: tuple[Candidate, ...]
    reasons: tuple[Reason, ...]
    cures: tuple[Cure, ...] = ()
    faster_tight: Candidate | None = None
    notes: tuple[str, ...] = ()
    num_searched: int = 0
