"""Memory of stages 0-3 on a real GPU, beside the estimate: ``python benchmarks/gpu_memory.py [--output FILE]``.

Each case is ``zeroconf smoke-test`` on one GPU: real at N = 1, else one process as rank 0 of N (its partitions, buffers
and gathers are those of N; it sends nothing). Allocated and reserved peaks by phase stand beside the prediction; the
CUDA context is what the driver counts on an idle card less what PyTorch reserves, before and after a matrix product.
Cases whose estimate does not fit the card are listed, not run. Without a GPU: one sentence, exit code 2.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zeroconf import api
from zeroconf.errors import InputError
from zeroconf.smoke.trial import num_local_gpus

REPOSITORY = Path(__file__).parent.parent
# 0.1B to 7B
MODELS = ("gpt2", "pythia-410m", "llama-3.2-1b", "llama-3.2-3b", "llama-2-7b")
STAGES = (0, 1, 2, 3)
WORLD_SIZES = (1, 8, 64)
NO_GPU, FAILED = 2, 1
# the context before and after cuBLAS has loaded its kernels: (total - free) - reserved, in bytes
CONTEXT_PROBE = """
import json, torch
def outside():
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()
torch.cuda.init(); torch.zeros(1, device="cuda"); bare = outside()
square = torch.ones(4096, 4096, device="cuda", dtype=torch.half); square @ square; torch.cuda.synchronize()
capability = ".".join(map(str, torch.cuda.get_device_capability()))
print(json.dumps({"card": torch.cuda.get_device_name(), "capability": capability, "torch": torch.__version__,
                  "total_bytes": torch.cuda.get_device_properties(0).total_memory,
                  "context_bytes": bare, "with_kernels_bytes": outside()}))
"""


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME", help="catalogue names")
    parser.add_argument("--stages", nargs="+", type=int, choices=STAGES, default=list(STAGES))
    parser.add_argument("--world-sizes", nargs="+", type=positive, default=list(WORLD_SIZES), metavar="N")
    parser.add_argument("--seq-len", type=positive, default=1024)
    parser.add_argument("--hardware", metavar="GPU", help="the card's name as the catalogue has it [as PyTorch says]")
    parser.add_argument("--python", default=sys.executable, help="the training environment's interpreter")
    parser.add_argument("--output", type=Path, help="[benchmarks/results/gpu-memory-CARD-DATE.json]")
    return parser.parse_args(words)


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} is not a whole number from 1"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def used_before_bytes() -> int:
    """What others already use on the first card."""
    query = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) * 2**20


def configuration(stage: int) -> dict[str, Any]:
    """A plain bf16 configuration with DeepSpeed's defaults, two micro steps."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
        "zero_optimization": {"stage": stage},
    }


def measure(config: Path, model: str, world_size: int, args: argparse.Namespace) -> dict[str, Any]:
    """One smoke test's JSON, cut to what this file is about."""
    command = [sys.executable, "-m", "zeroconf", "smoke-test", str(config), "--model", model, "--json"]
    command += ["--num-gpus", "1", "--device", "cuda", "--seq-len", str(args.seq_len), "--python", args.python]
    command += ["--world-size", str(world_size)] if world_size > 1 else []
    ran = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    if not ran.stdout.startswith("{"):
        return {"outcome": "crash", "because": ran.stderr.strip().splitlines()[-1:]}
    result = json.loads(ran.stdout)
    keys = ("phases", "peak_allocated_bytes", "peak_reserved_bytes", "steady_bytes")
    ranks = [{key: rank.get(key) for key in keys} for rank in result["ranks"]]
    return {key: result[key] for key in ("mode", "outcome", "predicted", "relative_error")} | {"ranks": ranks}


def cases(card: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All cases in turn; what would not fit is not run."""
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for stage in args.stages:
            config = Path(folder) / f"stage{stage}.json"
            config.write_text(json.dumps(configuration(stage)), encoding="utf-8")
            for model in args.models:
                for world_size in args.world_sizes:
                    given = {"model": model, "hardware": f"{world_size}x{card}", "seq_len": args.seq_len}
                    facts, _ = api.load_facts({**given, "activation_checkpointing": "none", "attention": "sdpa"})
                    _, (expected,) = api.estimate(facts, config)
                    case: dict[str, Any] = {"model": model, "stage": stage, "world_size": world_size}
                    if expected.verdict == "does-not-fit":
                        case["not_run"] = f"estimated at {expected.gpu.peak_allocated_bytes} bytes"
                    else:
                        case |= measure(config, model, world_size, args)
                    print(json.dumps(case)[:200], file=sys.stderr, flush=True)
                    done.append(case)
    return done


def main() -> None:
    """Measures and writes the file."""
    args = arguments()
    if not num_local_gpus():
        print("error: this machine shows no NVIDIA GPU under /dev; run it where there is one", file=sys.stderr)
        sys.exit(NO_GPU)
    before = used_before_bytes()
    probe = subprocess.run([args.python, "-c", CONTEXT_PROBE], capture_output=True, text=True, check=False)
    if probe.returncode:
        print(f"error: {args.python} cannot use the GPU: {probe.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        sys.exit(FAILED)
    device = json.loads(probe.stdout)
    card = args.hardware or device["card"]
    today = datetime.now(tz=UTC).date().isoformat()
    try:
        measured = cases(card, args)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(NO_GPU)
    result = {
        "date": today,
        "python": platform.python_version(),
        "device": {**device, "used_before_bytes": before},
        "sequence_length": args.seq_len,
        "cases": measured,
    }
    name = f"gpu-memory-{card.replace(' ', '-').lower()}-{today}.json"
    output = args.output or REPOSITORY / "benchmarks" / "results" / name
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(output)


if __name__ == "__main__":
    main()
