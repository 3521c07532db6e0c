"""One rank of a smoke test: real DeepSpeed, random weights, one repeated batch, a few optimizer steps.

    rank.py --job JOB

Started by torchrun, deepspeed or accelerate launch; or alone, as one rank of many (world.py), on this machine's device
or on fake tensors (dry_run.py). A user's own program may run in its place (program.py). Runs by path in the training
environment and imports nothing of zeroconf. Writes ``rank-N.json`` (records.py).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # mypy's names; the ranks run by path, where the siblings stand alone
    from zeroconf.smoke.worker import architecture, fill, parallel, script, world
    from zeroconf.smoke.worker.guard import PR_SET_PDEATHSIG, process_control
    from zeroconf.smoke.worker.meters import Meter, open_meter
    from zeroconf.smoke.worker.records import RENDEZVOUS, Record
    from zeroconf.smoke.worker.sent import Sent
else:
    import architecture
    import fill
    import parallel
    import script
    import world
    from guard import PR_SET_PDEATHSIG, process_control
    from meters import Meter, open_meter
    from records import RENDEZVOUS, Record


class Session:
    """One rank's run. ``measure`` brackets a phase; peaks are maxima over all steps."""

    def __init__(self, job: dict[str, Any], record: Record) -> None:
        self.job = job
        self.record = record
        self.dry = job["mode"] == "dry-run"
        self.gpu = job["device"] == "cuda"
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = f"cuda:{self.local_rank}" if self.gpu else "cpu"
        self.phases: dict[str, int] = {}
        self.parts: dict[str, dict[str, int]] = {}
        self.reserved = 0
        self.start_bytes = 0
        self.uncut_steps = 0
        self.meter: Meter
        self.sent: Sent

    def note(self, *lines: str) -> None:
        """Adds to what was substituted."""
        self.record.values["substitutions"] += lines

    @contextlib.contextmanager
    def measure(self, phase: str, step: int = 0) -> Any:
        """Enters a phase and keeps its peak, also when it fails."""
        self.meter.start(phase)
        try:
            self.record.enter(phase, step)
            yield
        finally:
            peak = self.meter.peak() - self.start_bytes
            parts = self.meter.parts()
            if parts is not None and peak >= self.phases.get(phase, 0):
                self.parts[phase] = parts
            self.phases[phase] = max(self.phases.get(phase, 0), peak)
            self.reserved = max(self.reserved, self.meter.reserved() - self.start_bytes)
            self.record.values |= {
                "phases": self.phases,
                "peak_allocated_bytes": max(self.phases.values()),
                "peak_reserved_bytes": self.reserved,
                "parts": self.parts or None,
                "host": self.meter.host(),
            }

    def synchronize(self) -> None:
        """Waits for the GPU, so that a clock reads what was done."""
        if self.gpu:
            import torch

            torch.cuda.synchronize()


def start(session: Session) -> None:
    """Imports, process group, meter."""
    session.record.enter("start")
    import torch
    import torch._dynamo  # inside zero.Init, torch 2.13 fails to import it (patched Tensor.__new__)

    if session.gpu:
        torch.cuda.set_device(session.local_rank)
    else:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    import deepspeed

    if not session.gpu and hasattr(deepspeed.ops, "__compatible_ops__"):
        # an inference-only all-reduce: a minute of compiling, and /dev/shm segments that a killed rank leaves
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    session.record.enter(RENDEZVOUS)
    world.join(session.job, gpu=session.gpu)
    session.sent = importlib.import_module("sent").Sent()
    if session.dry:
        dry_run = importlib.import_module("dry_run")
        session.meter, session.device = dry_run.DryMeter(session.job["gpus_per_node"]), dry_run.DEVICE
        session.note(*dry_run.NOTES)
    else:
        session.meter = open_meter(torch, session.job["device"], session.job["counter"])
    session.start_bytes = session.meter.live()
    device = "fake tensors" if session.dry else session.job["device"]
    session.record.values["device"] = torch.cuda.get_device_name() if session.gpu else device
    session.record.values["environment"] = {
        "torch": torch.__version__,
        "deepspeed": deepspeed.__version__,
        "cuda": torch.version.cuda,
        "backend": str(torch.distributed.get_backend()),
        "memory_meter": session.meter.name,
        **world.communication(gpu=session.gpu),
    }
    if not session.gpu and not session.dry:
        session.note("on the CPU, device and host memory are one: peaks include what offload keeps in host memory")


def fill_config(session: Session) -> tuple[dict[str, Any], Any, str]:
    """The file without "auto", parsed once by DeepSpeed; the model's config and class."""
    import torch
    from deepspeed import DeepSpeedConfig

    job = session.job
    session.record.enter("architecture")
    model_config, class_name, notes = architecture.make_config(job["architecture"], job["sequence_length"])
    session.note(*notes)
    session.note(*architecture.attend(model_config, class_name, job["attention"], dry=session.dry))
    session.record.enter("config")
    data_parallel = torch.distributed.get_world_size() // parallel.ranks_per_sample(job["ds_config"])
    ds_config, notes = fill.fill_batch(
        job["ds_config"],
        world_size=data_parallel,
        micro_batch_size=job["micro_batch_size"],
        accumulation_steps=job["gradient_accumulation_steps"],
    )
    session.note(*notes, *fill.switch_reports_off(ds_config))
    if session.dry:
        notes, session.uncut_steps = fill.for_dry_run(ds_config, data_parallel, job["scratch"])
        session.note(*notes)
    bf16 = torch.cuda.get_device_capability() >= (8, 0) if session.gpu else job["bf16"]
    ds_config, notes = fill.fill_auto(
        ds_config,
        hidden_size=architecture.hidden_size(model_config),
        steps=job["steps"],
        bf16=bf16,
        gpu=session.gpu or session.dry,
    )
    session.note(*notes)
    if job["torch_adam"]:
        ds_config["optimizer"].setdefault("params", {})["torch_adam"] = True
        session.note("torch.optim.AdamW for FusedAdam, which could not be compiled here")
    DeepSpeedConfig(copy.deepcopy(ds_config))
    if session.dry:
        importlib.import_module("dry_run").check(ds_config)
    return ds_config, model_config, class_name


