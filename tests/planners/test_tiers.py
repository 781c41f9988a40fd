"""Tiers: loads against sets that are sent over links one by one, and thresholds against all others."""

from collections import Counter
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.sparse import SparsePart
from wiresum.planners.tiers.instance import SparseInstance, servers_of
from wiresum.planners.tiers.methods import push_pull, tiers_at, zebra_flow
from wiresum.planners.tiers.planner import tiers
from wiresum.planners.tiers.rounds import Rounds
from wiresum.planners.tiers.search import HARDLY, best
from wiresum.predict.forms import bare
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.sparse.spec import parse
from wiresum.topology.generators.star import star
from wiresum.topology.model import Link, Node, Topology

ROW = 64
PUBLISHED = {
    (8, 1): (3.89, 0.02), (32, 1): (6.06, 0.02), (32, 4): (3.39, 0.02), (32, 0): (1.39, 0.03), (8, 4): (1.98, 0.02)
}  # fmt: skip
"""Gains over push/pull on criteo:scale=0.1,batch=512, by workers and servers (0: one beside each), and how near."""


def two_racks(rates, leaf_sums=(True, True), memory=None):
    """w0, w1 below leaf0, w2, w3 below leaf1; both and the server s0 below the spine."""
    sums = [8e9 if one else 0.0 for one in leaf_sums]
    nodes = [
        *(Node(name=f"w{index}", kind="worker") for index in range(4)),
        Node(name="s0", kind="ps", aggregation_rate_bps=8e9),
        Node(name="leaf0", kind="switch", aggregation_rate_bps=sums[0], memory_bytes=memory),
        Node(name="leaf1", kind="switch", aggregation_rate_bps=sums[1], memory_bytes=memory),
        Node(name="spine", kind="switch", aggregation_rate_bps=8e9, memory_bytes=memory),
    ]
    ends = [("w0", "leaf0"), ("w1", "leaf0"), ("w2", "leaf1"), ("w3", "leaf1"), ("leaf0", "spine"), ("leaf1", "spine"),
            ("s0", "spine")]  # fmt: skip
    links = [
        Link(id=f"l{index}", source=source, target=target, bandwidth_bps=up, reverse_bandwidth_bps=down)
        for index, ((source, target), (up, down)) in enumerate(zip(ends, rates, strict=True))
    ]
    return Topology(name="racks", nodes=nodes, links=links)


EVEN = [(1e6, 1e6)] * 7
rates_of_racks = st.lists(st.tuples(st.floats(1e5, 1e7), st.floats(1e5, 1e7)), min_size=7, max_size=7)


def counted(workers, seed=0, rows=60, rounds=1):
    trace = parse(f"zipf:rows={rows},s=1.1,features=3,batch=6", seed=seed)
    return trace, Counts.of(trace, workers, rounds)


def bounded(topology, servers):
    """A network on which nothing but keys and values travels."""
    return SparseNetwork(topology, servers, bare(), bare(8, 8))


def instance(topology, counts, trace, servers=None, **more):
    return SparseInstance(SparseNetwork(topology, servers or servers_of(topology)), trace.tables.tables, counts, **more)


def layer(ends):
    """Kinds of the nodes at both ends."""
    return tuple(end.rstrip("0123456789") for end in ends)


