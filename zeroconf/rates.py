"""What seconds are made of: the constants of the step-time model, each with its source.

Fitted means: by ``benchmarks/step_time_accuracy.py`` on published runs, pulled towards the counted value, and checked
by leaving each source out. Measured means: by ``benchmarks/host_floor.py`` with DeepSpeed itself. The shares of the
peak that matrix products reach stand beside each GPU in ``inputs/data/gpus.csv``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The constants of one step; ``--calibrate`` and the benchmark replace some.

    Bytes are for 16-bit elements, forward and backward together, as if memory ran at its full rate. ``measured`` says
    what was replaced by a measurement on the cluster itself, and by how much; empty where nothing was.
    """

    measured: str = ""
    # what the card needs over what the constants below make of it
    compute_factor: float = 1.0

    # attention's share of the rate of the other matrix products, all scores counted (a causal kernel skips half).
    # Fitted: llm-foundry's runs of 512 to 65,536 tokens
    attention_share: float = 0.78
    # bytes per token, block and element of width for norms, activation functions, residuals and rotations: counted 76
    # in forward with fused kernels and 136 with Transformers' modules (norms and rotations in fp32), thrice with
    # backward, at 0.8 of the memory's rate: 290 and 510. Fitted: 305 for the engines
    # with fused kernels (llm-foundry, Megatron, nanotron) and 510
    block_bytes: float = 510.0
    # bytes per element of eager attention's scores: 24 in forward (scaled, masked, softmax, dropout, each read and
    # written) and 30 in backward, at 0.8 of the memory's rate. Counted
    score_bytes: float = 68.0
    # bytes per logit: upcast to fp32, softmax, gradient, cast back (counted: 36); a fused loss reads and writes 10
    logit_bytes: float = 36.0
    fused_logit_bytes: float = 10.0
    # bytes per parameter and micro step: weights read twice, gradients written and added
    weight_bytes: float = 10.0
    # bytes per token and input or output element of an adapted matrix (peft, tuners/lora/layer.py: Linear.forward:
    # result + lora_B(lora_A(x)) * scaling): 2 of an input and 12 of an output in forward, 10 and 8 in backward, so 16
    # of either, at 0.8 of the memory's rate. Counted, without dropout and casts
    adapter_bytes: float = 20.0
    # bytes per 4-bit weight and pass that unpacks it: half a byte read, two written, at 0.8 of the memory's rate
    # (bitsandbytes, autograd/_functions.py: MatMul4Bit; forward, recomputed forward, gradient of the input). Counted
    unpacked_bytes: float = 3.1
    fp32_gradient_bytes: float = 10.0
    # share of the fp32 peak that fp32 products reach: BERT on V100, 12.2 of 15.7 TFLOPS in whole steps (DeepSpeed's
    # autotuning examples: bert-large, 93 x 128 tokens in 1.78 s), other kernels taken off
    single_efficiency: float = 0.85
    # Python and PyTorch per block and pass (forward, recomputed forward, twice backward). Measured: 1.7 ms for three
    host_pass_seconds: float = 0.57e-3
    # the same per adapter and pass (peft 0.21). Measured: seven adapters of a block take 0.9 to 1.5 ms for three passes
    # and 1.0 to 2.9 ms for four
    adapter_pass_seconds: float = 0.07e-3
    # DeepSpeed's hooks per parameter and micro step. Stage 2's, which hold up the kernels of backward: measured 0 to
    # 1 ms a block of nine more than stage 1. In 2021 it was 0.15 ms (stage 2 less stage 1 of GPT-2 medium, large and XL
    # on 16 V100: 47, 67, 86 ms for 288, 432, 576 parameters; DeepSpeed's autotuning examples). Stage 3's fetch and
    # release: measured 4.3 to 7.6 ms a block of nine; reported as 0.5 ms each
    stage_2_hook_seconds: float = 0.07e-3
    stage_3_fetch_seconds: float = 0.75e-3
    # the optimizer step's loops over parameters (measured 0.4 to 0.8 ms a block of nine)
    step_hook_seconds: float = 0.07e-3
    # share of the communication that compute does not hide. Published DeepSpeed runs on slow links fit 1 best (Jean
    # Zay 24-52B, Azure 175B); the low end of the band is the lowest that a run shows of which communication is 0.3 or
    # more: 0.64 to 0.8 on 64 and 256 A100 (DeepSpeed PR#1453), all others 0.87 or more
    exposure: float = 1.0
    low_exposure: float = 0.63
    # fp32 parameters updated per second and host with CPU Adam, cast and copy included: 1.2e9 to 2.2e9 in field
    # reports (DeepSpeed PR#735, DeepSpeed#6834, ZenFlow blog)
    cpu_adam_per_second: float = 1.7e9
    low_cpu_adam_per_second: float = 1.2e9
    # torch's AdamW on a host: measured with torch 2.13 on two cores, 0.11e9 (busy) to 0.28e9
    torch_adam_per_second: float = 0.28e9
    low_torch_adam_per_second: float = 0.11e9
    # share of the host link that gathers of offloaded parameters reach. Assumed: pinned copies, each waited for; 52B in
    # bigscience's Jean Zay runs takes 177 s a step with parameters on the CPU, 175 and 183 with the optimizer alone.
    # Low: the median of its runs with everything there (25B, 52B, 97B on V100: 58, 114, 222 s), were that all to blame
    upload_share: float = 0.5
    low_upload_share: float = 0.044
    # how far off compute and the host may be: wide enough for 80 % of the published runs, each source left out
    compute_error: float = 0.2
    host_error: float = 0.4


RATES: Final = Rates()
