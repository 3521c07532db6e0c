"""Dry run and estimate by DeepSpeed release: ``python benchmarks/dry_run_releases.py --make FOLDER [--python PATH]``.

Each small configuration runs twice in each environment, as rank 0 of 8: on fake tensors ("dry-run") and on real ones
under the counting allocator ("simulated", the truth here); the estimate is asked for the same release. Prints bytes per
parameter by moment, release and case, where the three disagree, and where releases do; writes ``--output``. ``--make``
builds one environment for each of ``RELEASES``: its own DeepSpeed, everything else from the environment that runs this.
Four minutes a release.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.sizes import sizes
from zeroconf.estimate.states import state_moments
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.model import read_model
from zeroconf.inputs.versions import parse_version
from zeroconf.plan.ran import workload_and_plan
from zeroconf.smoke.command import cache_directory
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.predict import processors
from zeroconf.types import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKER = Path(__file__).parent / "release_worker.py"
RELEASES = ("0.16.9", "0.17.6", "0.18.9")  # the last ones of their series, beside the installed one
PARAMETERS = 7_475_456
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 2048,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
STAGE_3 = {
    "stage": 3,
    "stage3_max_live_parameters": 1_000_000,
    "stage3_prefetch_bucket_size": 500_000,
    "stage3_param_persistence_threshold": 1000,
    "stage3_max_reuse_distance": 0,
}
CPU = {"device": "cpu"}
ACCUMULATION = {"gradient_accumulation_steps": 2}
FP32_GRADIENTS = {"data_types": {"grad_accum_dtype": "fp32"}}
# at the usual first scale of 65,536 a step is skipped, and real tensors have no states yet
FP16 = {"fp16": {"enabled": True, "initial_scale_power": 0}}
# zero_optimization beside the reduce bucket, keys beside zero_optimization, fields of the job
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "stage 0": ({"stage": 0}, {}, {}),
    "stage 0, accumulation 2": ({"stage": 0}, ACCUMULATION, {}),
    "stage 0, fp16": ({"stage": 0}, FP16, {}),
    "stage 1": ({"stage": 1}, {}, {}),
    "stage 1, fp16": ({"stage": 1}, FP16, {}),
    "stage 1, fp32 gradients": ({"stage": 1}, FP32_GRADIENTS, {}),
    "stage 2": ({"stage": 2}, {}, {}),
    "stage 2, fp16": ({"stage": 2}, FP16, {}),
    "stage 2, accumulation 2": ({"stage": 2}, ACCUMULATION, {}),
    "stage 2, overlap_comm": ({"stage": 2, "overlap_comm": True}, {}, {}),
    "stage 2, CPU optimizer": ({"stage": 2, "offload_optimizer": CPU}, {}, {}),
    "stage 3": (STAGE_3, {}, {}),
    "stage 3, fp16": (STAGE_3, FP16, {}),
    "stage 3, no zero.Init": (STAGE_3, {}, {"zero_init": False}),
    "stage 3, no zero.Init, checkpointing": (STAGE_3, {}, {"zero_init": False, "activation_checkpointing": True}),
    "stage 3, no zero.Init, LoRA": (STAGE_3, {}, {"zero_init": False, "lora_rank": 8}),
    "stage 3, hpZ 4": (STAGE_3 | {"zero_hpz_partition_size": 4}, {}, {}),
    "stage 3, CPU optimizer": (STAGE_3 | {"offload_optimizer": CPU}, {}, {}),
    "stage 3, CPU optimizer and parameters": (STAGE_3 | {"offload_optimizer": CPU, "offload_param": CPU}, {}, {}),
}
STEADY_BAR, PEAK_BAR, ESTIMATE_BAR = 0.005, 0.02, 0.03
MOMENTS = ("init", "forward", "backward", "step", "steady")
MODES = ("dry-run", "simulated")
SCALARS = 1000
# the 16-bit weights once and a half: more is only there where they are flattened
FLATTENED_BYTES = 3 * PARAMETERS


def make(folder: Path, release: str) -> str:
    """The interpreter of an environment with this release of DeepSpeed, made unless it is there."""
    python = folder / f"deepspeed-{release}" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        packages = python.parents[1] / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        (packages / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "setuptools<80", "wheel"], check=True)
        # DeepSpeed's setup.py imports torch; without --ignore-installed pip would take out the other environment's
        build = ["--no-deps", "--no-build-isolation", "--ignore-installed", f"deepspeed=={release}"]
        subprocess.run([*pip, *build], check=True, env=os.environ | {"DS_BUILD_OPS": "0"})
    return str(python)


def job_of(case: str, model: Path) -> SmokeJob:
    """A case for the worker."""
    zero, keys, fields = CASES[case]
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"reduce_bucket_size": 1_000_000, **zero},
        **({} if "fp16" in keys else {"bf16": {"enabled": True}}),
        **keys,
    }
    steps = keys.get("gradient_accumulation_steps", 1)
    fields = {"sequence_length": 8, "steps": 2, "world_size": 8, "gradient_accumulation_steps": steps, **fields}
    return SmokeJob(ds_config=config, architecture=model, **fields)


def estimated(job: SmokeJob, release: str) -> dict[str, Any]:
    """What the estimate says of the job in one release, as the dry run's record."""
    model, cluster = read_model(str(job.architecture)), processors(job.world_size)
    trainable = with_lora(model, job.lora_rank) if job.lora_rank else None
    workload, plan = workload_and_plan(job, parse_config(dict(job.ds_config), "case"), trainable)
    versions = Versions(deepspeed=parse_version(release, "release"))
    cost = estimate(model, cluster, workload, plan, versions)
    steady = state_moments(sizes(model, cluster, workload, plan, versions), plan).steady.total
    peaks = {moment: parts.total - parts.overhead for moment, parts in cost.gpu.moments.items()}
    host = {"pinned_bytes": cost.host.pinned_bytes, "pageable_bytes": cost.host.pageable_bytes}
    return {
        "bytes": peaks | {"steady": steady},
        "host": {name: size // cluster.gpus_per_node for name, size in host.items()},
    }


def run_all(python: str, cases: list[str]) -> list[dict[str, Any]]:
    """One release's rows: the records of each case in both modes, and the dry run's errors."""
    with tempfile.TemporaryDirectory() as folder:
        model, asked, answer = (Path(folder) / name for name in ("config.json", "jobs", "records"))
        model.write_text(json.dumps(LLAMA), encoding="utf-8")
        made = {case: job_of(case, model) for case in cases}
        asked.write_text(
            json.dumps([replace(job, mode=mode).to_json() for job in made.values() for mode in MODES]), encoding="utf-8"
        )
        command = [python, str(WORKER), str(asked), str(cache_directory()), str(answer)]
        with (cache_directory() / f"releases-{Path(python).parents[1].name}.log").open("w") as log:
            subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
        records = [_bytes(record) for record in json.loads(answer.read_text(encoding="utf-8"))]
        release = next(one["environment"]["deepspeed"] for one in records if "environment" in one)
        predicted = {case: estimated(job, release) for case, job in made.items()}
    rows = []
    for case, dry, counted in zip(cases, records[::2], records[1::2], strict=True):
        row = {"case": case, "release": release, "dry-run": dry, "simulated": counted, "estimate": predicted[case]}
        beside = {"errors": errors(case, dry, counted), "estimate_errors": estimate_errors(dry, predicted[case])}
        rows.append(row | beside)
    return rows


def estimate_errors(dry: Mapping[str, Any], predicted: Mapping[str, Any]) -> dict[str, float]:
    """The estimate's error by moment, and of host memory, relative to the dry run."""
    if "error" in dry:
        return {}
    both = [(dry["bytes"], predicted["bytes"]), (dry["host"], predicted["host"])]
    return {
        name: round(size / measured[name] - 1, 5)
        for measured, expected in both
        for name, size in expected.items()
        # a few bytes are a scalar
        if measured[name] > SCALARS
    }


def _bytes(record: dict[str, Any]) -> dict[str, Any]:
    if "error" in record:
        return record
    environment = {name: record["environment"].get(name) for name in ("deepspeed", "torch", "optimizer")}
    values = {"environment": environment, "bytes": record["phases"] | {"steady": record["steady_bytes"]}}
    if record["parts"]:
        values |= {"parts": record["parts"], "host": record["host"]}
    return values


def errors(case: str, dry: Mapping[str, Any], counted: Mapping[str, Any]) -> dict[str, float]:
    """The dry run's error by moment.

    With offload the counted bytes are device and host together: then the steady state alone is compared, and only
    where nothing is pinned, since the dry run rounds pinned blocks to powers of two as a GPU's allocator does. Nor is
    init where the weights are flattened by way of the host, which then holds them twice.
    """
    if "error" in dry or "error" in counted:
        return {}
    expected = dict(dry["bytes"])
    if dry["host"]["peak_bytes"] > FLATTENED_BYTES:
        del expected["init"]
    if "offload_optimizer" in CASES[case][0]:
        host = dry["host"]
        expected = {} if host["pinned_bytes"] else {"steady": expected["steady"] + host["pageable_bytes"]}
    return {moment: round(size / counted["bytes"][moment] - 1, 5) for moment, size in expected.items()}


def outside(row: Mapping[str, Any]) -> list[str]:
    """What is beyond the bars: the dry run's moments, then the estimate's."""
    found = [
        name for name, error in row["errors"].items() if abs(error) > (STEADY_BAR if name == "steady" else PEAK_BAR)
    ]
    missed = {name: error for name, error in row["estimate_errors"].items() if abs(error) > ESTIMATE_BAR}
    return found + [f"estimate {name} {error:+.1%}" for name, error in missed.items()]


def table(rows: list[dict[str, Any]]) -> str:
    """Bytes per parameter by moment, dry run | counted | estimate; the dry run's host memory."""
    lines = [
        f"{'case':<40}{'release':<9}" + "".join(f"{name:^24}" for name in MOMENTS) + "  host: pinned, pageable, peak"
    ]
    for row in rows:
        records = [row[name] for name in (*MODES, "estimate")]
        cells = "".join(f"{'|'.join(_cell(record, name) for record in records):^24}" for name in MOMENTS)
        dry = row["dry-run"]
        host = dry.get("host", {})
        beside = "  ".join(f"{size / PARAMETERS:.3f}" for size in host.values())
        beyond = outside(row)
        mark = f"  ! {', '.join(beyond)}" if beyond else ""
        lines.append(f"{row['case']:<40}{row['release']:<9}{cells}  {beside}{mark}")
        lines += [f"    {mode}: {row[mode]['error']}" for mode in MODES if "error" in row[mode]]
    return "\n".join(lines)


def _cell(record: Mapping[str, Any], moment: str) -> str:
    return f"{record['bytes'][moment] / PARAMETERS:.3f}" if "bytes" in record else "-"


def differences(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each case and moment whose dry runs differ between releases by more than 0.1 %."""
    lines = []
    for case in CASES:
        of_case = {row["release"]: row["dry-run"] for row in rows if row["case"] == case and "bytes" in row["dry-run"]}
        for moment in (*MOMENTS, "host pinned_bytes", "host peak_bytes"):
            sizes = {release: _size(record, moment) for release, record in of_case.items()}
            if sizes and max(sizes.values()) > 1.001 * min(sizes.values()):
                values = ", ".join(f"{size / PARAMETERS:.3f} in {release}" for release, size in sizes.items())
                lines.append(f"{case}: {moment} {values}")
    return lines


def _size(record: Mapping[str, Any], moment: str) -> int:
    group, _, name = moment.rpartition(" ")
    return int((record["host"] if group else record["bytes"])[name])


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="a training environment's interpreter")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="where environments of older releases are made")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    pythons = [*args.python] or [sys.executable]
    pythons = [*(make(args.make, release) for release in RELEASES if args.make), *pythons]
    cases = [case for case in CASES if args.only in case]
    with ThreadPoolExecutor() as pool:
        by_release = list(pool.map(lambda python: run_all(python, cases), pythons))
    rows = [row for same_case in zip(*by_release, strict=True) for row in same_case]
    print(table(rows))
    print("\n".join(("between releases:", *differences(rows))))
    if args.output:
        result = {"date": datetime.now(tz=UTC).date().isoformat(), "parameters": PARAMETERS, "rows": rows}
        result |= {"differences": differences(rows)}
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
