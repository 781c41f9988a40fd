"""Distances, ways and loads, held to a search of one node after the other."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.servers import servers
from wiresum.topology.graph import UNREACHABLE, Graph
from wiresum.topology.hashing import loads, path
from wiresum.topology.model import Link, Node, Topology
from wiresum.topology.paths import RoutedTopology


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
    graph = Graph.of(topology)
    found = graph.hops_to(np.arange(graph.node_count))
    for target, name in enumerate(graph.names):
        wanted = search(topology, name)
        assert found[target].tolist() == [wanted.get(other, UNREACHABLE) for other in graph.names]


def test_arcs_keep_the_bandwidth_of_their_direction():
    graph = Graph.of(
        Topology(
            name="pair",
            nodes=[Node(name="a", kind="worker"), Node(name="b", kind="switch")],
            links=[Link(id="l", source="a", target="b", bandwidth_bps=1e9, reverse_bandwidth_bps=2e9)],
        )
    )
    assert [(graph.arc_name(arc), graph.bandwidth_bps[arc]) for arc in (0, 1)] == [("a → b", 1e9), ("b → a", 2e9)]


def test_a_fat_tree_of_32_ports_is_held_whole():
    topology = fat_tree(32)
    graph = Graph.of(topology)
    assert (graph.forwards.sum(), (~graph.forwards).sum()) == (1280, 8192)
    hops = graph.hops_to(np.array([graph.index["ps"]]))[0]
    assert hops[~graph.forwards].max() == 6
    assert all(node.address for node in topology.with_addresses().nodes if node.kind != "switch")


@pytest.mark.parametrize("shape", ["star", "ring", "mesh"])
def test_servers_and_switches_that_sum_are_told_from_others(shape):
    graph = Graph.of(ingo(shape))
    summing = {graph.names[i] for i in np.flatnonzero(graph.adding_bps)}
    assert summing == {"S1", "S2", "S3", "S4", "ps"}
    assert np.isinf(Graph.of(servers(2, 1)).memory_bytes).all()


@given(topologies())
def test_every_pair_has_one_shortest_way(topology):
    graph, network = Graph.of(topology), RoutedTopology(topology)
    hops = graph.hops_to(np.arange(graph.node_count))
    for target in range(graph.node_count):
        for source in range(graph.node_count):
            found = path(graph, source, target)
            names = graph.names[source], graph.names[target]
            if hops[target, source] == UNREACHABLE:
                assert found == ()
                with pytest.raises(PlanError, match="does not reach"):
                    network.path(*names)
                continue
            assert len(found) == hops[target, source]
            said = [(topology.links[arc // 2].id, graph.names[graph.source[arc]]) for arc in found]
            assert said == [(one.link, one.source) for one in network.path(*names)]


@given(topologies(), st.integers(0, 8))
def test_a_load_is_its_bytes_times_its_distance(topology, target):
    graph = Graph.of(topology)
    target %= graph.node_count
    source = np.arange(graph.node_count)
    sent = np.arange(1.0, graph.node_count + 1)
    hops = graph.hops_to(np.array([target]))[0]
    on_arc = loads(graph, source, np.full(graph.node_count, target), sent)
    reached = hops != UNREACHABLE
    assert on_arc.sum() == pytest.approx((sent * hops)[reached].sum())
    assert on_arc[graph.target == target].sum() == pytest.approx(sent[reached & (hops > 0)].sum())


def test_pairs_spread_over_parallel_links():
    graph = Graph.of(leaf_spine(leaves=2, spines=1, hosts_per_leaf=40, bundle=4))
    workers = np.array([graph.index[f"w{i}"] for i in range(40)])
    server = np.full(40, graph.index["ps"])
    up = loads(graph, workers, server, np.ones(40))[graph.source == graph.index["leaf0"]]
    used = up[up > 0]
    assert len(used) == 4
    assert used.sum() == 40


def test_pairs_spread_over_a_fat_tree():
    """4,096 pairs over 64 links to the core: 64 on each, more or less. The hash is fixed: this is no chance."""
    graph = Graph.of(fat_tree(8, programmable=0.0))
    hosts = np.flatnonzero(~graph.forwards)
    source, target = (one.ravel() for one in np.meshgrid(hosts[:64], hosts[64:]))
    core = np.array([name.startswith("core") for name in graph.names])
    up = loads(graph, source, target, np.ones(len(source)))[core[graph.target]]
    used = up[up > 0]
    assert (len(used), used.sum()) == (64, 4096)
    assert used.min() > 32
    assert used.max() < 128