def sent_over_racks(trace, hottest, hot, dense, leaves_sum):
    """Bytes on each direction, by sending every set of rows on its way."""
    bytes_on: Counter[tuple[str, str]] = Counter()
    pushed = {f"w{rank}": set(trace.pushed(0, rank, 4).tolist()) for rank in range(4)}

    def send(source, target, rows, key):
        bytes_on[source, target] += len(rows) * (ROW + key)

    union_a = set().union(*pushed.values()) & hottest
    for leaf, racks in (("leaf0", ("w0", "w1")), ("leaf1", ("w2", "w3"))):
        a = [pushed[worker] & hottest for worker in racks]
        b = [(pushed[worker] & hot) - hottest for worker in racks]
        for worker, of_a, of_b in zip(racks, a, b, strict=True):
            cold = pushed[worker] - hot
            send(worker, leaf, of_a, 2)
            send(worker, leaf, of_b | cold, 4)
            send(leaf, worker, union_a, 2)
            for hop in ((worker, leaf), (leaf, "spine"), ("spine", "s0")):
                bytes_on[hop] += 4 * len(of_b | cold)  # what is asked for
            for hop in ((leaf, worker), ("spine", leaf), ("s0", "spine")):
                send(*hop, of_b | cold, 4)
            for hop in ((leaf, "spine"), ("spine", "s0")):
                send(*hop, cold, 4)
            bytes_on[worker, leaf] += dense
            bytes_on[leaf, worker] += dense
        for of_a in [set().union(*a)] if leaves_sum else a:
            send(leaf, "spine", of_a, 2)
            send("spine", leaf, union_a, 2)
            bytes_on[leaf, "spine"] += dense
            bytes_on["spine", leaf] += dense
        for of_b in [set().union(*b)] if leaves_sum else b:
            send(leaf, "spine", of_b, 4)
    send("spine", "s0", (set().union(*pushed.values()) & hot) - hottest, 4)
    return bytes_on


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_loads_are_those_of_sets_that_are_sent(seed, first, second, leaves_sum):
    trace, counts = counted(4, seed)
    network = bounded(two_racks(EVEN, (leaves_sum, leaves_sum)), ["s0"])
    asked = SparseInstance(network, trace.tables.tables, counts, dense_bytes=1000)
    rounds = Rounds(asked, tiers_at(network, network.graph.index["spine"]))
    first, second = sorted((counts.place(first), counts.place(second)))
    keys = {int(trace.ranks(np.array([key]))[0]): key for key in range(60)}
    hottest, hot = ({keys[rank] for rank in range(counts.ranks_up_to(place))} for place in (first, second))
    expected = sent_over_racks(trace, hottest, hot, 1000, leaves_sum)
    found = rounds.capacities(first, second) * 1e6 / 8
    graph = network.graph
    # Loads are means over workers and over racks, so each layer of links is compared as a whole.
    layers: Counter[tuple[str, str]] = Counter()
    for ends, sent in expected.items():
        layers[layer(ends)] += sent
    for index in range(graph.arc_count):
        layers[layer(graph.arc_name(index).split(" → "))] -= found[index]
    assert layers == {ends: pytest.approx(0, abs=1e-6) for ends in layers}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), rates_of_racks, st.integers(0, 20_000), st.integers(0, 60), st.integers(0, 60))
def test_small_instances_are_solved_as_well_as_by_trying_everything(seed, rates, dense, replicas, memory_rows):
    trace, counts = counted(4, seed)
    network = SparseNetwork(two_racks(rates), ["s0"])
    asked = SparseInstance(network, trace.tables.tables, counts, dense)
    rounds = Rounds(asked, tiers_at(network, network.graph.index["spine"]))
    most, hot = counts.place(replicas), counts.place(memory_rows)
    found = best(rounds, most, hot)
    every = [rounds.seconds(a, b) for b in range(hot + 1) for a in range(min(most, b) + 1)]
    assert found.seconds == pytest.approx(min(every))
    assert found.replicated <= most
    assert found.replicated <= found.summed <= hot


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 99),
    rates_of_racks,
    st.integers(0, 200_000),
    st.lists(st.integers(0, 20_000), min_size=2, max_size=2),
)
def test_tiers_are_never_worse_than_fixed_thresholds(seed, rates, dense, thresholds):
    trace = parse("zipf:rows=20000,s=1.0,features=20,batch=64", seed=seed)
    asked = instance(two_racks(rates), Counts.of(trace, 4, 1), trace, dense_bytes=dense)
    part, counts = tiers(asked), asked.counts
    places = len(counts.seen)
    for root in asked.network.roots():
        rounds = Rounds(asked, tiers_at(asked.network, root))
        low, high = sorted(counts.place(rank) for rank in thresholds)
        others = [(0, 0), (0, places), (places, places), (low, low), (0, high), (low, high), (high, places)]
        least = min(rounds.seconds(*pair) for pair in others)
        assert part.seconds <= least * (1 + HARDLY) * (1 + 1e-9)
    for method in (push_pull(asked.network), zebra_flow(asked.network)):
        assert part.seconds <= Rounds(asked, method).seconds(0, 0) * (1 + HARDLY)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), rates_of_racks, st.integers(0, 6), st.booleans(), st.floats(1, 10))
def test_a_faster_link_never_makes_a_round_longer(seed, rates, link, up, factor):
    trace, counts = counted(4, seed)
    faster = list(rates)
    faster[link] = (rates[link][0] * factor, rates[link][1]) if up else (rates[link][0], rates[link][1] * factor)
    before, after = (tiers(instance(two_racks(one), counts, trace)) for one in (rates, faster))
    assert after.seconds <= before.seconds * (1 + HARDLY) * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(0, 8000), st.none() | st.integers(0, 60))
