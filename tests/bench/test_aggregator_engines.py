"""The arithmetic of `wiresum bench aggregator --engines`, and one tiny run of it."""

from __future__ import annotations

import pytest

from wiresum.bench.aggregator.measure import Case, Options, load_result, measure, rate_result, ratios, star
from wiresum.bench.aggregator.plot import curves, draw
from wiresum.bench.result import Report
from wiresum.errors import SupportError


def run(summed: int, cpu_s: float, trips: list[float] | None = None, lost: int = 0) -> dict:
    verdicts = {"first": summed // 4, "added": summed // 2, "completed": summed - summed // 4 - summed // 2}
    return {
        "contributions": summed, "results": summed - lost, "seconds": 2.0, "round_trips_us": trips or [],
        "cpu_s": cpu_s, "core_busy_s": cpu_s, "counters": {"verdicts": verdicts},
    }  # fmt: skip


def test_packets_per_second_of_one_core_count_the_time_that_was_used():
    result = rate_result(Case("xdp", 256, runs=[run(1000, 0.5), run(1000, 0.25), run(1000, 1.0)]))
    assert sorted(result.runs) == [1000, 2000, 4000]
    assert (result.median, result.extra["nanoseconds"]) == (2000, 500_000)
    assert result.extra["reached_packets_per_s"] == 500


def test_load_is_cpu_time_over_time_and_latency_what_the_links_do_not_take():
    case = Case("udp", 256, rate=500, runs=[run(1000, 0.5, [30.0, 10.0, 20.0], lost=100)])
    result = load_result(case, direct_us=5.0)
    assert result.median == 25
    assert result.extra["loss"] == pytest.approx(0.1)
    assert (result.extra["round_trip_us"], result.extra["added_latency_us"]) == (20, 15)


def test_a_load_without_any_result_has_no_latency():
    result = load_result(Case("udp", 256, rate=500, runs=[run(1000, 0.5, lost=1000)]), direct_us=5.0)
    assert result.extra["loss"] == 1
    assert result.extra["added_latency_us"] is None


def test_ratios_compare_equal_packets():
    cases = [Case(e, v, runs=[run(1000, s)]) for e, v, s in [("xdp", 64, 0.1), ("tcp", 64, 0.4), ("tcp", 128, 0.4)]]
    (ratio,) = ratios([rate_result(case) for case in cases])
    assert ratio.name == "xdp, 64 values / tcp, 64 values"
    assert ratio.value == pytest.approx(4)


def test_xdp_on_frames_is_compared_with_what_others_are_fed():
    cases = [
        Case(engine, 256, feed=feed, runs=[run(1000, seconds)])
        for engine, feed, seconds in [
            ("xdp", "skb", 0.2), ("xdp", "frames", 0.1), ("tcp", "skb", 0.4),
            ("af_xdp", "skb", 0.3), ("af_xdp", "frames", 0.2),
        ]
    ]  # fmt: skip
    found = {ratio.name: ratio.value for ratio in ratios([rate_result(case) for case in cases])}
    assert found == {
        "xdp, 256 values / af_xdp, 256 values": pytest.approx(1.5),
        "xdp, 256 values / tcp, 256 values": pytest.approx(2),
        "xdp on frames, 256 values / af_xdp on frames, 256 values": pytest.approx(2),
        "xdp on frames, 256 values / tcp, 256 values": pytest.approx(4),
    }


def test_pictures_have_a_curve_for_each_engine(tmp_path):
    rates = [rate_result(Case(e, v, runs=[run(1000, 0.5)])) for e in ("xdp", "udp") for v in (256, 64)]
    loads = [load_result(Case("xdp", 256, rate=r, runs=[run(1000, 0.5, [9.0])]), 5.0) for r in (2e3, 1e3)]
    report = Report("aggregator engines", {}, [*rates, *loads])
    assert curves(report, "rate-by-values") == {e: [(64, 2000), (256, 2000)] for e in ("xdp", "udp")}
    assert curves(report, "latency-by-load") == {"xdp": [(1e3, 4), (2e3, 4)]}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in draw(report, tmp_path))


def test_every_child_of_the_star_is_the_generator():
    plan = star("udp", 256, 3)
    assert [worker.rank for worker in plan.workers] == [0, 1, 2]
    assert len({worker.address for worker in plan.workers}) == 1


def test_an_engine_that_does_not_exist_is_an_error():
    with pytest.raises(SupportError, match="choose from"):
        measure(Options(engines=("abacus",)))


@pytest.mark.needs("xdp", "cores")
def test_every_engine_is_measured_live():
    engines = ("xdp", "af_xdp", "udp", "tcp")
    report = measure(Options(engines, values=(64,), load_values=64, rates=(4e3,), seconds=0.05, runs=1))
    rates = {(r.extra["engine"], r.extra["feed"]): r.median for r in report.results if r.extra["kind"] == "rate"}
    assert set(rates) == {(engine, "skb") for engine in engines} | {("xdp", "frames"), ("af_xdp", "frames")}
    assert all(rate > 0 for rate in rates.values())
    loads = {r.extra["engine"]: r for r in report.results if r.extra["kind"] == "load"}
    assert all(load.extra["loss"] < 1 for load in loads.values())
