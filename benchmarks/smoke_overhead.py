"""What a whole smoke test costs over the same steps launched by hand: ``python benchmarks/smoke_overhead.py``.

By hand is ``torchrun`` with the plain DeepSpeed program below: the same model, configuration, batch and steps on two
gloo ranks, nothing measured. Bar: at most 10 % of its wall time plus 2 s. The two alternate, so that load falls on
both alike; medians count. DeepSpeed's optimizer and the counter are compiled in the first smoke test, shown apart;
``--cache FOLDER`` keeps them. Prints JSON, writes ``--output``; exits with 1 where the bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from zeroconf.guarded import free_port

PACKAGES = ("torch", "deepspeed", "transformers")
RELATIVE_BAR, BAR_SECONDS = 0.10, 2.0
RANKS = 2
STEPS = 3
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 200_000},
}
# zeroconf's model tiny, and a batch like the smoke test's
BY_HAND = """
import json, sys
import deepspeed, torch
from transformers import LlamaConfig, LlamaForCausalLM

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # as the smoke test: a minute of compiling
deepspeed.init_distributed("gloo")
torch.manual_seed(0)
shape = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, vocab_size=1024)
model = LlamaForCausalLM(LlamaConfig(**shape, use_cache=False)).bfloat16()
config = json.load(open(sys.argv[1]))
engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())
torch.manual_seed(torch.distributed.get_rank())
tokens = torch.randint(1024, (config["train_micro_batch_size_per_gpu"], 128))
for step in range(int(sys.argv[2])):
    for micro in range(engine.gradient_accumulation_steps()):
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
    print(step + 1, float(loss), flush=True)
"""


def by_hand(folder: Path) -> list[str]:
    """The launch line of the plain program."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}"]
    address = ["--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    return [*torchrun, *address, str(folder / "by_hand.py"), str(folder / "ds.json"), str(STEPS)]


def smoke_test(folder: Path) -> list[str]:
    """The whole command, as its users run it on a machine without a GPU."""
    command = [sys.executable, "-m", "zeroconf", "smoke-test", str(folder / "ds.json"), "--model", "tiny"]
    return [*command, "--num-gpus", str(RANKS), "--steps", str(STEPS)]


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Wall seconds of one whole command, which has to succeed."""
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start


def measure(folder: Path, cache: Path, runs: int) -> dict[str, Any]:
    """Wall seconds of both, first runs apart; by hand the ranks get the environment that the smoke test gives them."""
    cpu = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // RANKS)), "GLOO_SOCKET_IFNAME": "lo"}
    smoke = {"ZEROCONF_CACHE": str(cache)}
    first = {"smoke_test": timed(smoke_test(folder), smoke)}
    (extensions,) = cache.glob("build/*/extensions")
    # an activated environment; another ninja than the one that stands in it would compile again
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    hand = cpu | {"DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": str(extensions), "PATH": path}
    first["by_hand"] = timed(by_hand(folder), hand)
    times: dict[str, list[float]] = {"by_hand": [], "smoke_test": []}
    for number in range(runs):
        times["by_hand"].append(timed(by_hand(folder), hand))
        times["smoke_test"].append(timed(smoke_test(folder), smoke))
        print(number + 1, *(f"{name} {seconds[-1]:.1f} s" for name, seconds in times.items()), file=sys.stderr)
    hand_seconds, smoke_seconds = (statistics.median(times[name]) for name in ("by_hand", "smoke_test"))
    allowed = hand_seconds * (1 + RELATIVE_BAR) + BAR_SECONDS
    return {
        "first_run_seconds": {name: round(seconds, 1) for name, seconds in first.items()},
        "seconds": {name: [round(each, 2) for each in seconds] for name, seconds in times.items()},
        "median_seconds": {"by_hand": round(hand_seconds, 2), "smoke_test": round(smoke_seconds, 2)},
        "overhead_seconds": round(smoke_seconds - hand_seconds, 2),
        "allowed_seconds": round(allowed - hand_seconds, 2),
        "within_bar": smoke_seconds <= allowed,
    }


def main() -> None:
    """Runs both in turn, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cache", type=Path, help="where compiled operators are kept [a temporary folder]")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "ds.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        (folder / "by_hand.py").write_text(BY_HAND, encoding="utf-8")
        measured = measure(folder, args.cache.absolute() if args.cache else folder / "cache", args.runs)
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "cores": os.cpu_count(),
        "load_at_start": round(load, 1),
        "bar": f"{RELATIVE_BAR:.0%} + {BAR_SECONDS:g} s",
        **measured,
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    sys.exit(not result["within_bar"])


if __name__ == "__main__":
    main()
