"""Rows of P4INC-AOI: what is recomputed, by hand; what is planned and simulated, on little."""

import re
from dataclasses import replace

import pytest

from wiresum.bench.result import Report, Result
from wiresum.reproduce import PAPERS, pictures
from wiresum.reproduce.p4inc_aoi import example, large, mapreduce, printed, scaled, schemes, small, testbed, throughput
from wiresum.reproduce.session import Session
from wiresum.turns.plans import GOODPUT

PAPER = PAPERS["p4inc-aoi"]
JOBS = 12


@pytest.fixture(scope="module")
def little():
    """Benchmarks of seconds."""
    few = {
        small: {"QUICK_JOBS": (20,)},
        large: {"QUICK_JOBS": (40,), "PLACES": (2, 4), "SLOTS_S": (1.0, 2.0)},
        mapreduce: {"QUICK_JOBS": (JOBS,)},
        printed: {"TESTBED_JOBS": (10,)},
    }
    with pytest.MonkeyPatch.context() as patch:
        for module, values in few.items():
            for name, value in values.items():
                patch.setattr(module, name, value)
        made = {"connections": planned_connections, "scaled-throughput": speedups, "scaled-testbed": ten_jobs}
        live = {
            name: replace(PAPER.benchmarks[name], measure=lambda quick, progress, report=report: report())
            for name, report in made.items()
        }
        yield Session({**PAPER.benchmarks, **live}, quick=True)


def planned_connections():
    """What `tests/turns` runs over a network."""
    setups = {panel: example.planned(panel)[1].cost.setups for panel in example.PANELS}
    return Report("connections", {}, [Result(panel, "connections", [float(n)]) for panel, n in setups.items()])


def speedups():
    """What `tests/turns` runs over a network."""
    return Report("scaled-throughput", {"scale": 800}, [Result("vgg16", "×", [3.0])])


def ten_jobs():
    """Likewise."""
    known = [(scheme, what) for scheme in schemes.SCHEMES for what in (schemes.SETUPS, testbed.JCT)]
    results = [
        Result("", "", [7.0], {"scheme": scheme, "what": what, "case": "VGG16 10", "simulated": 6.0})
        for scheme, what in known
    ]
    return Report("scaled-testbed", {"scale": 800}, results)


def test_all_rows_are_there_and_every_benchmark_is_asked_for():
    assert [row.id for row in PAPER.rows] == [f"A{number}" for number in range(1, 13)]
    needed = {name for row in PAPER.rows for name in row.needs}
    assert needed == set(PAPER.benchmarks)
    live = {"connections", "scaled-throughput", "scaled-testbed"}
    assert needed - {figure.needs for figure in PAPER.figures} == {*live, "torn-down", "equations"}


def test_every_row_has_a_value_and_every_figure_is_drawn(little, tmp_path):
    findings = [row.evaluate(little) for row in PAPER.rows]
    assert [one.id for one in findings if one.failed or not one.ours] == []
    assert {one.id for one in findings if "live" in one.ours} == {"A1", "A2", "A3", "A12"}
    drawn = dict(pictures.draw(PAPER, little.reports, tmp_path))
    assert set(drawn) == {figure.name for figure in PAPER.figures}
    assert all(path.stat().st_size > 0 for path in drawn.values())


def test_without_measurements_what_can_be_computed_is_there():
    said = {row.id: row.evaluate(None).ours for row in PAPER.rows}
    assert "4, 3, 2, 0 connections, 3, 2, 1, 0 reconfigurations; simulated: 4, 3, 2, 0" in said["A12"]
    assert "links alone" in said["A1"]


def test_figure_2_is_the_papers():
    for panel, connections in printed.CONNECTIONS.items():
        cost = example.planned(panel)[1].cost
        assert (cost.setups, cost.reconfigurations) == (connections, printed.RECONFIGURATIONS[panel])


def test_true_gaps_are_over_the_optimum():
    recomputed = {row.id: row.recomputed() for row in PAPER.rows if row.recomputed}
    for row, gaps in {"A5": (76.5, 62.3, 60.8), "A6": (20.6, 18.8, 19.6), "A7": (50.0, 42.0, 46.6)}.items():
        assert [float(one) for one in re.findall(r"([\d.]+) %", recomputed[row])] == list(gaps)
    assert "−46.67 %" in recomputed["A3"]
    assert "−56.35 %" in recomputed["A3"]


