"""Trees, ways and shares decided together: against all trees written down, and never worse than any other planner."""

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment import traffic_of_plan
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign, plan
from wiresum.planners.comparison import compare
from wiresum.planners.joint.planner import route
from wiresum.planners.optimisation.programme import INFINITY, Programme
from wiresum.predict.cost import bound_seconds, cost_of, cost_of_plan
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

SIZE = 8_000_000
JOB = Job(sub_models=equal_parts("m", SIZE, 4), gradient_bytes=SIZE)
LIMIT = PlanOptions(time_limit_s=60.0)
"""A bound for a busy machine; each of these takes a fraction of a second."""
CLOSE = 1e-4
"""Relative: shares under 1/500 are left out, and these networks have few trees."""


def triangle(seed: int, workers: int = 3) -> Topology:
    """Three switches, two of which sum, joined by uneven links, with two or three workers and a server."""
    random = Random(seed)
    rate = lambda: random.choice([2e9, 3e9, 5e9, 10e9])  # noqa: E731
    sums = random.sample(range(3), 2)
    nodes = [
        Node(name=f"S{i}", kind="switch", aggregation_rate_bps=random.choice([8e9, 1e12]) if i in sums else 0)
        for i in range(3)
    ]
    nodes += [Node(name=f"w{i}", kind="worker") for i in range(workers)]
    nodes.append(Node(name="ps", kind="ps", aggregation_rate_bps=random.choice([6e9, 100e9])))
    ends = [("S0", "S1"), ("S1", "S2"), ("S0", "S2"), *((node.name, f"S{random.randrange(3)}") for node in nodes[3:])]
    links = [Link(id=f"{a}-{b}", source=a, target=b, bandwidth_bps=rate()) for a, b in ends]
    return Topology(name="triangle", nodes=nodes, links=links)


def simple_paths(topology: Topology, source: str, target: str) -> list[list[str]]:
    """Link names of every way between two nodes, through switches."""
    found: list[list[str]] = []

    def extend(node: str, seen: list[str], used: list[str]) -> None:
        if node == target:
            found.append(used)
        elif not used or topology.node(node).kind == "switch":
            for link in topology.links_of(node):
                other = link.other_end(node)
                if other not in seen:
                    extend(other, [*seen, other], [*used, link.id])

    extend(source, [source], [])
    return found


def all_trees(topology: Topology) -> list[dict[str, str]]:
    """Parents by child, for every set of nodes that sum and every root."""
    summing, workers = ([node.name for node in some] for some in (topology.summing_nodes, topology.workers))
    trees = []
    for members in (set(some) for n in range(1, len(summing) + 1) for some in itertools.combinations(summing, n)):
        for root in members:
            children = [*sorted(members - {root}), *workers]
            for parents in itertools.product(sorted(members), repeat=len(children)):
                tree = dict(zip(children, parents, strict=True))
                if all(reaches(tree, child, root) for child in tree):
                    trees.append(tree)
    return trees


def reaches(tree: dict[str, str], node: str, root: str) -> bool:
    steps = 0
    while node != root and steps <= len(tree):
        node, steps = tree[node], steps + 1
    return node == root


def best_by_trying(topology: Topology) -> float:
    """Seconds of the best mixture of all trees over all ways, by one linear programme."""
    rows = {link.id: link.bandwidth_bps for link in topology.links}
    rows |= {node.name: node.aggregation_rate_bps for node in topology.summing_nodes}
    columns = set()
    for tree in all_trees(topology):
        for ways in itertools.product(*(simple_paths(topology, child, parent) for child, parent in tree.items())):
            used = [link for way in ways for link in way] + list(tree.values())
            columns.add(tuple(used.count(row) for row in rows))
    uses = np.array(sorted(columns), dtype=np.float64).T
    programme = Programme(np.ones(uses.shape[1]), np.full(uses.shape[1], INFINITY))
    for row, limit_bps in zip(uses, rows.values(), strict=True):
        programme.row([(int(i), float(row[i])) for i in np.flatnonzero(row)], high=limit_bps / 1e9)
    return SIZE * 8 / (programme.solve(60.0).value * 1e9)


@pytest.mark.parametrize("seed", range(3))
def test_no_mixture_of_trees_and_ways_is_quicker(seed):
    topology = triangle(seed, workers=2)
    found = route(topology, JOB, LIMIT)
    assert found.solution.status == "optimal"
    assert found.solution.value == pytest.approx(best_by_trying(topology), rel=CLOSE)


