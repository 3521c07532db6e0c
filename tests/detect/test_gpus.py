from __future__ import annotations

import itertools
import os
import stat

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from machines import A100, GIB, MIB, FakeNvml, all_pairs, dgx, make_machine

from zeroconf.detect.cards import add_gpus
from zeroconf.detect.devices import Device, chosen_devices, has_ring
from zeroconf.detect.findings import Findings
from zeroconf.detect.gpus import find_gpus
from zeroconf.detect.jobs import Job

# the cube mesh of a DGX-1: two quads, and a link from each GPU to its twin
CUBE = [*all_pairs(4), *((a + 4, b + 4) for a, b in all_pairs(4)), *((a, a + 4) for a in range(4))]


def found(root, nvml=None, job=None, **environment):
    findings = Findings()
    add_gpus(findings, find_gpus(make_machine(root, environment=environment, nvml=nvml)), job or Job())
    return findings


def test_a_dgx(tmp_path):
    nvml = dgx()
    findings = found(tmp_path, nvml)
    assert findings.values == {"gpus_per_node": 8, "gpu": "A100-SXM4-80GB", "intra_node": "nvlink3"}
    assert findings.sources["gpu"] == "NVML (driver 550.54.15): NVIDIA A100-SXM4-80GB"
    assert findings.sources["intra_node"].endswith("NVLink joins all over NVSwitch")
    assert not findings.unknown
    assert not findings.notes
    assert nvml.running == 0


@pytest.mark.parametrize(
    ("name", "number", "pairs", "options", "link"),
    [
        ("Tesla V100-SXM2-32GB", 8, CUBE, {}, "nvlink2"),
        ("NVIDIA A100 80GB PCIe", 4, [(0, 1), (2, 3)], {}, "pcie4"),
        ("NVIDIA A100 80GB PCIe", 2, [(0, 1)], {}, "nvlink3-bridge-a100"),
        ("NVIDIA A100-PCIE-40GB", 4, [], {}, "pcie4"),
        ("NVIDIA GeForce RTX 4090", 2, [], {"peers": False}, "pcie4-no-p2p"),
        ("NVIDIA A10G", 1, [], {}, None),
    ],
)
def test_the_link_between_them(tmp_path, name, number, pairs, options, link):
    memory = {"32GB": 32 * GIB, "40GB": 40 * GIB, "80GB": 80 * GIB}
    total = next((size for label, size in memory.items() if label in name), 24 * GIB)
    findings = found(tmp_path, FakeNvml([{"name": name, "memory": total, "reserved": 0}] * number, pairs, **options))
    assert findings.values.get("intra_node") == link
    assert "intra_node" not in findings.unknown
    assert bool(findings.notes) == (pairs == [(0, 1), (2, 3)])


@pytest.mark.parametrize(("card", "link"), [({"width": 8}, "pcie4-x8"), ({"pcie": 3}, "pcie3"), ({"pcie": 7}, None)])
def test_the_slowest_card_says_the_class_of_pcie(tmp_path, card, link):
    cards = [{"name": "NVIDIA A10G", "memory": 24 * GIB} | extra for extra in ({}, card)]
    findings = found(tmp_path, FakeNvml(cards if card.get("pcie") != 7 else [cards[1]] * 2))
    assert findings.values.get("intra_node") == link
    assert ("intra_node" in findings.unknown) == (link is None)


def test_mixed_types_are_one_sentence_and_the_majority_counts(tmp_path):
    cards = [{"name": "Tesla T4", "memory": 15360 * MIB}, *[{"name": A100}] * 3]
    findings = found(tmp_path, FakeNvml(cards, [(1, 2), (2, 3), (1, 3)]))
    assert findings.values == {"gpus_per_node": 3, "gpu": "A100-SXM4-80GB", "intra_node": "nvlink3"}
    (note,) = findings.notes
    assert "the 3 x NVIDIA A100-SXM4-80GB, not 1 x Tesla T4" in note
    assert note.endswith("CUDA_VISIBLE_DEVICES=1,2,3")


def test_mig_instances_are_left_out(tmp_path):
    some = found(tmp_path, FakeNvml([{"name": A100, "mig": True}, {"name": A100}, {"name": A100}], [(1, 2)]))
    assert some.values["gpus_per_node"] == 2
    assert "MIG" in some.notes[0]
    every = found(tmp_path, FakeNvml([{"name": A100, "mig": True}]))
    assert "gpu" not in every.values
    assert "every GPU of this node is split into MIG instances" in every.unknown["gpus_per_node"]
    chosen = found(tmp_path, FakeNvml([{"name": A100, "mig": True}]), CUDA_VISIBLE_DEVICES="MIG-8a4e5f26")
    assert chosen.unknown["gpus_per_node"].startswith("CUDA_VISIBLE_DEVICES names MIG instances")


