"""The benchmark's own arithmetic, and the rival as a second opinion on the exact planner."""

import statistics

import pytest

from wiresum.bench.planners import measure as planners
from wiresum.bench.planners.cbc import solve_as_printed
from wiresum.bench.planners.measure import TURNS, Case, Options, measure
from wiresum.topology.generators.leaf_spine import leaf_spine

FAILURES = ("a switch fails", "a link fails", "a switch loses half of its memory")
SMALL = Case("small", lambda: leaf_spine(3, 2, 3, programmable=0.6, memory_bytes=90_000), 6, 5, 200_000)


def test_the_rival_agrees_and_roundings_are_never_below(monkeypatch):
    monkeypatch.setattr(planners, "PAPER", (SMALL,))
    monkeypatch.setattr(planners, "LARGE", SMALL)
    report = measure(Options(seeds=3, rival_limit_s=30.0))
    large, *kept, exact, krgs, printed, rival = report.results
    assert [one.name for one in kept] == [f"small: {what}" for what in FAILURES]
    assert all(0 <= one.extra["moved_share"] <= 1 and one.extra["cost_over_before"] > 0 for one in kept)
    assert kept[0].extra["moved_share"] > 0
    assert exact.extra["status"] == large.extra["status"] == "optimal"
    assert large.extra["peak_bytes"] > 0
    assert rival.extra["proven"]
    assert rival.extra["over_goat"] == pytest.approx(1.0)
    assert min(krgs.runs) >= 1
    assert len(printed.runs) == 3
    ours = rival.extra["goat_seconds"]
    assert len(ours) == len(rival.runs) == TURNS
    assert report.ratios[0].value == pytest.approx(rival.median / statistics.median(ours))
    assert "Theorem 5 allows" in report.notes[0]


def test_a_rival_without_time_has_nothing():
    rival = solve_as_printed(SMALL.instance(), limit_s=1e-6)
    assert (rival.value, rival.proven) == (None, False)


def test_a_rival_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr("wiresum.bench.planners.cbc.GRACE_S", 0.0)
    rival = solve_as_printed(SMALL.instance(), limit_s=1e-3)
    assert (rival.value, rival.proven) == (None, False)
