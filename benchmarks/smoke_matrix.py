"""Real steps on two gloo ranks against the dry run and the estimate: ``python benchmarks/smoke_matrix.py``.

Stages 0 to 3 x offload x accumulation x LoRA x launcher, each a whole ``zeroconf smoke-test`` of a small Llama on the
CPU, and one dry run of each configuration. Bar: all fit, the loss falls on every rank, peaks within 5 %. A CPU has one
memory, so that the peaks of offloaded states are not compared: what is on the host counts as the device's, and copies
between the two are not made. ``--keep FILE`` holds finished runs and lets a stopped matrix go on. Prints a summary,
writes ``--output``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

LAUNCHERS = ("torchrun", "deepspeed", "accelerate")
OFFLOAD = {0: ("none",), 1: ("none", "optimizer"), 2: ("none", "optimizer"), 3: ("none", "optimizer", "all")}
BAR = 0.05
LENGTH = 64
# a Llama of 3.4e6 parameters: small enough for 96 launches, large enough that no scalar counts
ARCHITECTURE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 2048,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}


class Case(NamedTuple):
    """One configuration and how it is launched."""

    stage: int
    offload: str
    steps: int
    lora_rank: int
    launcher: str

    def config(self) -> dict[str, Any]:
        """The ds_config.json."""
        zero: dict[str, Any] = {"stage": self.stage, "reduce_bucket_size": 200_000}
        if self.stage == 3:
            zero |= {"stage3_param_persistence_threshold": 256, "stage3_prefetch_bucket_size": 200_000}
            zero |= {"stage3_max_live_parameters": 1_000_000, "stage3_max_reuse_distance": 1_000_000}
        for name in {"none": (), "optimizer": ("optimizer",), "all": ("optimizer", "param")}[self.offload]:
            zero[f"offload_{name}"] = {"device": "cpu", "pin_memory": False}
        return {
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": self.steps,
            "gradient_clipping": 1.0,
            "bf16": {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_optimization": zero,
        }


def cases() -> list[Case]:
    """The full matrix."""
    shapes = [(stage, offload) for stage, kinds in OFFLOAD.items() for offload in kinds]
    rest = itertools.product(shapes, (1, 4), (0, 8), LAUNCHERS)
    return [Case(stage, offload, steps, rank, launcher) for (stage, offload), steps, rank, launcher in rest]


def smoke_test(case: Case, folder: Path, *options: str) -> dict[str, Any]:
    """The JSON of one smoke test, with its wall seconds."""
    (folder / "ds.json").write_text(json.dumps(case.config()), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "zeroconf",
        "smoke-test",
        str(folder / "ds.json"),
        "--model",
        str(folder),
        "--json",
    ]
    command += ["--seq-len", str(LENGTH), "--lora-rank", str(case.lora_rank), *options]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{case}: {done.stderr}")
    return {**json.loads(done.stdout), "seconds": round(time.monotonic() - start, 1)}


def row(case: Case, folder: Path, dry_peaks: dict[str, int]) -> dict[str, Any]:
    """One case: real, dry and predicted peaks in bytes."""
    real = smoke_test(case, folder, "--num-gpus", "2", "--device", "cpu", "--launcher", case.launcher)
    losses = [rank["losses"] for rank in real["ranks"]]
    return {
        **case._asdict(),
        "outcome": real["outcome"],
        "explanation": real["explanation"],
        "losses": losses,
        "loss_falls": bool(losses) and all(each[-1] < each[0] for each in losses),
        "real": peaks(real),
        "dry_run": dry_peaks,
        "predicted_peak": real["predicted"]["gpu"]["peak_allocated_bytes"] - real["predicted"]["gpu"]["overhead"],
        "seconds": real["seconds"],
    }


def peaks(result: dict[str, Any]) -> dict[str, int]:
    """The highest bytes of any rank at each moment."""
    phases = [rank["phases"] for rank in result["ranks"]]
    return {name: max(each[name] for each in phases) for name in phases[0]} if phases else {}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many fit and learn; the largest errors of what a CPU can compare."""
    whole = [one for one in rows if one["offload"] == "none" and one["outcome"] == "fits"]
    highest = [(max(one["real"].values()), max(one["dry_run"].values()), one["predicted_peak"]) for one in whole]
    dry = [abs(dry / real - 1) for real, dry, _ in highest]
    predicted = [abs(predicted / real - 1) for real, _, predicted in highest]
    return {
        "launches": len(rows),
        "fit": sum(one["outcome"] == "fits" for one in rows),
        "loss_falls": sum(one["loss_falls"] for one in rows),
        "compared": len(whole),
        "largest_error_of_dry_run": round(max(dry, default=0), 4),
        "largest_error_of_estimate": round(max(predicted, default=0), 4),
        "bar": BAR,
    }


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="finished rows, one a line: what it has is not run again")
    parser.add_argument("--only", type=int, help="the first so many cases")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = args.keep.read_text(encoding="utf-8").splitlines() if args.keep and args.keep.exists() else []
    kept = {tuple(one[name] for name in Case._fields): one for one in map(json.loads, lines)}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(ARCHITECTURE), encoding="utf-8")

        @cache
        def dry_peaks(case: Case) -> dict[str, int]:
            return peaks(smoke_test(case, folder, "--dry-run", "--world-size", "2"))

        for case in cases()[: args.only]:
            found = kept.get(tuple(case)) or row(case, folder, dry_peaks(case._replace(launcher=LAUNCHERS[0])))
            rows.append(found)
            if args.keep and tuple(case) not in kept:
                with args.keep.open("a", encoding="utf-8") as keep:
                    keep.write(json.dumps(found) + "\n")
            print(case, found["outcome"], found["seconds"], file=sys.stderr, flush=True)
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "versions": {name: version(name) for name in ("torch", "deepspeed", "accelerate", "transformers", "peft")},
        "summary": summary(rows),
        "rows": rows,
    }
    print(json.dumps(result["summary"], indent=1))
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