def test_an_unknown_card_is_described(tmp_path):
    card = {"name": "NVIDIA GeForce RTX 3080", "memory": 10 * GIB, "reserved": 300 * MIB, "bus": 320, "clock": 9501}
    findings = found(tmp_path, FakeNvml([card]))
    # 760 GB/s by the data sheet
    entry = {"name": "NVIDIA GeForce RTX 3080", "memory": "9.7GiB", "memory_bandwidth": "760.1GB/s"}
    assert findings.values["gpu"] == entry
    assert [*findings.unknown] == ["gpu.bf16_tflops"]
    silent = found(tmp_path, FakeNvml([card | {"capability": (7, 5)}], refuses={"nvmlDeviceGetMemoryBusWidth"}))
    assert [*silent.unknown] == ["gpu.fp16_tflops", "gpu.memory_bandwidth"]


def test_a_known_card_with_another_memory(tmp_path):
    findings = found(tmp_path, FakeNvml([{"name": A100, "memory": 40 * GIB, "reserved": 0}]))
    assert findings.values["gpu"] == {"name": "A100-SXM4-80GB", "memory": "40GiB"}


def test_what_the_driver_refuses_is_unknown(tmp_path):
    names = [name for name in dir(FakeNvml) if name.startswith("nvmlDeviceGet")]
    for name in names:
        findings = found(tmp_path, FakeNvml([{"name": A100}] * 2, [(0, 1)], refuses={name}))
        assert findings.values.get("gpus_per_node", 0) in {0, 2}, name
        assert findings.values or findings.unknown
    links = found(tmp_path, FakeNvml([{"name": A100}] * 2, refuses={"nvmlDeviceGetP2PStatus"}))
    assert "the driver does not say what joins the GPUs" in links.unknown["intra_node"]


def test_an_old_release_answers_in_bytes(tmp_path):
    nvml = FakeNvml([{"name": A100}], as_bytes=True)
    assert found(tmp_path, nvml).values["gpu"] == "A100-SXM4-80GB"


def test_no_driver_no_gpu(tmp_path):
    for nvml, why in (
        (None, "nvidia-ml-py is not installed"),
        (FakeNvml([], refuses={"nvmlInit"}), "NVML: Not Supported"),
        (FakeNvml([]), "the driver shows no GPU"),
    ):
        findings = found(tmp_path, nvml)
        assert findings.values == {}
        assert why in findings.unknown["gpus_per_node"]
        assert "gpu" in findings.unknown


def test_the_names_are_those_of_nvidias_package():
    pynvml = pytest.importorskip("pynvml")
    ours = [name for name in dir(FakeNvml) if name.startswith(("nvml", "NVML"))]
    assert [name for name in ours if not hasattr(pynvml, name)] == []
    assert pynvml.nvmlMemory_v2 == FakeNvml.nvmlMemory_v2
    assert pynvml.NVML_P2P_CAPS_INDEX_NVLINK == 2
    assert pynvml.NVML_P2P_STATUS_OK == 0
    assert pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH == FakeNvml.NVML_NVLINK_DEVICE_TYPE_SWITCH


# --- what a program sees ---------------------------------------------------------------------------


def test_visible_devices(tmp_path):
    few = found(tmp_path, dgx(), CUDA_VISIBLE_DEVICES="4,5")
    assert few.values["gpus_per_node"] == 2
    assert few.notes == ["not all GPUs of this node are counted: CUDA_VISIBLE_DEVICES=4,5"]
    none = found(tmp_path, dgx(), CUDA_VISIBLE_DEVICES="")
    assert "CUDA_VISIBLE_DEVICES= hides all of them" in none.unknown["gpus_per_node"]
    by_uuid = found(tmp_path, dgx(), CUDA_VISIBLE_DEVICES="GPU-00000003-0000")
    assert by_uuid.values["gpus_per_node"] == 1


ITEMS = st.sampled_from(["0", "1", "7", "8", "-1", "", " 2", "+3", "1gpu", "x", "GPU-0", "MIG-1", "4 ", "00"])


@given(st.lists(ITEMS, max_size=5).map(",".join))
@example("1,1")
@example("0,9,1")
def test_ordinals_are_read_as_pytorch_reads_them(text):
    if text.startswith(("GPU-", "MIG-")):
        return
    devices = tuple(Device(index=index, name="A") for index in range(8))
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = text
    try:
        asked = torch.cuda._parse_visible_devices()
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
    # as torch.cuda._device_count_nvml: what comes before the first ordinal that is too high
    expected = list(itertools.takewhile(lambda ordinal: ordinal < len(devices), asked))
    assert [device.index for device in chosen_devices(text, devices)] == expected


