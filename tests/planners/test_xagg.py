"""The planner `xagg`: evaluation, selection, the k-ary tree, and the choice of k (XAgg §V)."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.predict.networks import one_switch

from wiresum.errors import NotWorthwhileError, PlanError
from wiresum.plan.evaluation import WORTHWHILE_SHARE, Evaluation, WorkerEvaluation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import needed_bytes, parents_of
from wiresum.planners import plan
from wiresum.planners.xagg.ktree import child_count, height, k_tree
from wiresum.planners.xagg.selection import MEMORY_SHARE, Server, candidates
from wiresum.predict import bound_tree, predict_tree
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Node, Topology


def tree_of(made):
    return parents_of(made, made.streams[1])


def measured(**rounds: tuple[float, float]) -> Evaluation:
    return Evaluation(
        workers=[
            WorkerEvaluation(name=name, compute_seconds=compute, communication_seconds=communication)
            for name, (compute, communication) in rounds.items()
        ]
    )


def changed(topology: Topology, name: str, **fields) -> Topology:
    nodes = [node.model_copy(update=fields) if node.name == name else node for node in topology.nodes]
    return topology.model_copy(update={"nodes": nodes})


HEIGHTS = {(2, 2): 2, (3, 2): 3, (7, 3): 3, (9, 3): 3, (10, 3): 4, (125, 5): 4, (126, 5): 5, (1, 2): 2, (243, 3): 6}


@pytest.mark.parametrize(("case", "levels"), HEIGHTS.items())
def test_heights_are_those_of_equation_2(case, levels):
    assert height(*case) == levels


@given(st.integers(2, 10**6), st.integers(2, 64))
def test_equation_2_holds_for_any_tree(workers, k):
    h = height(workers, k)
    assert k ** (h - 1) >= workers
    assert h == 2 or k ** (h - 2) < workers


def test_children_go_by_bandwidth_and_halves_are_rounded_down():
    rates = (100.0, 90.0, 70.0, 69.0, 30.0, 10.0, 200.0)
    assert [child_count(rate, 100.0, 5) for rate in rates] == [5, 4, 3, 3, 1, 1, 5]


@st.composite
def layers(draw):
    workers = [f"w{n}" for n in range(draw(st.integers(1, 40)))]
    rates = sorted(draw(st.lists(st.integers(1, 100), max_size=12)), reverse=True)
    return workers, [Server(f"s{n}", rate * 1e9, 1, inf) for n, rate in enumerate(rates)], draw(st.integers(2, 5))


@given(layers())
def test_a_k_tree_has_every_worker_no_single_child_and_the_best_servers(case):
    workers, servers, k = case
    parents = k_tree(workers, servers, "root", k)
    assert parents["root"] is None
    assert [name for name in parents if name in workers] == workers
    used = [server.name for server in servers if server.name in parents]
    for name in used:
        assert 2 <= list(parents.values()).count(name) <= k
    for name in parents:
        above, steps = parents[name], 0
        while above is not None:
            above, steps = parents[above], steps + 1
        assert steps <= height(len(workers), k) - 1
    strong = [server.name for server in servers if child_count(server.bandwidth_bps, servers[0].bandwidth_bps, k) > 1]
    assert used == strong[: len(used)]


def test_the_test_bed_of_the_paper_gets_the_tree_of_the_paper():
    """Fig. 12 with k = 3: three of the slow, three of the fast, and one left for the parameter server."""
    slow_first = measured(W1=(1, 1), W2=(1, 1), W3=(1, 1), W4=(1, 2), W5=(1, 2), W6=(1, 2), W7=(1, 3))
    made = plan(xagg(), Job(policy="cache"), PlanOptions(k=3, evaluation=slow_first), planner="xagg")
    assert tree_of(made) == {
        "PS": None, "S1": "PS", "S2": "PS", "W7": "PS",
        "W1": "S1", "W2": "S1", "W3": "S1", "W4": "S2", "W5": "S2", "W6": "S2",
    }  # fmt: skip
    assert made.planner.startswith("xagg: k = 3, as given")


def test_similar_workers_share_a_server():
    rounds = measured(W1=(9, 1), W2=(1, 1), W3=(9, 1), W4=(1, 1), W5=(9, 1), W6=(1, 1), W7=(20, 1))
    tree = tree_of(plan(xagg(), Job(), PlanOptions(k=3, evaluation=rounds), planner="xagg"))
    assert [name for name, parent in tree.items() if parent == "S1"] == ["W2", "W4", "W6"]
    assert [name for name, parent in tree.items() if parent == "S2"] == ["W1", "W3", "W5"]


def test_without_an_evaluation_workers_with_similar_links_share_a_server():
    tree = tree_of(plan(xagg(), Job(), PlanOptions(k=3), planner="xagg"))
    assert [name for name, parent in tree.items() if parent == "S1"] == ["W4", "W5", "W6"]


@pytest.mark.parametrize(("communication", "leaves"), [(0.9, True), (1.1, False)])
def test_it_leaves_when_communication_is_under_a_tenth(communication, leaves):
    compute = 1 / WORTHWHILE_SHARE - 1
    options = PlanOptions(evaluation=measured(w0=(compute, communication), w1=(compute, communication)))
    network = one_switch({"w0": 10, "w1": 10}, {"PS": 10})
    if not leaves:
        assert plan(network, Job(), options, planner="xagg").workers
        return
    with pytest.raises(NotWorthwhileError, match="train with the backend `gloo`"):
        plan(network, Job(), options, planner="xagg")


@pytest.mark.parametrize("used_bytes", [0, 10**9])
def test_memory_in_use_and_ours_are_at_most_80_percent(used_bytes):
    job = Job(policy="cache", gradient_bytes=25_000_000)
    enough = -(-(needed_bytes(job) + used_bytes) * 100 // round(MEMORY_SHARE * 100))
    for memory, kept in ((enough, True), (enough - 2, False)):
        network = changed(xagg(), "S1", memory_bytes=memory, memory_used_bytes=used_bytes)
        names = [one.name for one in candidates(network, job, network.workers)]
        assert ("S1" in names) is kept


def test_candidates_are_sorted_by_bandwidth_then_cores_then_memory():
    network = one_switch({"w": 1}, {"slow": 10, "fast": 40, "cores": 10, "memory": 10, "PS": 5})
    network = changed(network, "cores", cores=4, idle_cores=2)
    network = changed(network, "slow", memory_bytes=10**12)
    network = changed(network, "fabric", aggregation_rate_bps=0.0)
    assert [one.name for one in candidates(network, Job(), network.workers)] == [
        "fast",
        "cores",
        "memory",
        "slow",
        "PS",
    ]


def test_a_server_counts_with_what_its_idle_cores_can_add():
    network = changed(
        one_switch({"w": 1}, {"S": 100, "PS": 100}), "S", aggregation_rate_bps=80e9, cores=8, idle_cores=2
    )
    by_name = {one.name: one for one in candidates(network, Job(), network.workers)}
    assert by_name["S"].bandwidth_bps == 20e9
    assert by_name["PS"].bandwidth_bps == 100e9


@pytest.mark.parametrize("policy", ["pool", "cache"])
def test_k_is_the_one_with_the_least_predicted_time(policy):
    network = one_switch({f"w{n}": 10 + n for n in range(12)}, {f"S{n}": 40 - n for n in range(6)} | {"PS": 40})
    network = changed(network, "fabric", aggregation_rate_bps=0.0)
    job = Job(policy=policy, secret="0123456789abcdef" * 4)
    made = plan(network, job, planner="xagg")
    chosen = predict_tree(network, tree_of(made), job.gradient_bytes, policy=policy).seconds
    for k in range(2, 13):
        other = tree_of(plan(network, job, PlanOptions(k=k), planner="xagg"))
        seconds = predict_tree(network, other, job.gradient_bytes, policy=policy).seconds
        assert chosen <= seconds * (1 + 1e-9)
        assert bound_tree(network, other, job.gradient_bytes) <= seconds * (1 + 1e-9)
    assert plan(network, job, planner="xagg") == made


def test_the_parameter_server_is_the_root_though_others_are_faster():
    made = plan(one_switch({"a": 1, "b": 1}, {"S": 100, "PS": 1}), Job(), planner="xagg")
    assert made.nodes[0].name == "PS"


def cut_off() -> Topology:
    network = one_switch({"a": 1, "b": 1}, {"PS": 1})
    return network.model_copy(update={"links": [link for link in network.links if link.id != "b"]})


def crowd() -> Topology:
    network = one_switch({f"w{n}": 1 for n in range(70)}, {"PS": 1})
    return changed(network, "fabric", aggregation_rate_bps=0.0)


IMPOSSIBLE = {
    "is not reached by b; link them by switches": lambda: plan(cut_off(), Job(), planner="xagg"),
    "more than 64 children; add aggregators": lambda: plan(crowd(), Job(), planner="xagg"),
    "more than 80%; free memory": lambda: plan(
        changed(changed(one_switch({"a": 1}, {"PS": 1}), "PS", memory_bytes=1000), "fabric", aggregation_rate_bps=0.0),
        Job(),
        planner="xagg",
    ),
    "no parameter server can be the root": lambda: plan(
        changed(xagg(), "PS", cores=1, idle_cores=0), Job(), planner="xagg"
    ),
    "has no idle core; free one": lambda: plan(
        Topology(name="t", nodes=[Node(name="w", kind="worker"),
                                  Node(name="p", kind="ps", aggregation_rate_bps=1.0, idle_cores=0)]),
        Job(), planner="xagg",
    ),
    "no node has an `aggregation_rate_bps`": lambda: plan(
        Topology(name="t", nodes=[Node(name="w", kind="worker")]), Job(), planner="xagg"
    ),
    "W2 is not in `workers`": lambda: plan(
        xagg(), Job(), PlanOptions(evaluation=measured(W1=(1, 1))), planner="xagg"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("message", "make"), IMPOSSIBLE.items(), ids=list(IMPOSSIBLE))
def test_a_job_that_has_no_place_is_refused_with_cause_and_remedy(message, make):
    with pytest.raises(PlanError) as refused:
        make()
    assert message in str(refused.value)


def test_an_evaluation_with_a_worker_twice_is_refused():
    text = measured(a=(1, 1), b=(1, 1)).to_json().replace('"b"', '"a"')
    with pytest.raises(PlanError, match="two are called a"):
        Evaluation.parse(text)
