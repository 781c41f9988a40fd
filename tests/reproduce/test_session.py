"""Benchmarks run once, on demand; a failure is shown where it belongs and stops nothing else."""

from __future__ import annotations

import pytest

from wiresum.bench.result import Report, Result
from wiresum.errors import TestbedError, WiresumError
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S
from wiresum.reproduce.row import Benchmark, Row
from wiresum.reproduce.session import Session


class Bench:
    """Counts its runs."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs = 0
        self.error = error

    def measure(self, quick, progress):
        self.runs += 1
        progress("running")
        if self.error:
            raise self.error
        return Report("bench", {"quick": quick}, [Result("time", "s", [2.0])])


def row(name, needs="good", **given):
    def measured(reports):
        return f"{reports.report(needs).results[0].median} s"

    return Row(name, "a time", "L", "§1", "1 s", needs=(needs,), measured=measured, **given)


def session(quick=False, **benches):
    return Session(
        {name: Benchmark(f"wiresum bench {name}", 90, 9, one.measure) for name, one in benches.items()}, quick
    )


def test_a_benchmark_runs_once_for_all_rows():
    bench = Bench()
    measured = session(good=bench)
    assert [row(name).evaluate(measured).ours for name in ("X1", "X2")] == ["2.0 s", "2.0 s"]
    assert bench.runs == 1


def test_what_no_row_asks_for_does_not_run():
    bench = Bench()
    rows = [Row("X2", "a share", "A", "§1", "50 %", computed=lambda: "half")]
    measured = session(good=bench)
    assert measured.expected_s(rows) == 0
    assert rows[0].evaluate(measured).ours == "half"
    assert bench.runs == 0


def test_durations_count_each_benchmark_once():
    rows = [row("X1"), row("X2"), row("X3", "other")]
    benches = {"good": Bench(), "other": Bench()}
    assert session(**benches).expected_s(rows) == 180
    assert session(quick=True, **benches).expected_s(rows) == 18


@pytest.mark.parametrize(
    "error", [TestbedError("a link is missing"), OSError("no such file"), TimeoutError("too long")]
)
def test_a_failure_is_shown_in_its_rows_and_not_tried_again(error):
    bad = Bench(error)
    measured = session(good=Bench(), bad=bad)
    failed = [row(name, "bad", computed=lambda: "4 s by fluid").evaluate(measured) for name in ("X1", "X2")]
    assert [finding.ours for finding in failed] == [f"4 s by fluid; failed: `wiresum bench bad`: {error}"] * 2
    assert all(finding.failed for finding in failed)
    assert bad.runs == 1
    assert not row("X3").evaluate(measured).failed


def test_a_mistake_of_ours_is_no_finding():
    with pytest.raises(ZeroDivisionError):
        row("X1", "bad").evaluate(session(bad=Bench(ZeroDivisionError())))


def test_rows_without_measurements_say_so():
    finding = row("X1", computed=lambda: "4 s by fluid").evaluate(None)
    assert finding.ours == "4 s by fluid; not measured, as asked"
    assert not finding.failed


def test_a_failed_report_is_an_error_of_the_product():
    with pytest.raises(WiresumError, match="wiresum bench bad"):
        session(bad=Bench(OSError("gone"))).report("bad")


def test_what_is_measured_takes_no_more_time():
    rows = [row("X1"), row("X2", "bad"), row("X3", "other")]
    measured = session(good=Bench(), bad=Bench(OSError("gone")), other=Bench())
    assert measured.expected_s(rows) == 270
    for each in rows[:2]:
        each.evaluate(measured)
    assert measured.expected_s(rows) == 90


def test_planners_that_search_get_the_time_that_was_asked_for():
    told = []

    def search(_quick, _progress, time_limit_s):
        told.append(time_limit_s)
        return Report("bench", {}, [Result("time", "s", [2.0])])

    benches = {"good": Benchmark("wiresum bench good", 90, 9, search, searches=True)}
    row("X1").evaluate(Session(benches))
    row("X1").evaluate(Session(benches, time_limit_s=3.0))
    assert told == [DEFAULT_TIME_LIMIT_S, 3.0]
