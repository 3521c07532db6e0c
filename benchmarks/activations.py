"""Activations and logits, predicted against the model itself: ``python benchmarks/activations.py [--cases N]``.

Each case builds a Transformers model of true widths and few layers on fake tensors (the dry run's ledger) and runs one
forward and backward pass without DeepSpeed; gradients are dropped when they are complete, so that what is left over the
parameters is what zeroconf/estimate/activations.py predicts. Prints signed errors of both peaks, and writes a JSON
object to ``--output``. Runs in the environment of the libraries, about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= {"DS_ACCELERATOR": "cpu", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
sys.path.insert(0, str(Path(__file__).parent.parent / "zeroconf" / "smoke" / "worker"))

import architecture
import fake_gpu
import torch
from ledger import DEVICE, Ledger
from parts import Parts

from zeroconf.estimate import activations
from zeroconf.estimate.loss import logits_bytes
from zeroconf.inputs.model import model_source, read_model
from zeroconf.types import ModelSpec, Workload

LIBRARIES = ("deepspeed", "torch", "transformers")
MODELS = (
    "llama-3.1-8b", "llama-2-7b", "mistral-7b-v0.3", "qwen2.5-7b", "qwen3-8b", "gemma-2b", "gemma-2-9b", "gemma-3-1b",
    "phi-3-mini-4k", "phi-4", "mixtral-8x7b", "qwen3-30b-a3b", "gpt2-xl", "pythia-1.4b", "pythia-6.9b", "opt-1.3b",
    "bert-large-uncased", "t5-large", "flan-t5-xl", "qwen1.5-moe-a2.7b", "qwen2-57b-a14b", "deepseek-v2-lite",
    "deepseek-v3", "llama-4-scout-17b-16e", "gpt-oss-20b",
)  # fmt: skip
# their classes take no flash attention
NO_FLASH = ("t5", "flan", "llama-4")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model and workload."""

    model: str
    num_layers: int = 4
    sequence_length: int = 2048
    micro_batch_size: int = 4
    attention: str = "flash"
    precision: str = "bf16"
    checkpointing: bool = False
    vocab_size: int | None = None

    @property
    def spec(self) -> ModelSpec:
        """The model with the case's layers, and vocabulary where it has another."""
        spec = read_model(self.model)
        vocab = self.vocab_size or spec.vocab_size
        return replace(spec, num_layers=self.num_layers, num_dense_layers=self.num_dense, vocab_size=vocab)

    @property
    def num_dense(self) -> int:
        """Of the case's layers, those without experts where the model has such: the first, as DeepSeek has it."""
        return min(1, read_model(self.model).num_dense_layers)

    @property
    def described(self) -> dict[str, Any]:
        """The model for the worker: its shape, and a mixture's own configuration, whose parts are more."""
        described = asdict(self.spec)
        if not self.spec.num_experts:
            return described
        source = model_source(self.model)
        values = json.loads((source / "config.json").read_text()) if isinstance(source, Path) else dict(source or {})
        shape = {"num_hidden_layers": self.num_layers, "vocab_size": self.spec.vocab_size}
        if "first_k_dense_replace" in values:
            shape["first_k_dense_replace"] = self.num_dense
        return described | {"config": values | shape | {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}}


