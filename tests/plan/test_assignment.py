"""What an assignment costs, what makes it good, and the plan that comes of it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, Solution
from wiresum.plan.assignment import Assignment, Instance, as_plan, excess_memory, traffic_of, traffic_of_plan, validate
from wiresum.plan.job import Job, JobSubModel
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign, plan
from wiresum.predict import predict
from wiresum.predict.cost import cost_of
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.model import Node, Topology

FRAGMENT = 1000
NOTHING_PROVEN = Solution(solver="test", status="heuristic", objective="link bytes", value=0.0)


def job(*sizes: int, **fields) -> Job:
    return Job(sub_models=[JobSubModel(name=f"g{i}", bytes=size) for i, size in enumerate(sizes)], **fields)


def fig2(target: list[list[int]], upstream: list[list[int]] | None = None, memory: int = FRAGMENT) -> Assignment:
    """GOAT's example: four workers, three fragments, switches that hold one each."""
    instance = Instance.of(goat(2, memory).with_addresses(), job(FRAGMENT, FRAGMENT, FRAGMENT))
    above = None if upstream is None else np.array(upstream)
    return Assignment(instance, np.array(target), NOTHING_PROVEN, above)


GOAT_FIG2 = [[1, 2, 3]] * 4


def test_goats_example_costs_what_the_paper_says():
    """Fig. 2: the parameter server gets 3 fragments, and the switches put out 13."""
    cost = cost_of(validate(fig2(GOAT_FIG2)))
    worker_outputs = 4 * 3 * FRAGMENT
    assert cost.server_ingress_bytes == 3 * FRAGMENT
    assert cost.total_bytes - worker_outputs == 13 * FRAGMENT
    assert cost.in_network_share == 0.75


def test_without_the_link_between_them_nothing_is_saved():
    triangle = goat(2, FRAGMENT)
    tree = triangle.model_copy(update={"links": [link for link in triangle.links if link.id != "S1-S2"]})
    cost = cost_of(Assignment(Instance.of(tree, job(*[FRAGMENT] * 3)), np.array(GOAT_FIG2), NOTHING_PROVEN))
    assert cost.total_bytes - 4 * 3 * FRAGMENT == 17 * FRAGMENT


@st.composite
def assignments(draw):
    instance = Instance.of(leaf_spine(3, 2, 3, programmable=0.8, seed=draw(st.integers(0, 9))), job(100, 300, 700, 100))
    count, parts = len(instance.aggregators), len(instance.sub_models)
    some = st.integers(0, count - 1)
    target = draw(st.lists(some, min_size=len(instance.workers) * parts, max_size=len(instance.workers) * parts))
    # An aggregator sends to one of a lower number, so that there is no circle.
    upstream = [[draw(st.integers(0, max(0, row - 1))) for _ in range(parts)] for row in range(count)]
    return Assignment(instance, np.array(target).reshape(-1, parts), NOTHING_PROVEN, np.array(upstream))


@given(assignments())
def test_conservation(assignment):
    """The server gets the model once or more; a link carries what flows over it; the total is Σ bytes × hops."""
    validate(assignment)
    instance, cost = assignment.instance, cost_of(assignment, predict=False)
    assert instance.model_bytes <= cost.server_ingress_bytes <= len(instance.workers) * instance.model_bytes
    traffic = cost.traffic
    hops = instance.graph.hops_to(traffic.target)[np.arange(len(traffic.target)), traffic.source]
    assert cost.total_bytes == pytest.approx(float(traffic.bytes @ hops))
    assert cost.max_link_bytes <= cost.total_bytes
    assert cost.bound_seconds > 0


@given(assignments())
def test_a_plan_has_the_traffic_of_its_assignment(assignment):
    topology = assignment.instance.topology.with_addresses()
    instance = Instance.of(topology, assignment.instance.job)
    made = as_plan("test", replace(assignment, instance=instance), PlanOptions(engine="udp"))
    of_plan = traffic_of_plan(topology, made, instance.model_bytes)
    assert of_plan.root == instance.server
    assert of_plan.arc_bytes == pytest.approx(traffic_of(assignment).arc_bytes)


