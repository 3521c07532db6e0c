"""What fused cross-entropies allocate, counted in the packages' own code: ``python benchmarks/fused_losses.py FOLDER``.

FOLDER holds the unpacked source of flash-attn (``pip download --no-deps --no-binary :all: flash-attn``, or its archive
from PyPI). The interpreter's environment needs torch, triton and liger-kernel (without dependencies), no GPU: the code
runs on fake tensors, counted by the dry run's ledger, and Triton's kernels, which allocate nothing, are left out. Off
CUDA, Liger adds to the matrix's gradient as on cards before Ampere. Prints both moments beside
zeroconf/estimate/loss.py; ``--output`` writes JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import sys
import types
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "zeroconf" / "smoke" / "worker"))

import torch
from ledger import DEVICE, Ledger

from zeroconf.estimate.loss import logits_bytes
from zeroconf.inputs.model import read_model
from zeroconf.types import Workload

Shape = tuple[int, int, int]
# tokens, vocabulary, width
SHAPES: tuple[Shape, ...] = ((2048, 32000, 1024), (4096, 50257, 768), (1000, 128256, 2048), (8192, 8192, 2048))
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Nothing:
    """A Triton kernel that does nothing, for any grid."""

    def __getitem__(self, _grid: Any) -> Any:
        return lambda *_args, **_kwargs: None


def flash_attn(folder: Path) -> Any:
    """flash-attn's loss: of the logits, which are made here."""
    for name in ("flash_attn", "flash_attn.ops", "flash_attn.ops.triton"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package
    module = importlib.import_module("flash_attn.ops.triton.cross_entropy")
    module.cross_entropy_fwd_kernel = module.cross_entropy_bwd_kernel = Nothing()
    torch.cuda.device = lambda _index: contextlib.nullcontext()  # type: ignore[assignment,misc]

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> tuple[Any, list[Any]]:
        logits = torch.nn.functional.linear(hidden.detach(), weight.detach()).requires_grad_()
        return module.cross_entropy_loss(logits, labels)[0].mean(), [logits]

    return loss


def liger() -> Any:
    """Liger's loss: of hidden states and matrix."""
    module = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")
    for name in ("liger_cross_entropy_kernel", "element_mul_kernel"):
        for place in (module, importlib.import_module("liger_kernel.ops.cross_entropy")):
            setattr(place, name, Nothing())

    def loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> tuple[Any, list[Any]]:
        value = module.LigerFusedLinearCrossEntropyFunction.apply(hidden, weight, labels)[0]
        return value, [tensor for tensor in (hidden, weight) if tensor.requires_grad]

    return loss


def measure(ledger: Ledger, loss: Any, shape: Shape, dtype: str, *, trains: bool) -> dict[str, int]:
    """Bytes over hidden states, matrix and labels: the peak of forward, and of backward through the loss alone."""
    tokens, vocab, width = shape
    device = ledger.device
    with ledger:
        hidden = torch.zeros(tokens, width, dtype=DTYPES[dtype], device=DEVICE, requires_grad=True)
        weight = torch.zeros(vocab, width, dtype=DTYPES[dtype], device=DEVICE, requires_grad=trains)
        labels = torch.zeros(tokens, dtype=torch.int32, device=DEVICE)
        before = device.live
        ledger.start_peak()
        value, inputs = loss(hidden, weight, labels)
        forward = device.peak - before
        ledger.start_peak()
        gradients = torch.autograd.grad(value, inputs)
        backward = device.peak - before
        del gradients, value, inputs, hidden, weight, labels
    return {"forward": forward, "backward": backward}


def predict(kind: str, shape: Shape, dtype: str, *, trains: bool) -> dict[str, int]:
    """The same by the formulas."""
    tokens, vocab, width = shape
    workload = Workload(
        sequence_length=tokens,
        global_batch_size=1,
        precision=dtype,  # type: ignore[arg-type]
        cross_entropy=kind,  # type: ignore[arg-type]
        trainable_parameters=None if trains else 1,
    )
    model = replace(read_model("llama-3.1-8b"), vocab_size=vocab, hidden_size=width)
    return {way: logits_bytes(model, workload, 1, backward=way == "backward") for way in ("forward", "backward")}


def main() -> None:
    """Counts, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flash_attn", type=Path, metavar="FOLDER")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    ledger = Ledger(lambda *_: "activations")
    # fake tensors have no values
    torch.Tensor.item = lambda _self: 1  # type: ignore[assignment,method-assign,return-value]
    torch.equal = lambda _one, _other: False
    losses = {"fused": flash_attn(args.flash_attn), "fused-linear": liger()}
    cases = itertools.product(losses, SHAPES, DTYPES, (True, False))
    rows = []
    for kind, shape, dtype, trains in cases:
        measured = measure(ledger, losses[kind], shape, dtype, trains=trains)
        predicted = predict(kind, shape, dtype, trains=trains)
        errors = {way: round(predicted[way] / measured[way] - 1, 5) for way in measured}
        case = {"loss": kind, "shape": shape, "dtype": dtype, "matrix_trains": trains}
        rows.append(case | {"measured": measured, "predicted": predicted, "errors": errors})
        print(f"{kind:13} {shape!s:22} {dtype} {'' if trains else 'frozen':7} {errors}", flush=True)
    worst = max((error for row in rows for error in row["errors"].values()), key=abs)
    print(f"{len(rows)} cases, worst error {worst:+.2%}")
    if args.output:
        versions = {name: version(name) for name in ("torch", "liger-kernel")} | {"flash-attn": args.flash_attn.name}
        result = {"date": datetime.now(tz=UTC).date().isoformat(), "versions": versions, "worst": worst, "rows": rows}
        args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
