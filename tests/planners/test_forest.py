"""The planner `forest`: the rates that theory gives, and the programme over all trees, written down in full."""

import itertools
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.forest.generation import Generation
from wiresum.planners.forest.instance import ABSENT, Group, Instance, Tree
from wiresum.planners.forest.named_instance import named_instance
from wiresum.planners.forest.routes import Routes
from wiresum.planners.forest.solution import Forest
from wiresum.planners.forest.solver import solve
from wiresum.planners.optimisation.process import last_answer
from wiresum.planners.optimisation.programme import INFINITY, Programme
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Link, Node, Topology

RATE = 200e6
PROCESS_S = 4.0
"""For a process to start and print a line, on a busy machine."""
LIMIT_S = 60.0
"""A bound for a busy machine; each of these takes a fraction of a second."""


def best(instance: Instance) -> Forest:
    """The answer, in this process."""
    *_, forest = Generation(instance, LIMIT_S).forests()
    return forest


def rate_of(topology: Topology, **job: object) -> float:
    """The best common rate in bit/s, with its proof."""
    found = named_instance(topology, topology.workers, Job(**job))
    forest = best(found.instance)
    assert forest.gap == pytest.approx(0, abs=1e-5)
    return forest.rate * found.unit_bps


@pytest.mark.parametrize("count", range(1, 6))
def test_servers_with_the_workers_links_give_k_nths_of_the_rate(count):
    assert rate_of(servers(4, count, RATE)) == pytest.approx(min(1, count / 4) * RATE, rel=1e-6)


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_servers_on_the_workers_hosts_are_as_good_as_a_ring(workers):
    ring = workers / (2 * (workers - 1)) * RATE
    assert rate_of(servers(workers, workers, RATE, colocated=True)) == pytest.approx(ring, rel=1e-6)


def test_more_workers_than_a_server_has_children_cost_a_flow_to_a_second_server():
    # 100 workers, and the sum that one of two servers sends to the other: 102 flows on the four links.
    assert rate_of(servers(100, 4, RATE)) == pytest.approx(4 * RATE / 102, rel=1e-6)


def test_unequal_servers_share_by_their_links():
    base = servers(6, 2, RATE)
    links = [link.model_copy(update={"bandwidth_bps": 3 * RATE}) if link.id == "s1" else link for link in base.links]
    made = plan(base.model_copy(update={"links": links}), Job(), planner="forest")
    assert [stream.share for stream in made.streams] == pytest.approx([0, 0.75, 0.25], abs=1e-6)
    assert [stream.window for stream in made.streams] == [32, 96, 32]


def test_a_slow_adder_counts_like_a_slow_link():
    assert rate_of(servers(4, 2, RATE, aggregation_rate_bps=RATE / 2)) == pytest.approx(2 * RATE / 8, rel=1e-6)


def test_one_tree_is_enough_at_a_switch_that_sums():
    made = plan(star(4), Job(), planner="forest")
    assert [(stream.role, stream.share) for stream in made.streams] == [("exponents", 0), ("values", 1)]
    assert made.streams[1].window == Job().window
    assert "500 Mbit/s at every worker, optimal" in made.planner


def test_the_testbed_of_xagg_is_limited_by_its_slow_workers_alone():
    assert rate_of(xagg()) == pytest.approx(400e6, rel=1e-6)


def test_the_same_input_gives_the_same_plan():
    job = Job(secret="0123456789abcdef" * 4)
    assert plan(xagg(), job, planner="forest") == plan(xagg(), job, planner="forest")


def test_exponents_are_summed_at_a_server_of_the_forest():
    made = plan(servers(4, 3), Job(), planner="forest")
    roots = {stream.root for stream in made.streams[1:]}
    assert len(roots) == 3
    assert made.streams[0].root in roots
    assert AggregationPlan.parse(made.to_json()) == made


def with_memory(topology: Topology, memory_bytes: dict[str, int]) -> Topology:
    nodes = [
        node.model_copy(update={"memory_bytes": memory_bytes[node.name]}) if node.name in memory_bytes else node
        for node in topology.nodes
    ]
    return topology.model_copy(update={"nodes": nodes})


