"""What is tracked is compared with what is known as often, under the same drift."""

from __future__ import annotations

from wiresum.bench.result import Result
from wiresum.bench.tracking.measure import ratios


def row(drift: str, replaced: float, way: str, coverage: float) -> Result:
    """One case of one run."""
    return Result(f"{drift}: {way}", "share", [coverage], {"drift": drift, "replaced": replaced, "way": way})


def test_tracked_is_compared_with_known_of_the_same_drift_and_period():
    rows = [
        row("even", 0.002, "tracked, period 2", 0.9),
        row("even", 0.002, "known, period 2", 1.0),
        row("even", 0.002, "known, period 10", 0.5),
        row("logarithmic", 0.002, "known, period 2", 0.25),
        row("logarithmic", 0.002, "tracked, period 10", 0.4),
        row("even", 0.002, "once, after 10 rounds", 0.3),
    ]
    assert [(ratio.name, ratio.value) for ratio in ratios(rows)] == [("even: tracked, period 2 / known", 0.9)]
