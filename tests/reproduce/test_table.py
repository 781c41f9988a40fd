"""The table of XAgg: complete, without a measurement, from made-up reports, and a tiny real one."""

from __future__ import annotations

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from wiresum.bench.heterogeneity import measure as heterogeneity
from wiresum.bench.result import Report, Result
from wiresum.cli.main import app
from wiresum.errors import SupportError
from wiresum.reproduce import PAPERS, pictures
from wiresum.reproduce.row import CLASSES, Benchmark
from wiresum.reproduce.session import Session
from wiresum.reproduce.table import markdown
from wiresum.reproduce.xagg import benchmarks

XAGG = PAPERS["xagg"]


def rate(engine, values, packets_per_s):
    extra = {"kind": "rate", "engine": engine, "values": values, "nanoseconds": 1e9 / packets_per_s}
    return Result(f"{engine}, {values}", "packets/s of one core", [packets_per_s], extra)


def load(engine, offered, loss, latency_us):
    extra = {"kind": "load", "engine": engine, "values": 256, "offered_packets_per_s": offered, "loss": loss,
             "added_latency_us": latency_us}  # fmt: skip
    return Result(f"{engine} at {offered}", "% of a core", [50.0], extra)


def compared(method, model, seconds):
    return Result(f"{method}, {model}", "s", [seconds], {"method": method, "model": model, "bound_s": seconds / 1.1})


def stepped(engine, milliseconds, settled):
    extra = {"engine": engine, "settled": settled, "within_5_percent_after_100ms": 0.9,
             "lowest_50ms_mean_over_bound": 0.6, "sent_bps": {"all": [(0.1, 6e8), (0.2, 2e8)]}}  # fmt: skip
    return Result(f"settling, {engine}", "ms", [milliseconds], extra)


MADE_UP = {
    "heterogeneity": Report(
        "heterogeneity", {}, [Result(name, "s", [t],
                               {"bound_s": 0.95 * t, "predicted_bps": {"W1": [(0.0, t, 1e8)]},
                                "measured_bps": {"W1": [(0.5, 9e7), (1.0, 9.5e7)]}}) for name, t in
                              {"ps": 4.0, "pool": 4.0, "xagg": 3.0}.items()],
    ),
    "aggregator": Report(
        "aggregator engines", {},
        [rate("xdp", 64, 2e6), rate("xdp", 256, 1e6), rate("tcp", 64, 1e6), rate("tcp", 256, 0.4e6),
         load("xdp", 25e3, 0.0, 30.0), load("tcp", 25e3, 0.0, 40.0),
         load("xdp", 1e5, 0.0, 60.0), load("tcp", 1e5, 0.5, 90.0)],
    ),
    "compare": Report(
        "compare", {},
        [compared(method, model, factor * 0.1) for model in ("ResNet50", "AlexNet", "VGG16", "BERT-BiLSTM-CRF")
         for method, factor in {"xagg": 1, "tcp-agg": 2, "switch": 4, "gloo": 2, "ps": 3}.items()],
    ),
    "rates": Report(
        "rates", {"falls_s": 0.1, "lasts_s": 0.1, "wide_bps": 6e8, "narrow_bps": 2e8},
        [Result("worker, update", "ms", [0.5, 1.5], {"role": "worker", "period": "update", "p99": 1.5}),
         stepped("xdp", 80.0, True), stepped("tcp", 1000.0, False)],
    ),
    "deploy": Report("deploy", {}, [Result("xdp, precompiled", "s", [0.17]), Result("udp", "s", [0.01])]),
}  # fmt: skip


@pytest.fixture
def made_up():
    """A session in which nothing is measured."""
    given = {
        name: Benchmark("none", 0, 0, lambda _quick, _progress, name=name: MADE_UP[name]) for name in XAGG.benchmarks
    }
    return Session(given)


def by_id(findings):
    return {finding.id: finding for finding in findings}


def test_every_statement_has_a_row():
    assert [row.id for row in XAGG.rows] == [f"X{number}" for number in range(1, 19)]


def test_rows_are_well_formed():
    for row in XAGG.rows:
        assert set(row.classes) <= set(CLASSES), row.id
        assert all((row.classes, row.paper, row.what, row.source)), row.id
        assert bool(row.measured) == bool(row.needs), row.id
        assert row.computed or row.measured, f"{row.id} says nothing of ours"
        assert set(row.needs) <= set(XAGG.benchmarks), row.id
    assert {figure.needs for figure in XAGG.figures} <= set(XAGG.benchmarks)


