"""The arithmetic of `wiresum bench forest`, and one tiny run."""

from __future__ import annotations

import pytest

from wiresum.bench.forest import measure as forest
from wiresum.bench.forest.measure import Bound, Options
from wiresum.bench.forest.solver import Size, leaf_spine, to_result
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners.forest.planner import grow, place
from wiresum.topology.generators.servers import servers

HEADERS = 14 + 28 + 38


def test_the_bound_is_the_exponents_over_one_tree_and_then_the_values_over_all():
    topology, job = servers(4, 2, 200e6), Job(secret="0123456789abcdef" * 4)
    grown = grow(topology, job, 30.0)
    # 1000 full packets, whose exponents fill two.
    bound = Bound.of(place(grown, topology, job, PlanOptions()), grown, 4 * 736 * 1000)
    assert bound.exponent_bytes == 2 * (2944 + HEADERS)
    assert bound.value_bytes == 1000 * (2944 + HEADERS)
    assert bound.exponent_bps == pytest.approx(50e6)
    assert bound.value_bps == pytest.approx(100e6)
    assert bound.seconds == pytest.approx(8 * (bound.exponent_bytes / 50e6 + bound.value_bytes / 100e6))


def test_every_number_of_servers_has_two_rows_and_two_ratios():
    bound = Bound(exponent_bytes=0, value_bytes=1_000_000, exponent_bps=1e6, value_bps=8e6)
    rows = forest.to_results("2 servers", 2, bound, {"wiresum": [2.0, 1.25, 1.0], "gloo": [5.0]})
    assert [(row.name, row.median) for row in rows] == [("wiresum, 2 servers", 1.25), ("gloo, 2 servers", 5.0)]
    assert [(ratio.name, ratio.value) for ratio in forest.ratios(rows)] == [
        ("wiresum, 2 servers / bound", 1.25),
        ("gloo, 2 servers / wiresum, 2 servers", 4.0),
    ]
    assert "6.4 Mbit/s at every worker, 80.0% of the planned rate" in forest.describe(rows[0])


def test_a_leaf_spine_has_what_its_size_says():
    size = Size(leaves=2, workers=3, servers=1, spines=2)
    topology = leaf_spine(size)
    assert str(size) == "6 workers × 2 servers"
    assert (len(topology.workers), len(topology.summing_nodes)) == (6, 2)
    uplinks = [link for link in topology.links if link.target.startswith("spine")]
    assert sum(link.bandwidth_bps for link in uplinks) * 8 == pytest.approx(2 * 4 * 10e9)
    assert leaf_spine(size, seed=3) == leaf_spine(size, seed=3) != topology


def test_a_solved_network_reports_rate_bound_and_gap():
    topology = leaf_spine(Size(2, 3, 1, 2))
    result = to_result("six", 0.5, grow(topology, Job(), 30.0))
    assert result.extra["optimal"]
    assert result.extra["gap"] == pytest.approx(0, abs=1e-5)
    assert result.extra["rate_bps"] == pytest.approx(result.extra["bound_bps"], rel=1e-5)


@pytest.mark.needs("namespaces")
def test_a_tiny_run_has_every_row():
    options = Options(workers=1, rate_bps=500e6, size_bytes=100_000, repeats=1, warmups=0, engine="udp")
    report = forest.measure(options)
    assert [result.name for result in report.results] == ["wiresum, 1 server", "gloo, 1 server"]
    assert all(run > 0 for result in report.results for run in result.runs)
