"""The sizes and networks that a report tells of."""

from __future__ import annotations

import pytest

from zeroconf import api
from zeroconf.plan.changes import with_workload
from zeroconf.plan.scenarios import NETWORKS, scenarios


def around(hardware, **options):
    facts, _ = api.load_facts({"model": "llama-3.2-1b", "hardware": hardware, **options})
    return facts, scenarios(facts)


def sizes(found):
    return list(dict.fromkeys(one.cluster.num_gpus for one in found))


@pytest.mark.parametrize(
    ("hardware", "numbers"),
    [
        ("8xA100-80GB", [1, 2, 4, 8, 16, 32, 64]),
        ("1xRTX4090", [1, 2, 4, 8]),
        ("3x8xA100-80GB", [2, 4, 8, 24, 48]),
        ("16x8xH100-80GB", [16, 32, 64, 128, 256]),
        ("8x1xA100-80GB", [1, 2, 4, 8, 16]),
        ("512x8xH100-80GB", [512, 1024, 2048, 4096]),
    ],
)
def test_sizes_lie_around_the_given_one(hardware, numbers):
    facts, found = around(hardware)
    assert sizes(found) == numbers
    assert found.count(facts) == 1


def test_one_node_has_one_case_and_several_have_each_network():
    _, found = around("8xA100-80GB")
    of = {number: [one.cluster for one in found if one.cluster.num_gpus == number] for number in sizes(found)}
    assert [cluster.network for cluster in of[8]] == [None]
    assert [cluster.network.name for cluster in of[64]] == list(NETWORKS)


def test_a_given_network_has_its_place_among_the_classes():
    facts, found = around("2x8xA100-80GB", network="roce-100")
    links = [one.cluster.network for one in found if one.cluster.num_gpus == 16]
    assert [link.name for link in links] == ["1gbe", "10gbe", "25gbe", "100gbe", "roce-100", "ib-hdr", "ib-ndr"]
    assert facts in found


def test_the_global_batch_grows_with_the_gpus_alone():
    _, found = around("8xA100-80GB", global_batch_size=16)
    batches = {one.cluster.num_gpus: one.workload.global_batch_size for one in found}
    assert batches == {1: 16, 2: 16, 4: 16, 8: 16, 16: 16, 32: 32, 64: 64}


def test_ranks_that_share_a_layer_stay_together():
    facts, _ = around("8xA100-80GB")
    shared = with_workload(facts, tensor_parallel_size=4)
    assert sizes(scenarios(shared)) == [4, 8, 16, 32, 64]
