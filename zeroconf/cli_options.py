"""What the commands share: the facts' options, who reads a file, a configuration's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zeroconf.cli_output import OWN, OptionGroup, tell_facts, tell_project
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from zeroconf.types import Facts

Command = Any


class Tokens(click.IntRange):
    """A number of tokens: who writes 4k is told the number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error for anything else."""
        short, unit = str(value)[:-1], str(value)[-1:].lower()
        if unit == "k" and short.isdecimal():
            self.fail(f"{value!r} is not a valid integer; write {1024 * int(short)}", param, ctx)
        return super().convert(value, param, ctx)

    def _describe_range(self) -> str:
        """Nothing without bounds, which click calls ``x<=None`` in the help."""
        return super()._describe_range() if self.max is not None else ""


MODEL_OPTIONS = OptionGroup(
    "Model and hardware",
    [
        click.option(
            "--model", metavar="MODEL", help="Catalogue name, Hugging Face id, config.json, or a size like 7B."
        ),
        click.option("--params", metavar="N", help="Parameters of a config.json whose architecture is not known: 7B."),
        click.option(
            "--hardware", metavar="HW", help="8xA100-80GB, 4x8xH100-80GB, p4d.24xlarge, A100-80GB, a file, auto."
        ),
        click.option(
            "--network", metavar="LINK", help="Between nodes, a node's ports together: 10gbe, ib-ndr, 25Gbps."
        ),
        click.option("--intra-node", metavar="LINK", help="Inside a node: nvlink, pcie4."),
        click.option("--host-memory", metavar="SIZE", help="Per node: 512GiB."),
        click.option("--nvme", metavar="PATH:SIZE", help="Per node: /scratch:3.5TB[:read:write]."),
        click.option("--calibrate", metavar="FILE", help="What smoke-test or detect --measure-network measured here."),
    ],
)
WORKLOAD_OPTIONS = OptionGroup("Workload", [
    click.option("--seq-len", type=Tokens(), metavar="N",
                 help="Tokens per sequence [4096, or the model's maximum if shorter]."),
    click.option("--global-batch-size", type=int, metavar="N",
                 help="Sequences per optimizer step, all GPUs [about 0.5M tokens]."),
    click.option("--micro-batch-size", type=int, metavar="N", help="Sequences per GPU and micro step [searched]."),
    click.option("--gradient-accumulation", type=int, metavar="N",
                 help="Micro steps per optimizer step [searched]."),
    click.option("--precision", type=click.Choice(["bf16", "fp16", "fp32"]),
                 help="What weights train in [bf16 where every GPU has it]."),
    click.option("--optimizer", type=click.Choice(["adamw", "adam", "lion", "sgd", "adamw-8bit", "lion-8bit"]),
                 help="What updates the weights; -8bit are bitsandbytes' [adamw]."),
    click.option("--client-optimizer", is_flag=True, default=None, help="The training script brings its optimizer."),
    click.option("--activation-checkpointing", type=click.Choice(["none", "full", "auto"]),
                 help="Recompute activations in the backward pass; auto searches [auto]."),
    click.option("--attention", type=click.Choice(["flash", "sdpa", "eager"]), help="The attention kernel [flash]."),
    click.option(
        "--cross-entropy",
        type=click.Choice(["torch", "fused", "fused-linear"]),
        help="What computes the loss: flash-attn's kernel is fused, Liger's fused-linear [torch].",
    ),
    click.option("--lora-rank", type=int, metavar="N",
                 help="Train adapters of this rank on every linear layer."),
    click.option("--quantize", type=click.Choice(["nf4", "nf4-double"]),
                 help="QLoRA: pack the frozen linear layers into 4 bits (load_in_4bit), -double their scales too."),
    click.option("--trainable-params", metavar="N", help="Parameters that train, when not all do: 40M."),
    click.option("--frozen-params", metavar="N", help="Parameters of a frozen model beside (a reference model): 7B."),
    click.option("--zero-stage", type=click.IntRange(0, 3), metavar="N", help="Pin the stage [searched]."),
    click.option("--offload", type=click.Choice(["none", "optimizer", "all", "nvme"]),
                 help="Pin the offload [searched]."),
    click.option("--headroom", type=float, metavar="SHARE",
                 help="Share of the card that a comfortable plan leaves free [0.2]."),
])  # fmt: skip
READER_OPTIONS = OptionGroup("Reader", [
    click.option("--for", "reader", type=click.Choice(["trainer", "accelerate", "deepspeed"]),
                 help="Who reads the file [trainer]."),
    click.option("--deepspeed-version", metavar="X.Y.Z", help="Release to write and to estimate for [the newest]."),
    click.option("--accelerate-version", metavar="X.Y.Z", help="Release to write for [the newest]."),
    click.option("--python", metavar="PATH", help="The training environment's interpreter: its releases."),
])  # fmt: skip


class NumberRange(click.FloatRange):
    """A range of numbers, of which NaN is none: click's own comparisons let it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error beyond the range."""
        number = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124  (as math.isnan)
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Sectioned(click.Command):
    """A command whose help shows each group of options under its title."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Sections in the order of their first option."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "section", OWN), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def options(*groups: OptionGroup) -> Callable[[Command], Command]:
    """The option groups as one decorator, in their order."""

    def apply(command: Command) -> Command:
        for group in reversed(groups):
            for option in reversed(group.options):
                command = option(command)
            for param in command.__click_params__[-len(group.options) :]:
                param.section = group.title
        return command

    return apply


def config_path(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Path | None:
    """The callback of a configuration's name."""
    if text == "":
        msg = "the name of the configuration is empty; give a ds_config.json, or an Accelerate YAML"
        raise InputError(msg)
    if text is None:
        return None
    from pathlib import Path

    return Path(text)


def one_config_path(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> Path | None:
    """The callback of a configuration's name where several may be tried."""
    if len(texts) > 1:
        msg = f"{len(texts)} configurations were given; give one at a time, {texts[0]} first"
        raise InputError(msg)
    return config_path(ctx, param, texts[0] if texts else None)


def given_facts(ctx: click.Context, *others: str) -> dict[str, str | None]:
    """What the command line itself says of the facts, and of the ``others``: options with values, None for a flag."""
    sections = {group.title for group in (MODEL_OPTIONS, WORKLOAD_OPTIONS, READER_OPTIONS)}
    given = [
        param
        for param in ctx.command.params
        if ctx.get_parameter_source(str(param.name)) is click.core.ParameterSource.COMMANDLINE
        and (getattr(param, "section", OWN) in sections or param.name in ("base", *others))
    ]
    return {param.opts[-1]: _text(param, ctx.params[str(param.name)]) for param in given}


def _text(param: click.Parameter, value: object) -> str | None:
    return None if isinstance(param, click.Option) and param.is_flag else str(value)


def current_folder() -> Path:
    """The folder that project files are looked for in."""
    from pathlib import Path

    try:
        return Path.cwd()
    except FileNotFoundError:
        msg = "the current folder no longer exists; change into one that does"
        raise InputError(msg) from None


def counted_facts(given: Mapping[str, Any]) -> Facts:
    """The facts of the options and the project file.

    Raises:
        InputError: they name no number of GPUs, or cannot be used.
    """
    from zeroconf import api

    project = current_folder()
    tell_project(project)
    facts, counted = api.load_facts(given, project=project)
    tell_facts(facts)
    if not counted:
        msg = f"{facts.cluster.name} has no count; give one, like 8x{facts.cluster.gpu.name}"
        raise InputError(msg)
    return facts
