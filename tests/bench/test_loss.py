"""Arithmetic of `wiresum bench loss`, and a tiny run of it."""

import pytest

from wiresum.bench.loss.measure import ROUNDING, Case, Options, cases, ratios, to_results
from wiresum.errors import TestbedError
from wiresum.testbed.loss import LossCount

CASE = Case("star", 0.01, "udp", "pool", has_rival=True)


def measured(seconds: float, error: float = 0.0) -> dict:
    return {
        "seconds": {"wiresum": [seconds], "gloo": [2 * seconds]},
        "errors": {"wiresum": error, "gloo": 0.0},
        "lost": [LossCount(100, 1), LossCount(100, 3)],
        "transmitters": {"n0": {"sent_again": 4}, "n1": {}},
    }


def test_throughput_is_gradient_over_time():
    ours, rival = to_results(Options(size_bytes=1_000_000), CASE, measured(0.5))
    assert (ours.median, rival.median) == (16.0, 8.0)
    assert ours.extra["measured_loss"] == 0.02
    assert ours.extra["sums_again"] == 4


def test_a_wrong_sum_ends_the_benchmark():
    with pytest.raises(TestbedError, match="off by"):
        to_results(Options(), CASE, measured(0.5, error=2 * ROUNDING))


def test_ratios_are_over_the_same_line_without_loss():
    clean = to_results(Options(), Case("star", 0.0, "udp", "pool", has_rival=True), measured(0.5))
    lossy = to_results(Options(), CASE, measured(1.0))
    assert [ratio.value for ratio in ratios(clean + lossy)] == [0.5, 0.5]


def test_the_rival_runs_once_for_each_topology_and_loss():
    made = list(cases(Options()))
    assert len(made) == 2 * 6 * 4
    assert sum(case.has_rival for case in made) == 2 * 6
