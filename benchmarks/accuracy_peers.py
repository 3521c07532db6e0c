"""What public estimators say of the same runs, in bytes per GPU; None where one does not answer.

All answer for full training in 16 bit with Adam; none for adapters. llm-analysis runs in an environment of its own
(it needs transformers 4), the others in this one.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

from accelerate.commands.estimate import estimate_training_usage
from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

from zeroconf.estimate.rules_of_thumb import model_state_bytes

if TYPE_CHECKING:
    from accuracy_rows import Row

FORMULAS: Final = "closed formulas (Rajbhandari et al.)"
DEEPSPEED: Final = "DeepSpeed's estimate_zero2 / estimate_zero3"
ACCELERATE: Final = "accelerate estimate-memory"
LLM_ANALYSIS: Final = "llm-analysis"
PEERS: Final = (FORMULAS, DEEPSPEED, ACCELERATE, LLM_ANALYSIS)

# reads rows on standard input, prints bytes per row
_LLM_ANALYSIS_PROGRAM: Final = """
import json, logging, sys
from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
from llm_analysis.config import DtypeConfig, GPUConfig, ModelConfig, ParallelismConfig
logging.disable(logging.CRITICAL)
def one(row):
    model = ModelConfig(name=row["model"], num_layers=int(row["layers"]), n_head=int(row["heads"]),
        hidden_dim=int(row["hidden"]), vocab_size=int(row["vocabulary"]), max_seq_len=int(row["sequence_length"]),
        num_key_value_heads=int(row["key_value_heads"]), ffn_embed_dim=int(row["intermediate"]),
        expansion_ratio=int(row["intermediate"]) / int(row["hidden"]))
    gpu = GPUConfig(name="large", mem_per_GPU_in_GB=1e6, hbm_bandwidth_in_GB_per_sec=2039,
        intra_node_bandwidth_in_GB_per_sec=300, intra_node_min_message_latency=8e-6, peak_fp16_TFLOPS=312)
    analysis = LLMAnalysis(model, gpu, DtypeConfig(), ParallelismConfig(dp_size=int(row["gpus"])))
    recompute = ActivationRecomputation.FULL if row["checkpointing"] == "full" else ActivationRecomputation.NONE
    result = analysis.training(batch_size_per_gpu=int(row["micro_batch"]), seq_len=int(row["sequence_length"]),
        gradient_accumulation_steps=int(row["accumulation"]), activation_recomputation=recompute,
        ds_zero=DSZeRO(int(row["stage"])), flash_attn=row["attention"] == "flash",
        mlp_gated_linear_units=row["gated"] == "yes")
    return result["(weight+op_state+grad+act)_memory_per_gpu"]
print(json.dumps([one(row) for row in json.load(sys.stdin)]))
"""


def answers(rows: list[Row], llm_analysis_python: str | None) -> list[dict[str, int]]:
    """Each row's answers by estimator; one that does not answer is left out."""
    given = [_known(row) for row in rows]
    if llm_analysis_python:
        asked = [index for index, row in enumerate(rows) if _full(row)]
        for index, value in zip(asked, _llm_analysis([rows[i] for i in asked], llm_analysis_python), strict=True):
            given[index][LLM_ANALYSIS] = int(value)
    return given


def _full(row: Row) -> bool:
    on_card = row["offload_optimizer"] == row["offload_param"] == "none"
    return not row["lora_rank"] and row["precision"] != "fp32" and on_card


def _known(row: Row) -> dict[str, int]:
    if not _full(row):
        return {}
    total, stage, num_gpus = int(row["num_parameters"]), int(row["stage"]), int(row["gpus"])
    nodes = {"num_gpus_per_node": int(row["gpus_per_node"]), "num_nodes": num_gpus // int(row["gpus_per_node"])}
    given = {FORMULAS: int(model_state_bytes(total, num_gpus, stage))}
    if stage == 0:
        given[ACCELERATE] = max(estimate_training_usage(4 * total, "bfloat16").values())
    if stage == 2:
        given[DEEPSPEED] = estimate_zero2_model_states_mem_needs(total, **nodes, cpu_offload=False)[1]
    if stage == 3:
        largest = int(row["vocabulary"]) * int(row["hidden"])
        offload = {"cpu_offload": False, "cpu_offload_params": False}
        given[DEEPSPEED] = estimate_zero3_model_states_mem_needs(total, largest, **nodes, **offload)[1]
    return given


def _llm_analysis(rows: list[Row], python: str) -> list[float]:
    command = [python, "-c", _LLM_ANALYSIS_PROGRAM]
    ran = subprocess.run(command, input=json.dumps(rows), capture_output=True, text=True, check=False)
    if ran.returncode:
        msg = f"llm-analysis failed: {ran.stderr.strip().splitlines()[-1]}"
        raise SystemExit(msg)
    values: list[float] = json.loads(ran.stdout.splitlines()[-1])
    return values
