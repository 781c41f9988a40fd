"""Benchmarks of the daemon as a service: their arithmetic, their packets, and one tiny run."""

from __future__ import annotations

import pytest
from tests.capabilities import best_engine

from wiresum.bench.coexistence import measure as coexistence
from wiresum.bench.deploy import measure as deploy
from wiresum.bench.isolation import load as service_load
from wiresum.bench.isolation import measure as isolation
from wiresum.bench.result import Result
from wiresum.bench.security import measure as security


def test_ratios_are_those_of_the_same_engine():
    def result(engine: str, flood: str, value: float) -> Result:
        return Result(f"{engine} {flood}", "sums/s", [value], {"engine": engine, "flood": flood})

    rows = [result("xdp", "alone", 200), result("udp", "alone", 100), result("xdp", "hellos", 190)]
    assert [(r.name, r.value) for r in isolation.ratios(rows)] == [("xdp hellos / alone", 0.95)]
    assert [r.value for r in deploy.ratios([Result("xdp, compiled", "s", [0.34]), Result("udp", "s", [1])])] == [0.5]


def test_floods_are_what_they_are_called():
    assert service_load.packets("malformed", 1)[:2] == b"\0\0"
    hello, foreign = service_load.packets("hellos", 1), service_load.packets("foreign", 1)
    assert (len(hello), len(foreign)) == (34 + 32, 34 + 2944)
    words = [int.from_bytes(foreign[at : at + 4]) for at in range(0, 28, 4)]
    assert int.from_bytes(foreign[30:34]) == (sum(words) + 1) % 2**32, "the check is right"
    with pytest.raises(ValueError, match="no flood of cats"):
        service_load.packets("cats", 1)


@pytest.mark.needs("namespaces")
def test_a_greedy_job_is_held_to_its_quota():
    engine = best_engine()
    report = isolation.measure(isolation.Options(engines=(engine,), seconds=0.2, runs=1, quota_bps=5e6))
    found = {result.extra["flood"]: result for result in report.results}
    assert set(found) == set(isolation.FLOODS)
    assert found["greedy job, quota"].extra["over_quota"] > 0
    assert found["greedy job"].extra["over_quota"] == 0
    assert all(result.median > 0 for result in report.results), "the other job goes on"


@pytest.mark.needs("namespaces")
def test_workers_join_and_a_job_goes_on_beside_strangers():
    engine = best_engine()
    report = security.measure(security.Options(engines=(engine,), workers=8, seconds=0.2, runs=1))
    joins, *sums = report.results
    assert joins.unit == "s"
    assert [result.extra["flood"] for result in sums] == list(security.FLOODS)
    assert all(result.median > 0 for result in report.results), "all are welcome, and the job goes on"
    assert len(report.ratios) == len(security.FLOODS) - 1


@pytest.mark.needs("namespaces")
def test_a_job_and_tcp_go_on_beside_each_other():
    engine = best_engine()
    report = coexistence.measure(coexistence.Options((engine,), 500e6, (2000.0,), seconds=0.3, runs=1))
    figures = {result.extra["figure"] for result in report.results}
    assert figures == {"TCP flow", "TCP request p50", "TCP request p99", "job alone", "job beside bulk",
                       "job beside requests"}  # fmt: skip
    assert all(result.median > 0 for result in report.results)
    assert len(report.ratios) == 2 * (3 + 2)


def test_what_is_left_is_over_the_same_without_the_other():
    def result(figure: str, load: str, value: float) -> Result:
        return Result(figure, "", [value], {"engine": "xdp", "figure": figure, "load": load})

    rows = [result("TCP flow", "no job", 400), result("TCP flow", "full load", 100)]
    rows += [result("job alone", "full load", 10), result("job beside bulk", "full load", 5)]
    assert [ratio.value for ratio in coexistence.ratios(rows)] == [0.25, 0.5]