def initialize(session: Session, ds_config: dict[str, Any], model: Any) -> Any:
    """The DeepSpeed engine."""
    import deepspeed

    with session.measure("init"):
        optimizer = script.client_optimizer(session, ds_config, model)
        groups = parallel.share_sequences(session, ds_config, model)
        trainable = None if optimizer else [one for one in model.parameters() if one.requires_grad]
        engine, *_ = deepspeed.initialize(
            model=model, config=ds_config, optimizer=optimizer, model_parameters=trainable, mpu=groups
        )
        session.synchronize()
        session.meter.settle(engine)
    if session.job["mode"] != "real":
        world.be_alone(engine)
    values = session.record.values
    values["environment"] |= {
        "parameters": architecture.num_parameters(model),
        "ds_config": ds_config,
        "optimizer": type(engine.basic_optimizer).__name__,
        "zero_stage": int(engine.zero_optimization_stage()),
        "micro_batch_size": int(engine.train_micro_batch_size_per_gpu()),
        "gradient_accumulation_steps": int(engine.gradient_accumulation_steps()),
    }
    return engine


def train(session: Session, engine: Any, batch: dict[str, Any]) -> None:
    """The optimizer steps. Losses are means over the step's micro batches, seconds cover all of them.

    ``update_seconds`` are those of the engine's own step in the last one, which updates the weights.
    """
    values = session.record.values
    values |= {"step_seconds": [], "update_seconds": [], "losses": []}
    accumulation = int(engine.gradient_accumulation_steps())
    # what the second micro batch's forward and the first one's backward and step stand for where others are left out
    repeated = max(session.uncut_steps, accumulation) - accumulation + 1
    for step in range(1, session.job["steps"] + 1):
        session.sent.restart()
        session.synchronize()
        began = time.perf_counter()
        losses = []
        for micro in range(accumulation):
            session.sent.times = repeated if micro else 1
            with session.measure("forward", step):
                loss = engine(**batch).loss
            session.sent.times = 1 if micro else repeated
            with session.measure("backward", step):
                engine.backward(loss)
            losses.append(loss.detach())
            del loss
            if micro == accumulation - 1:
                session.synchronize()
                updating = time.perf_counter()
            with session.measure("step", step):
                engine.step()
                session.meter.settle(engine)
        session.synchronize()
        if not session.dry:
            values["step_seconds"].append(time.perf_counter() - began)
            values["update_seconds"].append(time.perf_counter() - updating)
            values["losses"].append(sum(float(loss) for loss in losses) / accumulation)
        losses.clear()
        values["steady_bytes"] = session.meter.live() - session.start_bytes
        values["collectives"] = session.sent.collectives()
        session.record.save()


def run(job: dict[str, Any], record: Record) -> None:
    """The whole of one rank."""
    import torch

    session = Session(job, record)
    start(session)
    ds_config, model_config, class_name = fill_config(session)
    with session.meter:
        model = script.build(session, ds_config, model_config, class_name)
        session.meter.watch(model)
        engine = initialize(session, ds_config, model)
        batch = architecture.make_batch(
            model_config,
            # ranks of one tensor parallel group must have the same batch
            rank=record.values["rank"] // parallel.ranks_per_sample(ds_config),
            micro_batch_size=int(engine.train_micro_batch_size_per_gpu()),
            sequence_length=job["sequence_length"],
            device=session.device,
            # transformers looks into a mask, and drops one that hides nothing
            with_mask=not session.dry,
        )
        train(session, engine, parallel.share_of(batch, ds_config, record.values["rank"]))
    if job["mode"] == "real":
        torch.distributed.barrier()  # nobody leaves while a peer still communicates
    record.values |= {"state": "done", "phase": "done"}
    record.save()


def main() -> None:
    """Runs the job and leaves by ``os._exit``: a failed rank must not wait for its peers in destructors."""
    process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", required=True)
    options, others = parser.parse_known_args()
    job = json.loads(Path(options.job).read_text(encoding="utf-8"))
    if "script" in job:
        importlib.import_module("program").main(job, others)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    record = Record(job["results"], int(os.environ.get("RANK", job["rank"])))
    code = 0
    try:
        run(job, record)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is the result)
        code = 1
        with contextlib.suppress(OSError):  # the log's disk may be full
            print(f"[rank {record.values['rank']}] failed in {record.values['phase']}:", file=sys.stderr)
            traceback.print_exc()
        dry_run = sys.modules.get("dry_run")
        with contextlib.suppress(OSError):  # and that of the records: the launcher's exit code has to do
            record.fail(error, dry_run.cannot_run(error) if dry_run else "")
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