def test_memory_and_replicas_are_limits(seed, memory, replicas):
    trace, counts = counted(4, seed)
    part = tiers(instance(two_racks(EVEN, memory=memory or 1), counts, trace, replicas=replicas))
    assert part.replicated_rows + part.summed_rows <= (memory or 1) // (16 * 8 + 8)
    assert part.replicated_rows <= (60 if replicas is None else replicas)


def test_the_part_is_a_document_whose_loads_are_the_rounds():
    trace, counts = counted(4)
    part = tiers(instance(two_racks(EVEN), counts, trace, dense_bytes=500))
    assert SparsePart.parse(part.to_json()) == part
    assert max(load.seconds for load in part.loads) == pytest.approx(part.seconds)
    assert part.bottleneck in {f"{load.source} → {load.target}" for load in part.loads}
    assert part.updates_per_second == pytest.approx(4 * counts.pushed / part.seconds)
    assert part.root in {"spine", "leaf0", "leaf1"}


def test_where_nobody_sums_it_says_so():
    trace = parse("zipf:rows=20000,s=0,features=3,batch=6")
    counts = Counts.of(trace, 4, 1)
    quiet = two_racks(EVEN, (False, False))
    nodes = [
        node.model_copy(update={"aggregation_rate_bps": 0.0}) if node.name == "spine" else node for node in quiet.nodes
    ]
    part = tiers(instance(quiet.model_copy(update={"nodes": nodes}), counts, trace))
    assert not part.worthwhile
    assert part.summed_rows == 0
    assert "push rows to their servers" in part.reason


def test_a_slow_adder_is_avoided():
    trace, counts = counted(4)
    slow = two_racks([(1e9, 1e9)] * 7)
    nodes = [
        node.model_copy(update={"aggregation_rate_bps": 1e4}) if node.kind == "switch" else node for node in slow.nodes
    ]
    part = tiers(instance(slow.model_copy(update={"nodes": nodes}), counts, trace))
    assert (part.root in {None, "s0"}, part.summed_rows) == (True, 0)


@pytest.mark.parametrize(("place", "published"), PUBLISHED.items())
def test_gains_on_the_bench_trace_are_those_that_the_design_rests_on(place, published):
    (workers, servers), (gain, within) = place, published
    trace = parse("criteo:scale=0.1,batch=512")
    topology = star(workers, 20e6, servers=servers)
    names = servers_of(topology, servers or None, beside=not servers)
    part = tiers(SparseInstance(bounded(topology, names), trace.tables.tables, Counts.of(trace, workers, 2)))
    assert part.gains.push_pull == pytest.approx(gain, rel=within)
    assert part.worthwhile
    if servers:
        assert part.gains.zebra == pytest.approx(part.gains.push_pull / (80 / 68), rel=0.01), (
            "1.18 by shorter keys alone"
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"servers": ["w9"]}, "servers: w9 is not a host"),
        ({"servers": ["switch"]}, "servers: switch is not a host"),
        ({"servers": ["s0", "s0"]}, "servers: one is named twice"),
        ({"workers": 3}, "the trace is counted for 4 workers, the topology has 3"),
    ],
)
def test_what_cannot_be_asked_is_named(change, said):
    trace, counts = counted(4)
    topology = star(change.get("workers", 4), servers=1)
    with pytest.raises(PlanError, match=said):
        instance(topology, counts, trace, change.get("servers"))


def test_servers_are_counted():
    with pytest.raises(PlanError, match="topology star has 0, not one"):
        servers_of(star(4))
    with pytest.raises(PlanError, match="topology star has 2, not 3"):
        servers_of(star(4, servers=2), 3)
    assert servers_of(star(4, servers=2), 1) == ["s0"]
    assert servers_of(star(4), beside=True) == ["w0", "w1", "w2", "w3"]


def test_hot_rows_of_16_bit_tables_take_as_much_memory_as_others():
    topology, (wide, _) = two_racks(EVEN, memory=3_000), counted(4)
    narrow = copy(wide)
    tables = [table.model_copy(update={"type": "bfloat16"}) for table in wide.tables.tables]
    narrow.tables = wide.tables.model_copy(update={"tables": tables})
    limits = []
    for trace in (wide, narrow):
        asked = instance(topology, Counts.of(trace, 4, 1), trace)
        limits.append(asked.hot_rows_limit(set(asked.network.sums_below(asked.network.server_nodes))))
    assert limits[0] == limits[1] < wide.rows