def test_links_alone_are_never_more_than_two_fold_and_a_slower_host_is():
    constants = throughput.fit()
    for model in printed.SPEEDUPS:
        assert 1 < constants.speedup(model, throughput.LINK_BPS) < throughput.WORKERS
        assert constants.speedup(model) > constants.speedup(model, throughput.LINK_BPS)
    wrong = [constants.speedup(model) / told - 1 for model, told in printed.SPEEDUPS.items()]
    assert max(map(abs, wrong)) < 0.2, "the fit"


def test_gpus_are_busy_as_long_as_their_jobs_compute_and_send():
    jobs = 40
    document = testbed.instance("vgg16", jobs, 1, sums=False)
    rack = next(unit for unit in document["units"] if unit["name"] == "gpu1")
    stars = [job["traffic"]["star"] for job in document["jobs"]]
    workers = [sum(star["workers"].values()) for star in stars]
    sent = sum(count * star["bytes"] for count, star in zip(workers, stars, strict=True))
    busy_s = sum(count * testbed.ITERATIONS * testbed.cycle_s("vgg16", count, by_switch=False) for count in workers)
    assert 8 * sent / (rack["switch_bps"] / 2) == pytest.approx(busy_s / testbed.SERVERS)


@pytest.mark.parametrize("sums", [False, True])
def test_a_scaled_network_keeps_times_but_for_headers(sums):
    """Iterations send for 1 / GOODPUT as long as the paper's and compute as long; bytes and rates are 1:800."""
    papers = testbed.instance("vgg16", 10, 1, sums)
    made = scaled.scaled(papers, "vgg16", sums=sums)
    compute_s = testbed.ITERATIONS * throughput.fit().compute_s("vgg16")
    for one, other in zip(papers["jobs"], made["jobs"], strict=True):
        theirs, ours = one["traffic"]["star"], other["traffic"]["star"]
        assert ours["bytes"] == pytest.approx(theirs["bytes"] / scaled.SCALE, rel=1e-6)
        seconds = 8 * theirs["bytes"] / theirs["host_bps"] - compute_s
        assert 8 * ours["bytes"] / ours["host_bps"] - compute_s == pytest.approx(seconds / GOODPUT, rel=1e-4)
        assert other["arrival_s"] == one["arrival_s"]
    jobs = scaled.workload_of(made, "vgg16").jobs
    assert sum(job.bytes * job.iterations for job in jobs) == sum(
        job["traffic"]["star"]["bytes"] for job in made["jobs"]
    )


def test_fig_6_is_within_reach_where_fcfs_tears_circuits_down(monkeypatch):
    """Sums and time windows save a quarter of the set-ups at least, as the declared reading is to explain."""
    monkeypatch.setattr(printed, "TESTBED_JOBS", (40,))
    monkeypatch.setattr(printed, "NAMES", {"vgg16": "VGG16"})
    report = testbed._measure_declared(True, lambda line: None)
    for ours, theirs in (("INC-FCFS", "noINC-FCFS"), ("noINC-TW", "noINC-FCFS")):
        one, other = (sum(schemes.values(report, name, schemes.SETUPS).values()) for name in (ours, theirs))
        assert one <= 0.75 * other


def test_sweeps_change_one_thing():
    base = large.STATED
    wide = large._makers({"8": large.replace(base, places=8)}, base)["8"](1)
    plain = large._makers({"4": base})["4"](1)
    assert wide["jobs"] == plain["jobs"]
    assert {unit["places"] for unit in wide["units"]} == {8}


def test_reductions_leave_out_what_has_nothing_to_reduce():
    def report(setups):
        from wiresum.bench.result import Report, Result

        known = [{"scheme": scheme, "case": case, "what": "set-ups"} for scheme in ("a", "b") for case in ("1", "2")]
        return Report("it", {}, [Result("", "", [float(n)], one) for n, one in zip(setups, known, strict=True)])

    assert schemes.saved(report([1, 0, 4, 0]), "set-ups", "a", "b") == "−75.0 %"
    assert schemes.saved(report([0, 0, 0, 0]), "set-ups", "a", "b") == "0 to 0"