def grid(models: tuple[str, ...] = MODELS) -> list[Case]:
    """All cases: each model under each attention, precision, with and without checkpointing, and other shapes."""
    cases = []
    for model in models:
        longest = min(2048, read_model(model).max_sequence_length or 2048)
        usual = Case(model=model, sequence_length=longest, micro_batch_size=_batch(model, longest))
        usual = replace(usual, attention="sdpa") if model.startswith(NO_FLASH) else usual
        cases += [
            usual,
            replace(usual, checkpointing=True, num_layers=8),
            replace(usual, attention="eager"),
            replace(usual, attention="sdpa", precision="fp32"),
            replace(usual, sequence_length=longest // 4, micro_batch_size=4 * usual.micro_batch_size, num_layers=12),
        ]
    # a small vocabulary: the peaks lie in the blocks
    for model in models[::2]:
        longest = min(2048, read_model(model).max_sequence_length or 2048)
        batch = _batch(model, longest)
        small = Case(model=model, sequence_length=longest, micro_batch_size=batch, vocab_size=1024, attention="eager")
        flash = "sdpa" if model.startswith(NO_FLASH) else "flash"
        cases += [
            replace(small, attention=flash, num_layers=2),
            replace(small, attention=flash, checkpointing=True, num_layers=6),
            small,
            replace(small, checkpointing=True, num_layers=6),
            replace(small, precision="fp32"),
        ]
    if models != MODELS:
        return cases
    cases += [
        Case(model="llama-3.1-8b", sequence_length=8192, micro_batch_size=1, num_layers=6),
        Case(model="llama-3.1-8b", sequence_length=8192, micro_batch_size=2, num_layers=16, checkpointing=True),
        Case(model="llama-3.1-70b", sequence_length=4096, micro_batch_size=2, num_layers=3),
        Case(model="llama-2-7b", attention="eager", checkpointing=True, num_layers=16),
        Case(model="llama-3.1-8b", attention="eager", precision="fp16"),
        Case(model="qwen2.5-7b", attention="eager", precision="fp32", micro_batch_size=2),
    ]
    return cases


def _batch(model: str, sequence_length: int) -> int:
    """Tokens enough for the gradient of one weight, which lives until it is complete, not to count beside them."""
    return max(1, (65536 if read_model(model).num_experts else 16384) // sequence_length)


class Bench:
    """One ledger; PyTorch is patched once."""

    def __init__(self) -> None:
        self._parts = Parts()
        self._ledger = Ledger(self._parts.classify)
        fake_gpu.substitute(self._ledger, 8)

    def measure(self, case: Case) -> dict[str, int]:
        """Bytes over the parameters at the forward and the backward peak."""
        config, class_name, _ = architecture.make_config(case.described, case.sequence_length)
        architecture.attend(config, class_name, case.attention, dry=True)
        device = self._ledger.device
        with self._ledger:
            model = architecture.build_model(config, class_name, DTYPES[case.precision])
            model.to(DEVICE)
            if case.checkpointing:
                architecture.checkpoint(model)
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(_drop)
            batch = architecture.make_batch(
                config,
                rank=0,
                micro_batch_size=case.micro_batch_size,
                sequence_length=case.sequence_length,
                device=DEVICE,
                with_mask=False,
            )
            parameters = device.live
            self._ledger.start_peak()
            loss = model(**batch).loss
            forward = device.peak - parameters
            self._ledger.start_peak()
            loss.backward()
            backward = device.peak - parameters
            del loss, batch, model
        return {"forward": forward, "backward": backward}


def _drop(parameter: Any) -> None:
    parameter.grad = None


def predict(case: Case) -> dict[str, int]:
    """The same by the formulas, put together as zeroconf/estimate/memory.py does."""
    spec = case.spec
    workload: Any = Workload(
        sequence_length=case.sequence_length,
        global_batch_size=case.micro_batch_size,
        attention=case.attention,  # type: ignore[arg-type]
        precision=case.precision,  # type: ignore[arg-type]
    )
    micro = case.micro_batch_size
    saved = activations.saved_bytes(spec, workload, micro, checkpointing=case.checkpointing)
    ways = {"checkpointing": case.checkpointing}
    forward = activations.forward_working_bytes(spec, workload, micro, **ways)
    backward = activations.backward_working_bytes(spec, workload, micro, **ways)
    return {
        "forward": saved + max(forward, logits_bytes(spec, workload, micro, backward=False)),
        "backward": saved + max(backward, logits_bytes(spec, workload, micro, backward=True)),
    }


def compare(bench: Bench, case: Case) -> dict[str, Any]:
    """One row: the case, both peaks and their signed errors."""
    measured, predicted = bench.measure(case), predict(case)
    errors = {moment: predicted[moment] / measured[moment] - 1 for moment in measured}
    return {"case": asdict(case), "measured": measured, "predicted": predicted, "errors": errors}


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, help="a random choice of so many")
    parser.add_argument("--models", default="", help="only those whose name has this in it, or others: a,b")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    cases = [case for case in grid() if args.models in case.model] or grid(tuple(args.models.split(",")))
    if args.cases:
        cases = random.Random(args.seed).sample(cases, args.cases)
    bench = Bench()
    rows = []
    print(f"{'model':20} {'layers x sequence x batch':>26} {'attention':>9}  {'':11}  forward backward")
    for case in cases:
        row = compare(bench, case)
        rows.append(row)
        shape = f"{case.num_layers} x {case.sequence_length} x {case.micro_batch_size}"
        how = f"{case.precision}{' ckpt' if case.checkpointing else ''}"
        errors = "  ".join(f"{row['errors'][moment]:+7.1%}" for moment in ("forward", "backward"))
        print(f"{case.model:20} {shape:>26} {case.attention:>9}  {how:11} {errors}", flush=True)
    errors = [abs(error) for row in rows for error in row["errors"].values()]
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in LIBRARIES},
        "cases": len(rows),
        "median_error": round(statistics.median(errors), 4),
        "worst_error": round(max(errors), 4),
        "rows": rows,
    }
    print(f"{len(rows)} cases: median error {result['median_error']:.1%}, worst {result['worst_error']:.1%}")
    if args.output:
        args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