def test_under_cache_a_server_takes_no_more_than_its_memory_holds():
    job = Job(policy="cache", gradient_bytes=16_000_000)
    # Room for 1024 of the 5435 fragments, beside the exponents.
    small = with_memory(servers(2, 2, RATE), {"s0": 2 * 2944 * (1024 + 64)})
    made = plan(small, job, planner="forest")
    share = {made.node(s.root).name: s.share for s in made.streams[1:]}
    assert share["s0"] == pytest.approx(1023 / 5435, rel=1e-5)
    assert {made.node(s.root).name: s.slots for s in made.streams[1:]} == {"s0": 1024, "s1": 8192}


def test_a_gradient_that_fits_nowhere_is_refused():
    tiny = with_memory(servers(2, 2, RATE), {"s0": 1_000_000, "s1": 1_000_000})
    with pytest.raises(PlanError, match="too little memory"):
        plan(tiny, Job(policy="cache"), planner="forest")


def test_workers_that_share_no_server_are_refused():
    nodes = [Node(name=n, kind="worker") for n in "ab"]
    nodes += [Node(name=n, kind="switch", aggregation_rate_bps=1e9) for n in ("left", "right")]
    links = [Link(id="a", source="a", target="left"), Link(id="b", source="b", target="right")]
    with pytest.raises(PlanError, match="no node that sums is reached by every worker"):
        plan(Topology(name="apart", nodes=nodes, links=links), Job(), planner="forest")


def test_a_flow_is_split_evenly_over_equal_paths():
    nodes = [Node(name=n, kind="worker") for n in ("a", "b")]
    nodes += [Node(name=n, kind="switch") for n in ("left", "right", "x", "y")]
    ends = [("a", "left"), ("left", "x"), ("left", "y"), ("x", "right"), ("y", "right"), ("right", "b")]
    links = [Link(id=s + t, source=s, target=t) for s, t in ends]
    route = Routes(Topology(name="diamond", nodes=nodes, links=links)).between("a", "b")
    assert route == {
        ("aleft", "a"): 1, ("leftx", "left"): 0.5, ("lefty", "left"): 0.5,
        ("xright", "x"): 0.5, ("yright", "y"): 0.5, ("rightb", "right"): 1,
    }  # fmt: skip


def all_trees(instance: Instance) -> list[Tree]:
    """Every tree, used or silly, over servers that are few."""
    count = len(instance.servers)
    parents = [p for p in itertools.product(range(ABSENT, count), repeat=count) if is_tree(p)]
    seats = [
        [c for c in itertools.product(range(g.size + 1), repeat=count) if sum(c) == g.size] for g in instance.groups
    ]
    trees = [Tree(p, children) for p in parents for children in itertools.product(*seats)]
    return [tree for tree in trees if is_seated(tree, instance)]


def is_tree(parents: tuple[int, ...]) -> bool:
    roots = [server for server, parent in enumerate(parents) if parent == server]

    def reaches_root(server: int) -> bool:
        for _ in parents:
            server = parents[server]
            if server == ABSENT:
                return False
        return server in roots

    return len(roots) == 1 and all(reaches_root(s) for s, parent in enumerate(parents) if parent != ABSENT)


def is_seated(tree: Tree, instance: Instance) -> bool:
    used = {server for counts in tree.children for server, count in enumerate(counts) if count}
    return used <= set(tree.members) and all(tree.fan_in(s) <= instance.fan_in for s in tree.members)


