"""Rates that follow the network: what figures say, from made-up samples, and a tiny run."""

from __future__ import annotations

from pathlib import Path

import pytest

from wiresum.bench.rates import latency as rates_latency
from wiresum.bench.rates import measure as rates
from wiresum.bench.rates.command import Step
from wiresum.bench.rates.plot import draw
from wiresum.bench.rates.step import settling
from wiresum.errors import TestbedError
from wiresum.topology.generators.xagg import xagg

BOUND_BPS = 100.0


def samples(*rates_bps: float) -> list[tuple[float, float]]:
    return [(i / 100, rate) for i, rate in enumerate(rates_bps)]


def test_a_rate_that_settles() -> None:
    found = settling(samples(*[300.0] * 3, *[60.0] * 5, *[99.0] * 32), 0.0, 0.4, BOUND_BPS)
    assert found.seconds == pytest.approx(0.08)
    assert found.lowest == pytest.approx(0.6)
    assert found.lowest_mean == pytest.approx(0.6)
    assert found.within == 1.0


def test_a_rate_that_settles_and_leaves_again_has_not_settled() -> None:
    found = settling(samples(*[100.0] * 30, *[50.0] * 10), 0.0, 0.4, BOUND_BPS)
    assert found.seconds is None
    assert 0 < found.within < 1


def test_only_samples_while_the_link_is_narrow_count() -> None:
    around = samples(*[300.0] * 10, *[100.0] * 20, *[300.0] * 10)
    found = settling(around, 0.1, 0.3, BOUND_BPS)
    assert found.seconds == pytest.approx(0.0)
    assert found.lowest == pytest.approx(1.0)


def test_an_all_reduce_that_is_over_too_early() -> None:
    with pytest.raises(TestbedError, match="make it longer"):
        settling(samples(*[300.0] * 10), 0.5, 1.0, BOUND_BPS)


def test_a_tensor_takes_all_the_time() -> None:
    step = Step(wide_bps=600e6, narrow_bps=200e6, workers=3, falls_s=1.0, lasts_s=3.0, recovers_s=1.0)
    assert step.elements * 32 * 3 == pytest.approx(600e6 * 2 + 200e6 * 3)


def test_latencies_by_role() -> None:
    counters = {"rate_initializations": 2, "rate_initialization_us": 3000, "rate_updates": 0, "rate_update_us": 0}
    (worker,) = rates_latency.of_workers([[counters, counters]])
    assert (worker.name, worker.runs) == ("worker, initialization", [1.5, 1.5])
    assert worker.extra["paper_ms"] == 12.0
    server, ps = rates_latency.of_nodes(xagg(), {"S1": counters, "PS": counters})
    assert [server.name, ps.name] == ["server, initialization", "ps, initialization"]


@pytest.mark.needs("xdp")
def test_a_tiny_run(tmp_path: Path) -> None:
    step = Step(wide_bps=100e6, narrow_bps=50e6, workers=2, falls_s=0.3, lasts_s=0.4, recovers_s=0.2)
    report = rates.measure(rates.Options(rounds=2, elements=100_000, step=step))
    latencies = {(r.extra["role"], r.extra["period"]): r for r in report.results if "role" in r.extra}
    assert {("worker", "initialization"), ("server", "initialization"), ("ps", "initialization")} <= set(latencies)
    assert len(latencies["worker", "initialization"].runs) == 7 * 2, "every worker begins anew in each round"
    assert all(result.median > 0 for (role, _), result in latencies.items() if role != "ps")
    steps = {r.extra["engine"]: r for r in report.results if "sent_bps" in r.extra}
    assert set(steps) == {"xdp", "tcp"}
    for result in steps.values():
        before = [bps for at, bps in result.extra["sent_bps"]["all"] if 0.1 < at < step.falls_s]
        during = [bps for at, bps in result.extra["sent_bps"]["all"] if 0.5 < at < step.falls_s + step.lasts_s]
        assert sum(during) / len(during) < 0.8 * sum(before) / len(before), "the link has fallen"
    assert steps["xdp"].extra["rates_lowered"] > 0
    draw(report, tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 0
