"""Rates of plans, tried out on InGo's testbed."""

import pytest

from wiresum.bench.routing import check as routing_check
from wiresum.bench.routing.check import FIDELITIES, PLANNERS, Options
from wiresum.reproduce.ingo.rates import TRIED, _tried
from wiresum.topology.generators.ingo import BETWEEN


@pytest.fixture(scope="module")
def report():
    return routing_check.measure(Options(workers=None))


def test_every_plan_reaches_its_rate_on_the_way_up_and_no_more_than_links_have(report):
    assert len(report.results) == len(BETWEEN) * len(PLANNERS) * len(FIDELITIES)
    for result in report.results:
        assert result.extra["busiest"] < 1.000001, result.name
        if result.extra["fidelity"] == "flows":
            assert result.median == pytest.approx(1.0, abs=0.005), result.name
        else:
            assert result.median < 1.001, result.name
    trains = [one.median for one in report.results if one.extra["fidelity"] == "trains"]
    assert max(trains) > 0.98, "where results do not meet gradients"


def test_the_row_has_both_fidelities(report):
    class Reports:
        def report(self, name):
            assert name == "check"
            return report

    assert all(f"{words}: " in _tried(Reports()) for words in TRIED.values())
