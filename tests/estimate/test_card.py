"""What is on a card beside tensors: each figure has its band and its source, and the sums are sums."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import A100_80, LLAMA_3_8B, NVLINK3, cluster, plan, workload

from zeroconf.estimate import card
from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.tables import read_table
from zeroconf.units import MIB

FIGURES = [*card.CONTEXT.values(), card.KERNELS, *card.COMMUNICATOR.values()]


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_lie_in_their_bands_and_name_a_source(figure):
    assert 0 < figure.low <= figure.value <= figure.high
    assert figure.confidence == "assumed" or "#" in figure.source


def test_every_card_has_an_architecture_and_the_known_ones_are_in_the_table():
    architectures = {row["architecture"] for row in read_table("gpus")}
    assert "" not in architectures
    assert set(card.CONTEXT) - {""} <= architectures


def test_one_card_has_no_nccl():
    alone = card.overhead(cluster(gpus_per_node=1), plan(2))
    assert alone.value == card.CONTEXT[""].value + card.KERNELS.value


def test_eight_a100_on_nvlink_as_documented():
    ampere = cluster(gpu=replace(A100_80, architecture="Ampere"))
    outside = card.overhead(ampere, plan(2))
    assert outside.value == pytest.approx(1.27e9, rel=0.01)
    assert outside.low == pytest.approx(0.67e9, rel=0.01)
    assert outside.high == pytest.approx(2.39e9, rel=0.01)


def test_hpz_opens_a_second_communicator_and_pcie_needs_less():
    one, two = (card.overhead(cluster(), plan(3, zero_hpz_partition_size=size)).value for size in (1, 8))
    assert two - one == card.COMMUNICATOR["nvlink"].value
    pcie = cluster(intra_node=replace(NVLINK3, name="pcie4", kind="pcie"))
    assert (
        one - card.overhead(pcie, plan(3)).value == card.COMMUNICATOR["nvlink"].value - card.COMMUNICATOR["pcie"].value
    )


def test_reserved_is_between_allocated_and_the_upper_bound():
    assert card.reserved_bytes(60 * 10**9, 600) == pytest.approx(61.3e9, rel=0.001)
    # small tensors share segments: no 2 MiB for each
    assert card.reserved_bytes(100 * MIB, 1000) == int(101 * MIB) + 1000 * 256 + 22 * MIB
    gpu = estimate(LLAMA_3_8B, cluster(), workload(), plan(2)).gpu
    assert gpu.low_bytes < gpu.peak_allocated_bytes < gpu.peak_reserved_bytes < gpu.high_bytes
