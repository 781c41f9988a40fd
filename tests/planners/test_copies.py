"""Which servers exchange, and which share each carries: beside optima, on networks where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.exchanges import servers_of
from wiresum.plan.explanation import explain
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.planners.copies import GRAINS, deal
from wiresum.planners.optimisation.programme import INFINITY, Programme
from wiresum.predict.collectives import predict_collective
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

SIZE = 25_000_000
JOB = Job(copies=True, gradient_bytes=SIZE)
ONE = JOB.model_copy(update={"copy_servers": 1})
ABOUT = 0.02
"""Relative: what a deal may miss of the optimum."""
TIME_LIMIT_S = 10


def with_rates(topology: Topology, rates: dict[str, float]) -> Topology:
    """The topology with other rates of some hosts' links."""
    links = [
        link.model_copy(update={"bandwidth_bps": rates.get(link.source, link.bandwidth_bps)}) for link in topology.links
    ]
    return topology.model_copy(update={"links": links})


def pair_s(topology: Topology, made: AggregationPlan) -> float:
    return predict_collective(topology, made, SIZE, "pair").seconds


def optimum(seconds: np.ndarray) -> float:
    """The least time of the busiest row: minimise t subject to seconds · x ≤ t, Σ x = 1."""
    count = seconds.shape[1]
    programme = Programme(costs=np.array([0.0] * count + [-1.0]), upper=np.full(count + 1, INFINITY))
    for row in seconds:
        programme.row([*((index, float(value)) for index, value in enumerate(row)), (count, -1.0)], high=0.0)
    programme.row([(index, 1.0) for index in range(count)], low=1.0, high=1.0)
    return -programme.solve(TIME_LIMIT_S).value


def network(count: int, capacities: int) -> st.SearchStrategy[np.ndarray]:
    """Seconds of capacities: one of each server's own, and some that several servers load."""
    own = st.lists(st.floats(0.1, 10), min_size=count, max_size=count)
    shared = st.lists(st.lists(st.floats(0, 5), min_size=count, max_size=count), max_size=capacities)
    return st.builds(lambda alone, others: np.array([*np.diag(alone), *others]), own, shared)


@settings(max_examples=60, deadline=None)
@example(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 3], [2, 3, 0]]))
@example(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 5], [2, 3, 0]]))
@given(st.integers(1, 8).flatmap(lambda count: network(count, capacities=6)))
def test_a_deal_is_about_optimal(seconds):
    shares = deal(seconds)
    assert shares.sum() == pytest.approx(1)
    grain = float(seconds.max()) / GRAINS
    assert float((seconds @ shares).max()) <= optimum(seconds) * (1 + ABOUT) + grain


def test_xaggs_servers_share_what_its_workers_exchange():
    made, alone = (plan(xagg(), job, planner="xagg") for job in (JOB, ONE))
    assert servers_of(made) == {name: pytest.approx(1 / 3) for name in ("PS", "S1", "S2")}
    assert servers_of(alone) == {"PS": 1.0}
    exchanges = [stream for stream in made.streams if stream.is_exchange]
    assert [stream.role for stream in exchanges] == 3 * ["parts"] + 3 * ["copies"] + 6 * ["acknowledgements"]
    for stream in exchanges:
        assert [(leg.child.worker, leg.parent) for leg in stream.legs] == [(rank, stream.root) for rank in range(7)]
    assert AggregationPlan.parse(made.to_json()) == made
    # Seven workers' 25 MB over one link of 1 Gbit/s; over three, the workers of 400 Mbit/s are slower.
    assert pair_s(xagg(), alone) == pytest.approx(7 * 8 * SIZE / 1e9, rel=0.04)
    assert pair_s(xagg(), made) == pytest.approx(8 * SIZE / 400e6, rel=0.04)
    assert predict_collective(xagg(), made, SIZE, "all_gather").seconds == pytest.approx(0.44, abs=0.01)


def test_shares_are_as_links_allow():
    uneven = with_rates(servers(workers=8, servers=2, rate_bps=1e9), {"s0": 300e6, "s1": 100e6})
    made = plan(uneven, JOB, planner="forest")
    assert servers_of(made) == {"s0": pytest.approx(0.75, abs=0.01), "s1": pytest.approx(0.25, abs=0.01)}
    windows = [stream.window for stream in made.streams if stream.role == "copies"]
    assert sum(windows) == pytest.approx(JOB.window, rel=0.02)


def test_the_faster_server_is_taken_where_one_is_enough():
    fast = with_rates(servers(workers=4, servers=2, rate_bps=100e6), {"s1": 10e9})
    assert servers_of(plan(fast, JOB, planner="forest")) == {"s1": 1.0}


@pytest.mark.parametrize(
    ("topology", "planner"),
    [(star(4), "direct"), (servers(workers=4, servers=2, rate_bps=100e6, server_rate_bps=10e9), "forest")],
    ids=["star", "fast servers"],
)
def test_one_server_carries_all_where_more_do_not_help(topology, planner):
    made = plan(topology, JOB, planner=planner)
    assert list(servers_of(made).values()) == [1.0]
    assert sum(stream.is_exchange for stream in made.streams) == 4


@pytest.mark.parametrize("count", [1, 2, 3])
def test_servers_on_the_workers_hosts_take_load_off_each_other(count):
    """What of a host's share is its own worker's crosses no link."""
    network = servers(workers=4, servers=4, rate_bps=200e6, colocated=True)
    times = []
    for most in (count, count + 1):
        made = plan(network, JOB.model_copy(update={"copy_servers": most}), planner="forest")
        assert len(servers_of(made)) <= most
        times.append(pair_s(network, made))
    assert times[1] < times[0]


def test_a_server_without_memory_or_adders_carries_nothing():
    there = xagg()
    nodes = [node.model_copy(update={"S1": {"memory_bytes": 100_000_000}}.get(node.name, {})) for node in there.nodes]
    small = there.model_copy(update={"nodes": nodes})
    sets = Job(copies=True, gradient_bytes=SIZE, window=4096)
    found = [set(servers_of(plan(topology, sets, planner="xagg"))) for topology in (there, small)]
    assert found == [{"PS", "S1", "S2"}, {"PS", "S2"}]


def test_more_workers_than_seats_are_refused():
    with pytest.raises(PlanError, match="65"):
        plan(star(65), JOB)


def test_the_plan_in_words_says_who_carries_how_much():
    assert "copied at PS (33.3 %), S1 (33.3 %) and S2 (33.3 %);" in explain(plan(xagg(), JOB, planner="xagg"))
    assert "copied at switch;" in explain(plan(star(2), JOB))
