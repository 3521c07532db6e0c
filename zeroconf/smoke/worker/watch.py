"""Watches DeepSpeed's engine in a program that knows nothing of it: phases, peaks, losses, bytes sent, step times.

Phases have no gaps: init lasts until the first forward, forward until backward, backward until the engine's step, and
what a program does between two steps counts to the forward after it.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # mypy's names; this runs by path, where the siblings stand alone
    from collections.abc import Callable

    from zeroconf.smoke.worker.after_import import AfterImport
    from zeroconf.smoke.worker.engine import describe, first_dimension
    from zeroconf.smoke.worker.meters import Meter, open_meter
    from zeroconf.smoke.worker.records import RENDEZVOUS, Record
else:
    from after_import import AfterImport
    from engine import describe, first_dimension
    from meters import open_meter
    from records import RENDEZVOUS


class Watch:
    """One rank's watch. ``leave`` ends the process when the job's steps are done.

    A program may have several engines (a reference model, a critic): steps are those of the first that steps, memory is
    of all. The others end it after ``_OTHERS`` times as many, as a critic may do some for each of a generator. Steps
    whose update DeepSpeed skipped (fp16, while it looks for a loss scale) do not count: the optimizer's states are not
    there yet.
    """

    def __init__(self, job: dict[str, Any], record: Record, leave: Callable[[int], Any]) -> None:
        self._job = job
        self._record = record
        self._leave = leave
        self._gpu = job["device"] == "cuda"
        self._meter: Meter | None = None
        self._phases: dict[str, int] = {}
        self._reserved = 0
        self._phase = "init"
        self._sent: Any = None
        self._trained: Any = None
        self._losses: list[Any] = []
        self._steps = 0
        self._others_steps = 0
        self._began = 0.0

    def install(self) -> None:
        """Waits for the program's imports."""
        actions: dict[str, Callable[[Any], None]] = {
            "torch": self._torch_imported,
            "torch.distributed.distributed_c10d": self._groups_imported,
            "deepspeed": self._deepspeed_imported,
            "deepspeed.runtime.engine": self._engine_imported,
            "deepspeed.runtime.pipe.engine": self._pipeline_imported,
            "accelerate.state": self._accelerate_imported,
        }
        sys.meta_path.insert(0, AfterImport(actions))

    # --- imports ---------------------------------------------------------------------------------

    def _torch_imported(self, torch: Any) -> None:
        self._meter = open_meter(torch, self._job["device"], self._job["counter"])

    def _groups_imported(self, module: Any) -> None:
        join = module.init_process_group

        def joined(*arguments: Any, **named: Any) -> Any:
            phase, step = self._record.values["phase"], self._record.values["step"]
            self._record.enter(RENDEZVOUS, step)
            answer = join(*arguments, **named)
            self._record.enter(phase, step)
            return answer

        module.init_process_group = joined

    def _deepspeed_imported(self, deepspeed: Any) -> None:
        if not self._gpu and hasattr(deepspeed.ops, "__compatible_ops__"):
            # as in rank.py: a minute of compiling, and segments that a killed rank leaves
            deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        initialize = deepspeed.initialize

        def entered(*arguments: Any, **named: Any) -> Any:
            self._enter("init")
            return initialize(*arguments, **named)

        deepspeed.initialize = entered

    def _engine_imported(self, module: Any) -> None:
        path = Path(__file__).with_name("sent.py")
        spec = importlib.util.spec_from_file_location("zeroconf_sent", path)
        if spec is not None and spec.loader is not None:
            sent = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sent)
            self._sent = sent.Sent()
            self._sent.times = 1
        engine = module.DeepSpeedEngine
        self._wrap(engine, "__init__", after=self._initialized)
        self._wrap(engine, "forward", before=self._forward)
        # the second one runs where a program calls loss.backward() itself
        for name in ("backward", "_backward_prologue"):
            if hasattr(engine, name):
                self._wrap(engine, name, before=self._backward)
        self._wrap_step(engine, "step")

    def _pipeline_imported(self, module: Any) -> None:
        self._wrap_step(module.PipelineEngine, "train_batch")

    def _accelerate_imported(self, state: Any) -> None:
        """Without a GPU Accelerate has no backend for DeepSpeed, and takes each rank for the only one."""
        if self._gpu or not os.environ.get("ACCELERATE_USE_DEEPSPEED"):
            return
        prepare = state.PartialState._prepare_backend  # noqa: SLF001

        def with_gloo(this: Any, cpu: bool = False, sagemaker_dp: bool = False, backend: str | None = None) -> Any:
            return prepare(this, cpu, sagemaker_dp, backend if backend or cpu else "gloo")

        state.PartialState._prepare_backend = with_gloo  # noqa: SLF001
        self._record.values["substitutions"].append("on the CPU, gloo for the backend that Accelerate looks for")

    @staticmethod
    def _wrap(
        owner: Any, name: str, *, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
    ) -> None:
        plain = getattr(owner, name)

        def call(engine: Any, *arguments: Any, **named: Any) -> Any:
            if before:
                before(engine, *arguments, **named)
            answer = plain(engine, *arguments, **named)
            if after:
                after(engine)
            return answer

        call.__wrapped__ = plain  # type: ignore[attr-defined]  # what inspect.signature follows
        setattr(owner, name, call)

    def _wrap_step(self, owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def call(engine: Any, *arguments: Any, **named: Any) -> Any:
            steps, skipped = engine.global_steps, engine.skipped_steps
            self._synchronize()
            updating = time.perf_counter()
            self._enter("step")
            answer = plain(engine, *arguments, **named)
            if self._trained is None:
                self._trained = engine
                self._describe(engine)
            stepped = engine.global_steps > steps
            if stepped and engine is self._trained:
                self._stepped(engine, updating, skipped=engine.skipped_steps > skipped)
            elif stepped:
                self._other_stepped()
            self._enter("forward", stepped=stepped)
            return answer

        call.__wrapped__ = plain  # type: ignore[attr-defined]
        setattr(owner, name, call)

    # --- the engine ------------------------------------------------------------------------------

    def _initialized(self, engine: Any) -> None:
        if self._trained is None:
            self._describe(engine)

    def _describe(self, engine: Any) -> None:
        values = self._record.values
        if self._gpu:
            import torch

            values["device"] = torch.cuda.get_device_name()
        values |= {"step_seconds": [], "update_seconds": [], "losses": []}
        values["environment"].setdefault("fed_batch_size", None)
        values["environment"] |= {"memory_meter": self._meter.name if self._meter else ""} | describe(engine)
        self._record.save()

    def _forward(self, engine: Any, *arguments: Any, **named: Any) -> None:
        if engine.training and self._trained in (None, engine):
            environment = self._record.values["environment"]
            fed = first_dimension((arguments, named))
            # the last batch of a data set may be smaller
            environment["fed_batch_size"] = max(fed or 0, environment.get("fed_batch_size") or 0) or None
        if not self._began:
            self._synchronize()
            self._began = time.perf_counter()
        if self._phase != "forward" or self._record.values["after"]:
            self._enter("forward")

    def _backward(
        self, engine: Any, loss: Any = None, *_others: Any, scale_wrt_gas: bool = True, **_named: Any
    ) -> None:
        if (self._trained is None or self._trained is engine) and getattr(loss, "numel", lambda: 0)() == 1:
            # unscaled losses are parts of the step's, which the engine does not divide any more
            self._losses.append((loss.detach(), scale_wrt_gas))
        if self._phase != "backward":
            self._enter("backward")

    def _stepped(self, engine: Any, updating: float, *, skipped: bool) -> None:
        self._synchronize()
        now, values = time.perf_counter(), self._record.values
        began, self._began = self._began or updating, now
        losses, self._losses = self._loss_of_step(), []
        sent = self._sent.collectives() if self._sent else None
        if self._sent:
            self._sent.restart()
        self._steps += 1
        if skipped:
            self._skipped(losses, searching=engine.fp16_enabled() and engine.dynamic_loss_scale())
            return
        values["step_seconds"].append(now - began)
        values["update_seconds"].append(now - updating)
        values["losses"] += losses
        values["steady_bytes"] = self._meter.live() if self._meter else 0
        values["collectives"] = sent
        if len(values["step_seconds"]) >= self._job["steps"]:
            self._finish()

    def _other_stepped(self) -> None:
        self._others_steps += 1
        values, steps = self._record.values, self._job["steps"]
        if values["step_seconds"] and self._others_steps >= _OTHERS * steps:
            done = f"after {len(values['step_seconds'])} of {steps} steps of the engine that stepped first"
            values["substitutions"].append(f"the script was ended {done}: others did {self._others_steps}")
            self._finish()

    def _loss_of_step(self) -> list[float]:
        """The step's loss, empty where none was seen."""
        if not self._losses:
            return []
        total = sum(float(loss) for loss, _ in self._losses)
        return [total / len(self._losses) if self._losses[0][1] else total]

    def _skipped(self, losses: list[float], *, searching: bool) -> None:
        """A step without an update: of fp16's search for a loss scale, or of gradients that were not finite."""
        values = self._record.values
        seen = values.setdefault("skipped", {"searching": 0, "not_finite": 0, "losses": [], "first": None})
        seen["searching" if searching else "not_finite"] += 1
        if not all(math.isfinite(loss) for loss in losses) and seen["first"] is None:
            seen["first"] = self._steps
        seen["losses"] += losses
        note = _SEARCHED if searching else _NOT_FINITE
        values["substitutions"] = [*dict.fromkeys([*values["substitutions"], note])]
        if seen["not_finite"] >= self._job["steps"]:
            self._finish()

    def _finish(self) -> None:
        """Ends this rank once all of them are here: nobody leaves while a peer still communicates."""
        import torch

        self._keep_peak()
        self._record.save()
        torch.distributed.barrier()
        self._record.end(self._job["steps"])
        self._leave(0)

    # --- phases ----------------------------------------------------------------------------------

    def _enter(self, phase: str, *, stepped: bool = False) -> None:
        self._keep_peak()
        self._phase = phase
        if self._meter is not None and phase != "init":
            self._meter.start(phase)
        done = len(self._record.values.get("step_seconds", ()))
        self._record.enter(phase, done + 1 if phase != "init" else 0, after=done if stepped else 0)

    def _keep_peak(self) -> None:
        if self._meter is None:
            return
        self._phases[self._phase] = max(self._phases.get(self._phase, 0), self._meter.peak())
        self._reserved = max(self._reserved, self._meter.reserved())
        self._record.values |= {
            "phases": self._phases,
            "peak_allocated_bytes": max(self._phases.values()),
            "peak_reserved_bytes": self._reserved,
            "parts": None,
            "host": self._meter.host(),
        }

    def _synchronize(self) -> None:
        if self._gpu:
            import torch

            torch.cuda.synchronize()


_OTHERS = 10
_SEARCHED = "steps that fp16's search for a loss scale skipped are not counted"
_NOT_FINITE = "steps that DeepSpeed skipped, since their gradients were not finite, are not counted"
