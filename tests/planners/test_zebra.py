"""Zebra's Principle 1."""

import pytest

from wiresum.planners.tiers.instance import SparseInstance, servers_of
from wiresum.planners.zebra import principle, zebra
from wiresum.predict.forms import bare
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.sparse.spec import parse
from wiresum.topology.generators.star import star


def asked(workers=8, spec="criteo:scale=0.01,batch=128", **more):
    trace, topology = parse(spec), star(workers, 20e6, servers=1)
    network = SparseNetwork(topology, servers_of(topology), bare(), bare(8, 8))
    return SparseInstance(network, trace.tables.tables, Counts.of(trace, workers, 2), **more)


def test_both_conditions_and_the_knee_are_told():
    instance = asked(memory_share=0.05, wanted_share=0.5)
    found = principle(instance)
    assert found.by_memory == 20_000_000 * 5 // 100 // 64
    assert instance.counts.hot(found.by_share).share >= 0.5 > instance.counts.hot(found.by_share - 1).share
    steps = [instance.counts.hot(found.knee + more).share for more in (-1000, 0, 1000)]
    assert steps[1] - steps[0] >= 0.01 > steps[2] - steps[1]
    assert found.rows == min(found.knee, found.by_memory)


def test_little_memory_binds():
    instance = asked(memory_share=0.001)
    assert principle(instance).rows == 20_000 // 64
    assert "less than wanted" in zebra(asked(memory_share=0.0001)).planner


@pytest.mark.parametrize("workers", [4, 32])
def test_its_flow_gains_nothing_but_shorter_keys_through_one_server(workers):
    part = zebra(asked(workers))
    assert part.gains.push_pull == pytest.approx(80 / 68)
    assert part.bottleneck == "s0 → switch", "the server answers every worker"
    assert part.replicated_rows == 0
    assert part.summed_rows == principle(asked(workers)).rows