def test_without_measurements_all_is_computed():
    findings = by_id(row.evaluate(None) for row in XAGG.rows)
    assert not any(finding.failed for finding in findings.values())
    assert findings["X1"].ours.startswith("fluid: parameter server 4.000 s, summing switch 4.000 s, XAgg 3.000 s")
    lines = markdown(findings.values()).splitlines()
    assert len(lines) == 2 + len(XAGG.rows)
    assert len({line.count(" | ") for line in lines}) == 1


def test_figures_come_from_the_reports(made_up):
    ours = {name: finding.ours for name, finding in by_id(row.evaluate(made_up) for row in XAGG.rows).items()}
    assert "XAgg 3.00 s (1.053 × the fluid with headers)" in ours["X1"]
    assert "time about 333 + 2.60 n ns" in ours["X3"], "500 ns with 64 values, 1000 ns with 256"
    assert "xdp (256 values) 1000 ns a packet = 8.19 Gbit/s" in ours["X4"]
    assert "2.00 to 2.50 × (64 values 2.00, 256 values 2.50)" in ours["X5"]
    assert "xdp 12.2, tcp 30.5" in ours["X6"]
    assert "at 0.20 Gbit/s xdp 30.0 µs, tcp 40.0 µs (XDP 25 % below TCP)" in ours["X7"]
    assert "90.0" not in ours["X7"], "half of the packets were lost at that pace"
    assert "tcp 50.00 % at 100,000 packets/s offered, none up to 25,000" in ours["X8"]
    assert "TCP-Agg −50.0 %, SwitchML −75.0 %, NCCL −50.0 %, BytePS −66.7 %" in ours["X10"]
    assert "ResNet50 −24 %" in ours["X12"], "a share of 32 %, three quarters of it saved"
    assert "SwitchML 1.45 ×" in ours["X13"], "a share of 41.7 %, three quarters of it saved"
    assert "SwitchML −15 %" in ours["X14"]


def test_pictures_say_how_they_were_obtained(made_up, tmp_path):
    for row in XAGG.rows:
        row.evaluate(made_up)
    drawn = dict(pictures.draw(XAGG, made_up.reports, tmp_path))
    assert set(drawn) == {figure.name for figure in XAGG.figures}
    assert all(path.stat().st_size > 0 for path in drawn.values())
    assert "emulation: network namespaces on one machine" in pictures.provenance(XAGG, "compare")


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments])


def test_the_command_prints_json(tmp_path):
    done = run("xagg", "--no-live", "--rows", "X13,X2", "--json", "--figures", str(tmp_path))
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert [row["id"] for row in printed["rows"]] == ["X2", "X13"]
    assert printed["reports"] == {}
    assert "TCP-Agg 1.20 ×" in printed["rows"][1]["recomputed"]


def test_the_command_explains_itself():
    done = run("--help")
    assert done.exit_code == 0
    assert "Example: `wiresum reproduce xagg --quick`" in done.output


@pytest.mark.parametrize(("arguments", "message"), [(["nothing"], "no paper"), (["xagg", "--rows", "Y1"], "no row Y1")])
def test_what_is_not_there(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_a_failed_measurement_is_the_exit_code(monkeypatch, tmp_path):
    def fail(_quick, _progress):
        raise SupportError("no XDP here")

    broken = dataclasses.replace(XAGG, benchmarks=dict.fromkeys(XAGG.benchmarks, Benchmark("broken", 1, 1, fail)))
    monkeypatch.setattr("wiresum.cli.reproduction.PAPERS", {"xagg": broken})
    done = run("xagg", "--rows", "X1,X2", "--json", "--figures", str(tmp_path))
    assert done.exit_code == 1
    failed, computed = json.loads(done.stdout)["rows"]
    assert failed["failed"]
    assert "no XDP here" in failed["ours"]
    assert not computed["failed"]


@pytest.mark.needs("xdp")
def test_a_tiny_live_row():
    """The method pool alone, as it takes one testbed."""
    tiny = heterogeneity.Options(size_bytes=400_000, late_s=0.1, methods=("pool",), repeats=1)
    measured = Benchmark("tiny", 1, 1, lambda _quick, progress: heterogeneity.measure(tiny, progress))
    session = Session({**benchmarks.BENCHMARKS, "heterogeneity": measured})
    finding = next(row for row in XAGG.rows if row.id == "X1").evaluate(session)
    assert not finding.failed, finding.ours
    assert "live at 1:100: summing switch 0." in finding.ours
