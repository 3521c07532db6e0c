"""Writes docs/models.md, what zeroconf knows by name, from its tables: ``python docs/write_models.py``.

A test fails when it is stale.
"""

from __future__ import annotations

from pathlib import Path

from write_rules import table

from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import FAMILIES
from zeroconf.inputs.tables import read_table
from zeroconf.units import count

PAGE = Path(__file__).parent / "models.md"
HEAD = """# Models, GPUs, links and instances that zeroconf knows

<!-- written by docs/write_models.py -->

*verified*: read in the source named. *measured*: a published measurement. *assumed*: derived, as the source says.
*recalled*: from memory, nobody has read it again. Where an assumed or recalled figure decides something, the output
says so under Notes. Sources are public repositories (`owner/name@commit:path`) and pages.

"""
MODELS = """## Models

`--model` takes the name, the Hugging Face id or an alias, leniently: case and separators do not matter, nor a copy's
suffix (`-instruct`, `-chat`, `-hf`); a shortened name is read when only one model has its words. Parameters are
derived from the architecture, tied ones counted once, and are those of Transformers' own module; *active* are those
that a token passes through. Of vision-language models it is the language part; DeepSeek's multi-token prediction is not
counted.

"""
READ = """## Architectures

A `config.json` is read and its parameters are counted for these `model_type`s, also as the `text_config` of a
vision-language model: {families}. Of another architecture `--params 7B` beside the configuration gives the number of
parameters, and the shape is read as far as it has the usual names; beside a model that is counted it is refused, unless
it says the same.

"""
GPUS = """## GPUs

Memory is what PyTorch reports as the card's total; rates are dense peaks.

"""
LINKS = """## Links

*Rate* is what ring collectives reach in one direction (NCCL's bus bandwidth), *low* the pessimistic end; of a network
all ports of a node together: `8xib-ndr` is eight times `ib-ndr`.

"""
INSTANCES = """## Instances

"""
GPU_COLUMNS = "name | architecture | memory | half TFLOPS | memory GB/s | link in a node | confidence | source"
LINK_COLUMNS = (
    "name, aliases | joins | line, Gb/s | rate, GB/s | low, GB/s | latency of a hop, us | confidence | source"
)
INSTANCE_COLUMNS = "name | provider | GPUs | host memory | local NVMe | network | confidence | source | notes"


def _row(*cells: object) -> str:
    return " | ".join(str(cell).replace("|", "/") for cell in cells)


def _names(row: dict[str, str]) -> str:
    return ", ".join([row["name"], *filter(None, row["aliases"].split("|"))])


def _models() -> str:
    rows = []
    for entry in catalogue.entries():
        model = catalogue.spec(entry, entry["name"])
        called = ", ".join([entry["id"], *entry["aliases"]])
        active = count(model.num_active_parameters) if model.num_experts else ""
        size = f"{model.num_parameters:,}"
        rows.append(_row(entry["name"], called, model.architecture, size, active, entry["confidence"], entry["source"]))
    return table("name | id, aliases | architecture | parameters | active | confidence | source", rows)


def _gpu(row: dict[str, str]) -> str:
    facts = ("half_tflops", "memory_bandwidth_gb_per_second", "intra_node", "confidence", "source")
    memory = f"{int(row['memory_bytes']) / 2**30:.2f} GiB ({row['memory_source']})" if row["memory_bytes"] else ""
    return _row(row["name"], row["architecture"], row["refused"] or memory, *(row[key] for key in facts))


def _link(row: dict[str, str]) -> str:
    facts = ("bandwidth_gb_per_second", "low_gb_per_second", "latency_us", "confidence", "source")
    return _row(_names(row), row["scope"], row["line_gbit_per_second"], *(row[key] for key in facts))


def _instance(row: dict[str, str]) -> str:
    memory = f"{row['host_memory_gib']} GiB" if row["host_memory_gib"] else "not known"
    facts = (row[key] for key in ("confidence", "source", "notes"))
    gpus = f"{row['gpus_per_node']} x {row['gpu']}"
    return _row(row["name"], row["provider"], gpus, memory, _drives(row), row["network"], *facts)


def _drives(row: dict[str, str]) -> str:
    return f"{row['nvme_drives']} x {row['nvme_gb_per_drive']} GB" if row["nvme_drives"] else "none known"


def text() -> str:
    """The page, whole."""
    read = READ.format(families=", ".join(f"`{family}`" for family in sorted(FAMILIES)))
    gpus = table(GPU_COLUMNS, [_gpu(row) for row in read_table("gpus")])
    links = table(LINK_COLUMNS, [_link(row) for row in read_table("links")])
    instances = table(INSTANCE_COLUMNS, [_instance(row) for row in read_table("instances")])
    parts = (HEAD, MODELS, _models(), read, GPUS, gpus, LINKS, links, INSTANCES, instances)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
