"""The table of InGo: complete, and right where a figure has one value."""

from __future__ import annotations

import math

import pytest

from wiresum.bench.result import Report, Result
from wiresum.bench.routing import measure as routing
from wiresum.planners.ingo.batch_size import BatchTiming, best_batch_size
from wiresum.reproduce import PAPERS
from wiresum.reproduce.ingo.training import gain_over_fixed, highest_gain
from wiresum.reproduce.row import CLASSES
from wiresum.reproduce.words import live_plans

INGO = PAPERS["ingo"]
ROWS = {row.id: row for row in INGO.rows}
BYTES = "bytes on each link as predicted, to the byte; nothing was sent again"
RAN = Report("live", {}, [Result("InGo's star, ingo", "Mbit/s", [32.1], {"predicted": 33.0, "bytes": BYTES})])


def test_every_row_says_something_and_has_its_classes():
    assert list(ROWS) == [f"I{number}" for number in range(1, 13)]
    for row in INGO.rows:
        assert set(row.classes) <= set(CLASSES)
        assert row.recomputed or row.computed or row.measured
        assert set(row.needs) <= set(INGO.benchmarks)


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        ("I1", ["GRID +169.1%, ATP +132.3%", "star 3.33, ring 5.00, mesh 5.00"]),
        ("I3", ["InGo-64 −25.2 %, GRID −32.0 %, ATP −44.9 %", "1.34 ×", "2.00 × at most", "within it"]),
        ("I4", ["GRID +163.2%, ATP +244.8%"]),
        ("I5", ["GRID +132.7%, ATP +514.0%", "InGo 46.2, ATP 25.9, GRID 52.2 of 50"]),
        ("I6", ["2.92 ×", "beyond it"]),
        ("I8", ["2.2757", "2.10"]),
        ("I9", ["2.28"]),
        ("I10", ["8 flows"]),
    ],
)
def test_figures_that_have_one_value(row, figures):
    found = ROWS[row].evaluate(None)
    assert [figure for figure in figures if figure not in found.recomputed + found.ours] == []


@pytest.mark.parametrize("waiting", [0.0, 0.01, 0.064, 0.2, 10.0])
def test_no_batch_size_gains_more_over_64_than_the_bound(waiting):
    timing = BatchTiming(0.001, 0.0)
    chosen = best_batch_size([timing], waiting)
    by_steps = math.sqrt(chosen / 64) * (timing.seconds(64) + waiting) / (timing.seconds(chosen) + waiting)
    assert gain_over_fixed(chosen, waiting / timing.seconds_per_sample) == pytest.approx(by_steps)
    assert 1 <= by_steps <= highest_gain() + 1e-9


def test_a_live_run_is_said_beside_its_prediction():
    assert live_plans(RAN) == (
        "live at 1:100: InGo's star, ingo 32.1 of 33.0 Mbit/s predicted; bytes on each link as predicted, to the byte"
    )


def test_measured_rows_read_the_benchmark():
    """One network of each kind, every method; InGo is never behind what sums once at most."""

    class Reports:
        def __init__(self) -> None:
            options = routing.Options(workers=(10,), seeds=1)
            self.measured = routing.measure(options)

        def report(self, name):
            return self.measured if name == "routing" else RAN

    reports = Reports()
    for network in {result.extra["network"] for result in reports.measured.results}:
        found = routing.of(reports.measured, network)
        assert set(found) == set(routing.METHODS)
        best = found["ingo"].extra["mean_gbps"]
        for method in ("r-ingo", "R-InGo's roundings", "grid", "atp, one level"):
            assert found[method].extra["mean_gbps"] <= best * (1 + 1e-6)
        assert found["ingo"].extra["worst_of_bound"] == pytest.approx(1, abs=1e-6)
    assert "star, 10 workers: ingo 3.33" in ROWS["I1"].evaluate(reports).ours
    assert "32.1 of 33.0 Mbit/s predicted" in ROWS["I1"].evaluate(reports).ours
    assert "million/s" in ROWS["I7"].evaluate(reports).ours


def test_the_simulated_network_is_as_stated():
    made = routing.paper_network(1)
    rates = [rate for link in made.links for rate in (link.bandwidth_bps, link.bandwidth_from(link.target))]
    between = [rate for rate in rates if rate != routing.SERVER_BPS]
    assert rates.count(routing.SERVER_BPS) == 2
    assert min(between) >= 3e9
    assert max(between) <= 10e9
    assert len(made.summing_nodes) == 81
