"""Model states, buffers and temporaries on one GPU, moment by moment, as DeepSpeed allocates them.

One module per stage: ``stage_0``, ``stages_1_and_2``, ``stage_3``. Their formulas were read in the DeepSpeed modules
that they name and agree with its dry runs part by part (benchmarks/memory_oracle, tests/estimate/test_states.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.estimate.stage_0 import stage_0
from zeroconf.estimate.stage_3 import stage_3
from zeroconf.estimate.stages_1_and_2 import bf16_optimizer, stages_1_and_2

if TYPE_CHECKING:
    from zeroconf.estimate.moments import StateMoments
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Plan


def state_moments(sizes: Sizes, plan: Plan) -> StateMoments:
    """The moments of the plan's stage, by the wrapper that DeepSpeed puts around the optimizer."""
    if sizes.bf16_optimizer:
        return bf16_optimizer(sizes, plan)
    if plan.stage == 0 or sizes.unpartitioned:
        return stage_0(sizes, plan)
    if plan.stage == 3:
        return stage_3(sizes, plan)
    return stages_1_and_2(sizes, plan)
