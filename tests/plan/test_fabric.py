"""Distances and loads, held to a search of one node after the other."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.plan import Link, Node, Topology
from wiresum.plan.fabric import UNREACHABLE, Fabric
from wiresum.plan.topologies import fat_tree, ingo, leaf_spine, servers


@st.composite
def topologies(draw):
    count = draw(st.integers(2, 9))
    kinds = draw(st.lists(st.sampled_from(["worker", "switch"]), min_size=count, max_size=count))
    ends = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=16))
    nodes = [Node(name=f"n{i}", kind=kind) for i, kind in enumerate(kinds)]
    links = [Link(id=f"l{i}", source=f"n{a}", target=f"n{b}") for i, (a, b) in enumerate(pairs) if a != b]
    return Topology(name="random", nodes=nodes, links=links)


def search(topology: Topology, target: str) -> dict[str, int]:
    """Distances by the definition: workers and servers do not forward."""
    hops, queue = {target: 0}, deque([target])
    while queue:
        name = queue.popleft()
        if name != target and topology.node(name).kind != "switch":
            continue
        for other in (link.other_end(name) for link in topology.links_of(name)):
            if other not in hops:
                hops[other] = hops[name] + 1
                queue.append(other)
    return hops


@given(topologies())
def test_distances_are_those_of_a_plain_search(topology):
    fabric = Fabric.of(topology)
    found = fabric.hops_to(np.arange(fabric.node_count))
    for target, name in enumerate(fabric.names):
        wanted = search(topology, name)
        assert found[target].tolist() == [wanted.get(other, UNREACHABLE) for other in fabric.names]


@given(topologies(), st.integers(0, 8))
def test_a_load_is_its_bytes_times_its_distance(topology, target):
    fabric = Fabric.of(topology)
    target %= fabric.node_count
    sent = np.arange(1.0, fabric.node_count + 1)
    hops = fabric.hops_to(np.array([target]))[0]
    on_arc = fabric.loads(target, sent)
    reached = hops != UNREACHABLE
    assert on_arc.sum() == pytest.approx((sent * hops)[reached].sum())
    arrived = on_arc[fabric.target == target].sum()
    assert arrived == pytest.approx(sent[reached & (hops > 0)].sum())


def test_parallel_links_share_evenly():
    fabric = Fabric.of(leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, bundle=4))
    sent = np.zeros(fabric.node_count)
    sent[fabric.index["w0"]] = 8.0
    on_arc = fabric.loads(fabric.index["ps"], sent)
    assert sorted(on_arc[on_arc > 0].tolist()) == [2.0] * 8 + [8.0] * 2


def test_arcs_keep_the_bandwidth_of_their_direction():
    fabric = Fabric.of(
        Topology(
            name="pair",
            nodes=[Node(name="a", kind="worker"), Node(name="b", kind="switch")],
            links=[Link(id="l", source="a", target="b", bandwidth_bps=1e9, reverse_bandwidth_bps=2e9)],
        )
    )
    assert [(fabric.arc_name(arc), fabric.bandwidth_bps[arc]) for arc in (0, 1)] == [("a → b", 1e9), ("b → a", 2e9)]


def test_a_fat_tree_of_32_ports_is_held_whole():
    topology = fat_tree(32)
    fabric = Fabric.of(topology)
    assert (fabric.forwards.sum(), (~fabric.forwards).sum()) == (1280, 8192)
    hops = fabric.hops_to(np.array([fabric.index["ps"]]))[0]
    assert hops[~fabric.forwards].max() == 6
    assert all(node.address for node in topology.with_addresses().nodes if node.kind != "switch")


@pytest.mark.parametrize("shape", ["star", "ring", "mesh"])
def test_servers_and_switches_that_sum_are_told_from_others(shape):
    fabric = Fabric.of(ingo(shape))
    summing = {fabric.names[i] for i in np.flatnonzero(fabric.adding_bps)}
    assert summing == {"S1", "S2", "S3", "S4", "ps"}
    assert np.isinf(Fabric.of(servers(2, 1)).memory_bytes).all()
