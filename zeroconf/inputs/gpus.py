"""GPU names as people write them, to entries of the table.

``RTX4090``, ``rtx 4090-24GB``, ``A100-SXM4-80GB``, ``a100_80gb``, ``NVIDIA H100 80GB HBM3`` are read as
chip, form and memory; what is left out must not be ambiguous.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

from zeroconf.errors import InputError
from zeroconf.inputs.links import link
from zeroconf.inputs.tables import read_table
from zeroconf.inputs.text import clean, did_you_mean, shown
from zeroconf.types import Gpu

_VENDOR_WORDS = re.compile(
    r"NVIDIA|GEFORCE|TESLA|QUADRO|AMD|INSTINCT|RADEON|INTEL|HABANA|\bAWS\b|GENERATION|HBM\w*|\bRTX|\bOAM\b|\bPG\d+\w*|TENSOR|CORE|\bGPUS?\b"
)
_FORM = re.compile(r"(?<![A-Z])(SXM\d?|PCI-?E)(?![A-Z])")
_MEMORY = re.compile(r"[-\s](\d{1,4})\s*GI?B?(?![A-Z0-9])|[-\s](\d{2,3})$")
_SIZE = re.compile(r"(\d{1,4})\s*GI?B?", re.IGNORECASE)
_SEPARATORS = re.compile(r"[-_\s/()]+")


class Part(NamedTuple):
    """A GPU name taken apart; parts that were not written are None."""

    chip: str
    form: str | None
    label_gb: int | None


def _split(name: str) -> Part:
    text = _VENDOR_WORDS.sub(" ", name.upper().replace("_", "-")).strip(" -")
    form = _FORM.search(text)
    if form:
        text = (text[: form.start()] + "-" + text[form.end() :]).strip(" -")
    memory = _MEMORY.search(text)
    label = None
    if memory:
        text = text[: memory.start()] + text[memory.end() :]
        label = int(memory[1] or memory[2])
    return Part(_SEPARATORS.sub("", text), form[1][:3].replace("PCI", "PCIE") if form else None, label)


def _squashed(name: str) -> str:
    return _SEPARATORS.sub("", _VENDOR_WORDS.sub("", name.upper()))


def _gpu(row: dict[str, str], text: str) -> Gpu:
    if row["refused"]:
        msg = f"GPU '{shown(text)}' cannot be used: {row['refused']}"
        raise InputError(msg)
    return Gpu(
        name=row["name"],
        memory_bytes=int(row["memory_bytes"]),
        bf16=row["bf16"] == "yes",
        half_flops_per_second=float(row["half_tflops"]) * 1e12,
        single_flops_per_second=float(row["single_tflops"]) * 1e12,
        memory_bandwidth_bytes_per_second=float(row["memory_bandwidth_gb_per_second"]) * 1e9,
        max_efficiency=float(row["max_efficiency"]),
        host_link_bytes_per_second=float(row["host_link_gb_per_second"]) * 1e9,
        intra_node=link(row["intra_node"]),
        source=row["source"],
        confidence=cast("Literal['verified', 'assumed', 'recalled']", row["confidence"]),
        architecture=row["architecture"],
    )


def names() -> list[str]:
    """The names of all GPUs that can be used."""
    return [row["name"] for row in read_table("gpus") if not row["refused"]]


def spellings() -> list[str]:
    """The names, and those without a form where there are several: what a mistyped name may be meant as."""
    rows = [row for row in read_table("gpus") if not row["refused"]]
    short = [f"{row['chip']}-{row['label_gb']}GB" for row in rows]
    return [*dict.fromkeys(name for name in short if short.count(name) > 1), *names()]


def _row(name: str) -> dict[str, str] | None:
    return next((row for row in read_table("gpus") if row["name"] == name), None)


def link_generations(gpu: Gpu) -> dict[str, str]:
    """What plain ``nvlink`` and ``pcie`` mean on this GPU."""
    row = _row(gpu.name)
    return {"nvlink": row["nvlink"], "pcie": row["pcie"]} if row else {"nvlink": "", "pcie": "pcie4"}


def _matching(rows: list[dict[str, str]], part: Part, text: str) -> list[dict[str, str]]:
    """The rows of one chip that agree with form and memory, where they were written."""
    if part.form:
        formed = [row for row in rows if row["form"] == part.form]
        if not formed:
            have = ", ".join(dict.fromkeys(row["name"] for row in rows))
            msg = f"GPU '{shown(text)}': there is no {part.form} version; known: {have}"
            raise InputError(msg)
        rows = formed
    if part.label_gb is None:
        return rows
    sized = [row for row in rows if int(row["label_gb"]) == part.label_gb]
    if not sized:
        sizes = ", ".join(f"{size} GB" for size in dict.fromkeys(row["label_gb"] for row in rows))
        msg = f"GPU '{shown(text)}': {rows[0]['chip']} has {sizes}, not {part.label_gb} GB"
        raise InputError(msg)
    return sized


def read_gpu(text: str) -> tuple[Gpu, tuple[str, ...]]:
    """The GPU of a name, and what was assumed (the SXM version where the form was not written).

    Raises:
        InputError: unknown, ambiguous in memory, with a memory size that does not exist, or not for DeepSpeed.
    """
    text = clean(text, "GPU")
    table = read_table("gpus")
    wanted = _squashed(text)
    named = [row for row in table if wanted in {_squashed(row["name"]), *filter(None, row["aliases"].split("|"))}]
    if named:
        return _gpu(named[0], text), ()
    part = _split(text)
    rows = [row for row in table if row["chip"] == part.chip]
    if not rows:
        if size := _SIZE.fullmatch(text):
            have = ", ".join(row["name"] for row in table if row["label_gb"] == size[1] and not row["refused"])
            of_size = f" of {have}" if have else ""
            msg = f"GPU '{shown(text)}' is a memory size{of_size}; write the GPU's name, like A100-80GB"
            raise InputError(msg)
        chips = ", ".join(dict.fromkeys(row["chip"] for row in table if not row["refused"]))
        near = did_you_mean(text, spellings()) or f" (known: {chips})"
        msg = f"GPU '{shown(text)}' is not known{near}; an inventory file can describe a new one"
        raise InputError(msg)
    rows = _matching(rows, part, text)
    sizes = list(dict.fromkeys(row["label_gb"] for row in rows))
    if len(sizes) > 1:
        choices = " or ".join(f"{rows[0]['chip']}-{size}GB" for size in sizes)
        msg = f"GPU '{shown(text)}' is ambiguous; write {choices}"
        raise InputError(msg)
    row = rows[0]
    if len(rows) == 1:
        return _gpu(row, text), ()
    others = ", ".join(other["name"] for other in rows[1:])
    return _gpu(row, text), (f"'{text}' is read as {row['name']} ({row['intra_node']}); the other form is {others}",)