def carried(topology: Topology, made) -> float:
    return bound_seconds(traffic_of_plan(topology, made, SIZE))


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_never_worse_than_another_planner(seed):
    topology = triangle(seed)
    found = route(topology, JOB, LIMIT)
    assert found.solution.bound <= found.solution.value
    for name in ("goat", "ingo", "atp", "switchml"):
        other = cost_of(assign(topology, JOB, LIMIT, name), predict=False)
        assert found.solution.value <= other.bound_seconds * (1 + CLOSE)
    by = {name: carried(topology, plan(topology, JOB, LIMIT, name)) for name in ("forest", "xagg", "joint")}
    assert found.solution.value <= min(by.values()) * (1 + CLOSE)
    assert by["joint"] == pytest.approx(found.solution.value, rel=CLOSE)


@pytest.mark.parametrize("topology", [triangle(5), triangle(6), goat(), ingo("ring"), xagg(), servers(4, 3)])
def test_the_value_is_what_the_busiest_link_needs(topology):
    found = route(topology, JOB, LIMIT)
    assert bound_seconds(found.traffic) == pytest.approx(found.solution.value, rel=1e-6)
    made = AggregationPlan.parse(plan(topology, JOB, LIMIT, "joint").to_json())
    cost = cost_of_plan(topology, made, SIZE)
    assert cost.bound_seconds == pytest.approx(made.solution.value, rel=1e-6)
    assert cost.predicted_seconds >= cost.bound_seconds * (1 - 1e-6)
    assert cost.total_bytes == pytest.approx(found.traffic.arc_bytes.sum())


def test_on_links_that_hash_badly_ways_are_worth_naming():
    topology = leaf_spine(4, 3, 3, programmable=0.5)
    made = plan(topology, JOB, LIMIT, "joint")

    def own(stream):
        return stream.model_copy(update={"legs": [leg.model_copy(update={"links": None}) for leg in stream.legs]})

    untold = made.model_copy(update={"streams": [own(stream) for stream in made.streams]})
    assert carried(topology, untold) > 1.2 * carried(topology, made)
    assert f"{carried(topology, untold):.4g} s over the network's own" in made.planner


def test_ways_begin_at_children_and_end_at_parents():
    found = route(ingo("ring"), JOB, LIMIT)
    graph = found.named.graph
    for child, parent, path in found.named.edges(found.forest.trees[0]):
        passed = [int(graph.source[path[0]]), *(int(graph.target[arc]) for arc in path)]
        assert (passed[0], passed[-1]) == (child, parent)
        assert [int(graph.source[arc]) for arc in path] == passed[:-1]


def test_sums_of_sums_leave_the_workers_rate_in_a_fat_tree():
    """Every switch sums and links are even: nothing is slower than a worker's own link."""
    found = route(fat_tree(4, programmable=1.0, memory_bytes=None), JOB, LIMIT)
    assert found.solution.value == pytest.approx(SIZE * 8 / 10e9)
    assert found.solution.status == "optimal"


def test_under_cache_a_node_holds_its_part_whole():
    base = servers(2, 2)
    room = {"memory_bytes": 2 * 2944 * (1024 + 64)}  # for 1024 of the 5435 fragments, beside the exponents
    nodes = [node.model_copy(update=room) if node.name == "s0" else node for node in base.nodes]
    job = Job(policy="cache", gradient_bytes=16_000_000)
    found = route(base.model_copy(update={"nodes": nodes}), job, LIMIT)
    roots = [found.named.graph.names[found.named.instance.places[tree.root]] for tree in found.forest.trees]
    shares = dict(zip(roots, found.forest.rates, strict=True))
    assert shares["s0"] / found.forest.rate == pytest.approx(1023 / 5435, rel=1e-5)


def test_a_network_where_nothing_sums_is_refused():
    nodes = [Node(name="a", kind="worker"), Node(name="s", kind="switch")]
    alone = Topology(name="alone", nodes=nodes, links=[Link(id="a", source="a", target="s")])
    with pytest.raises(PlanError, match="no node that sums is reached by every worker"):
        route(alone, JOB, LIMIT)


def test_it_is_compared_with_its_own_ways():
    (one,) = compare(ingo("ring"), JOB, LIMIT, ["joint"])
    assert one.cost.bound_seconds == pytest.approx(one.solution.value)
    assert one.cost.traffic.paths is not None