def test_the_prediction_is_never_under_the_bound():
    for target in (GOAT_FIG2, [[0, 0, 0]] * 4, [[3, 3, 3]] * 4):
        cost = cost_of(fig2(target, memory=3 * FRAGMENT))
        assert cost.predicted_seconds is not None
        assert cost.predicted_seconds >= cost.bound_seconds * (1 - 1e-9)


def test_memory_is_whole_sub_models_whoever_sends():
    upstream = [[0, 0, 0], [3, 3, 3], [3, 3, 3], [0, 0, 0]]
    assignment = fig2([[1, 1, 0], [1, 0, 0], [2, 0, 0], [2, 0, 0]], upstream)
    assert assignment.memory_bytes.tolist() == [0, 2 * FRAGMENT, FRAGMENT, 2 * FRAGMENT]
    assert excess_memory(assignment).tolist() == [0, FRAGMENT, 0, FRAGMENT]
    with pytest.raises(PlanError, match=re.escape("S1 is to hold 2000 bytes of sub-models and has 1000")):
        validate(assignment)
    validate(replace(assignment, allocation="shared"))


def test_what_cannot_be_carried_out_is_named():
    good = fig2(GOAT_FIG2)
    circle = np.array([[0] * 3, [2] * 3, [1] * 3, [0] * 3])
    for bad, named in (
        (replace(good, target=good.target[:2]), "has the shape (2, 3), not (4, 3)"),
        (replace(good, target=good.target + 1), "beyond the 4"),
        (replace(good, upstream=good.target[:2]), "`upstream` has the shape"),
        (replace(good, upstream=good.target), "send its sum elsewhere"),
        (replace(good, upstream=circle), "never reaches the server"),
    ):
        with pytest.raises(PlanError, match=re.escape(named)):
            validate(bad)


def test_sub_models_with_the_same_tree_are_one_stream():
    instance = Instance.of(goat(2).with_addresses(), job(100, 300, 600))
    made = as_plan("test", Assignment(instance, np.array([[1, 2, 1]] * 4), NOTHING_PROVEN), PlanOptions(engine="udp"))
    assert [round(one.share, 6) for one in made.streams] == [0, 0.7, 0.3]
    assert made.solution == NOTHING_PROVEN
    assert AggregationPlan.parse(made.to_json()) == made
    assert predict(instance.topology, made, 1000).seconds > 0


def test_more_children_than_a_packet_names_need_another_level():
    topology = fat_tree(8)
    with pytest.raises(PlanError, match="ps would sum 127 children, and a server tells 64 apart"):
        plan(topology, job(100), PlanOptions(), "ps")
    assert cost_of(assign(topology, job(100))).server_ingress_bytes == 127 * 100


def test_the_largest_network_is_costed():
    instance = Instance.of(fat_tree(32), job(*[2_000_000] * 400))
    assert len(instance.workers) == 8191
    assert len(instance.groups.size) < 600
    assert instance.groups.size.sum() == 8191
    cost = cost_of(assign(instance.topology, instance.job))
    assert cost.server_ingress_bytes == 8191 * 800e6
    assert cost.predicted_seconds is None


def without(topology: Topology, name: str) -> Topology:
    links = [link for link in topology.links if name not in (link.source, link.target)]
    return topology.model_copy(update={"nodes": [n for n in topology.nodes if n.name != name], "links": links})


def test_questions_without_an_answer_are_refused():
    two = goat(1)
    second = Node(name="ps2", kind="ps", aggregation_rate_bps=1e9)
    unlinked = two.model_copy(update={"links": two.links[:-1]})
    for topology, named in (
        (without(two, "ps"), "no parameter server"),
        (two.model_copy(update={"nodes": [*two.nodes, second]}), "2 parameter servers (ps, ps2)"),
        (unlinked, "w0 does not reach ps in topology goat (2 of 2 workers do not)"),
    ):
        with pytest.raises(PlanError, match=re.escape(named)):
            Instance.of(topology, job(1))
    with pytest.raises(PlanError, match="ps is not a worker"):
        Instance.of(two, job(1, workers=["ps"]))
    with pytest.raises(PlanError, match="sub-model g0 has 21000000 bytes"):
        Instance.of(two, job(21_000_000)).require_switches()
    with pytest.raises(PlanError, match="no switch of topology leaf-spine sums"):
        Instance.of(leaf_spine(programmable=0.0), job(1)).require_switches()
