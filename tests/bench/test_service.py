"""Benchmarks of the daemon as a service: their arithmetic, their packets, and one tiny run."""

from __future__ import annotations

import pytest
from tests.capabilities import best_engine, engines

from wiresum.bench.coexistence import measure as coexistence
from wiresum.bench.deploy import measure as deploy
from wiresum.bench.isolation import load as service_load
from wiresum.bench.isolation import measure as isolation
from wiresum.bench.result import Result
from wiresum.bench.security import measure as security
from wiresum.bench.security import proven, sealed, switched
from wiresum.errors import SettingError


def test_ratios_are_those_of_the_same_engine():
    def result(engine: str, flood: str, value: float) -> Result:
        return Result(f"{engine} {flood}", "sums/s", [value], {"engine": engine, "flood": flood})

    rows = [result("xdp", "alone", 200), result("udp", "alone", 100), result("xdp", "hellos", 190)]
    assert [(r.name, r.value) for r in isolation.ratios(rows)] == [("xdp hellos / alone", 0.95)]
    assert [r.value for r in deploy.ratios([Result("xdp, compiled", "s", [0.34]), Result("udp", "s", [1])])] == [0.5]


def test_floods_are_what_they_are_called():
    assert service_load.packets("malformed", 1)[:2] == b"\0\0"
    hello, foreign = service_load.packets("hellos", 1), service_load.packets("foreign", 1)
    assert (len(hello), len(foreign)) == (38 + 64, 38 + 2944)
    words = [int.from_bytes(foreign[at : at + 4]) for at in range(0, 32, 4)]
    assert int.from_bytes(foreign[34:38]) == (sum(words) + 1) % 2**32, "the check is right"
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
@pytest.mark.parametrize("engine", [best_engine(), "tcp"])
def test_workers_join_and_a_job_goes_on_beside_strangers(engine):
    report = security.measure(security.Options(engines=(engine,), workers=8, seconds=0.2, runs=1))
    joins, *sums = report.results
    assert joins.unit == "s"
    assert [result.extra["flood"] for result in sums] == list(security.FLOODS)
    assert all(result.median > 0 for result in report.results), "all are welcome, and the job goes on"
    assert len(report.ratios) == len(security.FLOODS) - 1


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("engine", engines("udp", "tcp", "xdp"))
def test_sealed_sums_are_measured_beside_open_ones(engine):
    report = sealed.measure(security.Options(engines=(engine,), size_bytes=100_000, runs=1))
    figures = {(result.extra["job"], result.unit) for result in report.results if "job" in result.extra}
    assert figures == {(job, unit) for job in ("open", "sealed") for unit in ("s", "s/GB")}
    steps = {(result.extra["step"], result.extra["values"]) for result in report.results if "step" in result.extra}
    assert steps == {(step, values) for step in ("encode", "seal", "open") for values in sealed.PACKETS}
    assert all(result.median > 0 for result in report.results)
    assert [ratio.name for ratio in report.ratios] == [
        f"{engine}: sealed sum / open", f"{engine}: sealed processor time / open"
    ]  # fmt: skip


def test_what_a_proof_costs_is_what_making_and_running_leave():
    def result(step: str, nanoseconds: float) -> Result:
        return Result(step, "ns", [nanoseconds + 5, nanoseconds], {"step": step, "values": 64})

    steps = {"open": 30, "open, made alone": 20, "proven": 70, "proven, made alone": 50, "NH and SipHash-2-4": 12,
             "SipHash-2-4": 22, "SipHash-1-3": 17, "empty": 2}  # fmt: skip
    ratios = proven.ratios([result(step, cost) for step, cost in steps.items()])
    assert [ratio.value for ratio in ratios] == [2.0, 2.0, 1.5]


@pytest.mark.needs("bpf")
def test_proofs_are_measured_beside_other_codes():
    report = proven.measure(security.Options(runs=1))
    rows = {(result.extra["step"], result.extra["values"]) for result in report.results}
    steps = {*proven.WITHOUT, *proven.WITHOUT.values()}
    assert steps - {step for step, _ in rows} <= {proven.CIPHER}, "which not every kernel has"
    steps &= {step for step, _ in rows}
    assert rows == {(step, values) for step in steps for values in proven.VALUES}
    assert all(result.median > 0 for result in report.results)
    compared = [pair for pair in proven.COMPARED if pair[0] in steps]
    assert len(report.ratios) == len(compared) * len(proven.VALUES)


@pytest.mark.needs("namespaces")
def test_a_job_at_switches_joins_and_goes_on_beside_strangers_sealed_or_not():
    report = switched.measure(security.Options(engines=("udp",), size_bytes=100_000, seconds=0.2, runs=1))
    figures = {(result.extra["job"], result.extra.get("figure")) for result in report.results}
    assert figures == {(job, one) for job in ("open", "sealed") for one in ("joins", "seconds", "cpu", None)}
    floods = [result.extra["flood"] for result in report.results if "flood" in result.extra]
    assert floods == [*security.FLOODS, "alone"], "and the sealed one alone"
    assert all(result.median > 0 for result in report.results), "all are welcome, and the job goes on"
    assert len(report.ratios) == len(security.FLOODS) - 1 + 2


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


def test_switches_have_not_every_engine():
    with pytest.raises(SettingError, match="switches have the engines xdp and udp"):
        switched.measure(security.Options(engines=("tcp",)))