def test_rings():
    assert has_ring([0, 1], frozenset({(0, 1)}))
    assert not has_ring([0, 1], frozenset())
    assert has_ring([*range(8)], frozenset(CUBE))
    assert not has_ring([*range(4)], frozenset({(0, 1), (2, 3)}))
    assert not has_ring([*range(4)], frozenset({(0, 1), (1, 2), (2, 3)}))
    assert has_ring([*range(72)], frozenset(all_pairs(72)))


# --- without NVML --------------------------------------------------------------------------------


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{folder}:/usr/bin:/bin"


NVIDIA_SMI = """
case "$*" in
  *mig.mode*) printf '0, Disabled\\n1, [N/A]\\n' ;;
  *query-gpu*) printf '0, GPU-aa, NVIDIA A100-SXM4-40GB, 40960, 4, 16\\n'
               printf '1, GPU-bb, NVIDIA A100-SXM4-40GB, 40960, 4, 16\\n' ;;
  "topo -m") printf '\\t\\033[4mGPU0\\tGPU1\\tmlx5_0\\tCPU Affinity\\033[0m\\nGPU0\\t X \\tNV12\\tSYS\\t0-63\\n'
             printf 'GPU1\\tNV12\\t X \\tSYS\\t0-63\\nmlx5_0\\tSYS\\tSYS\\t X\\n\\nLegend:\\n  X = Self\\n' ;;
esac
"""
ROCM_SMI = """
echo 'WARNING: AMD GPU device(s) is/are in a low-power state'
case "$*" in
  *topotype*) echo '{"system": {"(Topology) Link type between DRM devices 0 and 1": "XGMI"}}' ;;
  *) echo '{"card1": {"VRAM Total Memory (B)": "206141652992", "Card Series": "AMD Instinct MI300X"},'
     echo ' "card0": {"VRAM Total Memory (B)": "206141652992", "Card series": "AMD Instinct MI300X"}, "system": {}}' ;;
esac
"""


def test_nvidia_smi_answers_where_nvml_cannot(tmp_path):
    path = program(tmp_path / "bin", "nvidia-smi", NVIDIA_SMI)
    findings = found(tmp_path, None, PATH=path)
    assert findings.values == {"gpus_per_node": 2, "gpu": "A100-SXM4-40GB", "intra_node": "nvlink3"}
    assert findings.sources["gpus_per_node"] == "nvidia-smi"
    broken = program(tmp_path / "broken", "nvidia-smi", "echo NVIDIA-SMI has failed; exit 9")
    assert "gpu" not in found(tmp_path, None, PATH=broken).values
    odd = program(tmp_path / "odd", "nvidia-smi", "printf '\\377\\000,,,\\n\"\\n'")
    assert "gpu" not in found(tmp_path, None, PATH=odd).values


def test_rocm_smi(tmp_path):
    path = program(tmp_path / "bin", "rocm-smi", ROCM_SMI)
    findings = found(tmp_path, None, PATH=path)
    assert findings.values == {"gpus_per_node": 2, "gpu": "MI300X-192GB", "intra_node": "xgmi"}
    one = found(tmp_path, None, PATH=path, HIP_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="")
    assert one.values["gpus_per_node"] == 1


# --- and the job's word ------------------------------------------------------------------------------


def test_a_job_may_have_fewer_than_the_node(tmp_path):
    fewer = found(tmp_path, dgx(), Job(gpus_per_node=4, gpus_source="SLURM_GPUS_ON_NODE"))
    assert fewer.values["gpus_per_node"] == 4
    assert fewer.sources["gpus_per_node"] == "SLURM_GPUS_ON_NODE, of 8 by NVML (driver 550.54.15)"
    more = found(tmp_path, dgx(2), Job(gpus_per_node=4, gpus_source="hostfile"))
    assert more.values["gpus_per_node"] == 2
    assert more.notes == ["hostfile gives this node 4 GPUs, NVML (driver 550.54.15) shows 2"]


def test_a_head_node_knows_the_number_only(tmp_path):
    findings = found(tmp_path, None, Job(gpus_per_node=8, gpu_type="a100", gpus_source="SLURM_GPUS_PER_NODE"))
    assert findings.values == {"gpus_per_node": 8}
    assert "Slurm calls it a100" in findings.unknown["gpu"]