def best_over_all_trees(instance: Instance) -> float:
    trees = all_trees(instance)
    programme = Programme(np.ones(len(trees)), np.full(len(trees), INFINITY))
    uses = np.array([instance.uses(tree) for tree in trees]).reshape(len(trees), len(instance.capacities))
    for resource, capacity in enumerate(instance.capacities):
        programme.row(list(enumerate(uses[:, resource])), high=capacity)
    for server in instance.servers:
        held = [(i, (server in tree.members) - instance.room[server]) for i, tree in enumerate(trees)]
        programme.row(held, high=0)
    if instance.rate_cap is not None:
        programme.row([(i, 1.0) for i in range(len(trees))], high=instance.rate_cap)
    return programme.solve(LIMIT_S).value


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Two or three servers with links and racks of their own, in which flows share what they like."""
    count = draw(st.integers(2, 3))
    resources = draw(st.integers(1, 4))
    amounts = st.sampled_from([0.0, 0.5, 1.0, 2.0])

    def uses(adder: int) -> list[tuple[int, float]]:
        shared = [(resource, draw(amounts)) for resource in range(resources)]
        return [(resources + adder, 1.0), *((resource, amount) for resource, amount in shared if amount)]

    groups = [Group(draw(st.integers(1, 2)), [uses(s) for s in range(count)]) for _ in range(draw(st.integers(1, 2)))]
    between = [[uses(t) if s != t else [] for t in range(count)] for s in range(count)]
    capacities = draw(
        st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=resources + count, max_size=resources + count)
    )
    room = draw(st.lists(st.sampled_from([0.0, 0.3, 0.6, 1.0]), min_size=count, max_size=count))
    cap = draw(st.sampled_from([None, 0.2]))
    return Instance(capacities, cap, groups, between, room, fan_in=draw(st.sampled_from([2, 3, 64])))


@settings(max_examples=60)
@given(instances())
def test_column_generation_is_as_good_as_all_trees_written_down(instance):
    forest = best(instance)
    assert forest.rate + forest.left_out == pytest.approx(best_over_all_trees(instance), rel=1e-5, abs=1e-6)
    for tree in forest.trees:
        assert is_tree(tuple(tree.parents))
        assert is_seated(tree, instance)
    used = sum(rate * instance.uses(tree) for tree, rate in zip(forest.trees, forest.rates, strict=True))
    assert np.all(used <= np.array(instance.capacities) * (1 + 1e-6))


def test_instances_and_forests_survive_their_json():
    instance = named_instance(xagg(), xagg().workers, Job()).instance
    assert Instance.parse(instance.to_json()).to_json() == instance.to_json()
    forest = best(instance)
    assert Forest.parse(forest.to_json()).to_json() == forest.to_json()


def test_a_solver_that_does_not_end_is_ended_and_its_last_line_counts(monkeypatch):
    instance = named_instance(servers(2, 1), servers(2, 1).workers, Job()).instance
    forest = best(instance)
    deaf = f"print({forest.to_json()!r}, flush=True); print('{{', end='', flush=True); import time; time.sleep(600)"
    popen = subprocess.Popen
    monkeypatch.setattr(
        "wiresum.planners.optimisation.process.subprocess.Popen",
        lambda _, **options: popen([sys.executable, "-c", deaf], **options),
    )
    began_s = time.monotonic()
    line = last_answer("wiresum.planners.forest.solver", instance.to_json(), PROCESS_S, "forest")
    assert Forest.parse(line).to_json() == forest.to_json()
    assert time.monotonic() - began_s < 60  # of 600


def test_a_process_of_its_own_gives_the_same_answer():
    instance = named_instance(servers(2, 1), servers(2, 1).workers, Job()).instance
    line = last_answer("wiresum.planners.forest.solver", instance.to_json(), LIMIT_S, "forest")
    assert Forest.parse(line).trimmed() == solve(instance, LIMIT_S)


def test_without_time_there_is_a_forest_and_the_bound_of_the_workers_links():
    topology = servers(8, 2)
    slowest_bps = min(link.bandwidth_bps for worker in topology.workers for link in topology.links_of(worker.name))
    made = plan(topology, Job(), PlanOptions(time_limit_s=1e-6), planner="forest")
    assert made.solution.bound == pytest.approx(8 * Job().gradient_bytes / slowest_bps)
    assert (made.solution.status, made.solution.gap > 0) == ("feasible", True)


def test_trees_too_many_or_too_small_are_left_out_and_counted():
    trees = [Tree([0], [[1]])] * 40
    many = Forest(trees, [1.0] * 40, bound=40.0).trimmed()
    assert (len(many.trees), many.rate, many.left_out, many.gap) == (31, 31.0, 9.0, 1 - 31 / 40)
    small = Forest(trees[:2], [1.0, 0.001], bound=None).trimmed()
    assert (small.rates, small.left_out, small.gap) == ([1.0], 0.001, None)
