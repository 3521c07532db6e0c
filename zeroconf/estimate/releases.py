"""How DeepSpeed's releases differ in the memory that they allocate: the one place for each release's behaviour.

The formulas describe the newest release that is known (0.19.8), and ask here where an older one does otherwise. A newer
one is taken as the newest known, one before 0.16 as 0.16. Each boundary was read in the sources of the releases on both
its sides (paths below ``deepspeed/runtime``); the last releases of four series are measured in
benchmarks/dry_run_releases.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeroconf.keys import PINS_BY_DEFAULT_SINCE


@dataclass(frozen=True, slots=True)
class DeepSpeedRelease:
    """A release by its number, and what its memory depends on."""

    deepspeed: tuple[int, ...]

    @property
    def bf16_optimizer_at_stage_0(self) -> bool:
        """BF16_Optimizer also serves stage 0 in bf16, whose gradients accumulate in fp32 by default: to 0.17.5.

        engine.py: get_data_types, _do_optimizer_sanity_check. Since 0.17.6 it is the wrapper of fp16 (DDP_BFLOAT16).
        """
        return self.deepspeed < (0, 17, 6)

    @property
    def confuses_bf16_wrappers(self) -> bool:
        """Stage 1 with fp32 gradients gets stage 0's wrapper, and partitions nothing: 0.17.6 to 0.18.4.

        constants.py: DDP_BFLOAT16 is the same word as BFLOAT16 (engine.py: _configure_optimizer).
        """
        return (0, 17, 6) <= self.deepspeed < (0, 18, 5)

    @property
    def flattens_on_gpu(self) -> bool:
        """Stages 1 and 2 flatten the weights beside themselves; to 0.18.6 they went to the host for that.

        zero/stage_1_and_2.py: flatten_on_gpu, later flatten_on_accelerator.
        """
        return self.deepspeed >= (0, 18, 7)

    @property
    def stages_offloaded_weights(self) -> bool:
        """The CPU optimizer's weights come to the GPU in 16 bits by way of a host buffer; in 0.16 in fp32.

        zero/stage_1_and_2.py: param_buffer_of_bit16_for_cpu_offload_groups.
        """
        return self.deepspeed >= (0, 17, 0)

    @property
    def pins_masters_always(self) -> bool:
        """Stages 1 and 2 pin the CPU optimizer's fp32 weights whatever ``pin_memory`` says.

        zero/stage_1_and_2.py: weights_partition.
        """
        return self.deepspeed < (0, 18, 3)

    @property
    def pins_by_default(self) -> bool:
        """``pin_memory`` of the offload blocks is true unless said otherwise.

        zero/offload_config.py; deepspeedai/DeepSpeed#8207.
        """
        return self.deepspeed >= PINS_BY_DEFAULT_SINCE

    @property
    def reduces_overflow_first(self) -> bool:
        """The search for overflow in a gradient allocates nothing; before, an fp32 copy of it, masks and their sum.

        utils.py: has_inf_or_nan; before, zero/stage_1_and_2.py: _has_inf_or_nan.
        """
        return self.deepspeed >= (0, 19, 6)

    @property
    def copies_masters_in_fp32(self) -> bool:
        """Stage 3 has a sub-group's weights twice in fp32 while it makes its masters; before, in 16 bits beside fp32.

        zero/stage3.py: _create_fp32_partitions.
        """
        return self.deepspeed >= (0, 18, 3)

    @property
    def gathers_in_place(self) -> bool:
        """A single parameter that stage 3's init gathers is a view of what was received; before, a copy.

        zero/partition_parameters.py: _allgather_params_sequential; before, _allgather_params.
        """
        return self.deepspeed >= (0, 18, 5)

    @property
    def releases_leftovers(self) -> bool:
        """Stage 3 releases at the end of backward what has no hook there (the embedding); before, in the step.

        zero/partitioned_param_coordinator.py: release_backward_leftovers.
        """
        return self.deepspeed >= (0, 19, 3)

    @property
    def replaces_linear_without_zero_init(self) -> bool:
        """Stage 3 replaces torch's linear function, which keeps gathered weights, also without zero.Init.

        zero/partition_parameters.py: _enable_mem_efficient_linear; deepspeedai/DeepSpeed#8189.
        """
        return self.deepspeed >= (0, 19, 4)
