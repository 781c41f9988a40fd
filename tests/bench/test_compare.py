"""The arithmetic of `wiresum bench compare`, its table of methods, and one tiny run."""

from __future__ import annotations

import pytest

from wiresum.bench.compare import measure as compare
from wiresum.bench.compare.measure import Measured, Options
from wiresum.bench.compare.methods import METHODS, Setting
from wiresum.errors import PlanError

SETTING = Setting(scale=0.01, engine="udp", gradient_bytes=5_420_000)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_plan_or_needs_none_and_a_bound(name):
    case = METHODS[name].prepare(SETTING)
    assert (case.plan is None) == (name in {"gloo", "ps", "sharded-ps"})
    assert len(case.topology.workers) == 7
    # The slowest workers have 400 Mbit/s, and nothing sums at more.
    assert case.bound(5_000_000, {}) >= 5_000_000 * 8 / 400e6
    assert case.bound(5_000_000, {"W3": 1.0}) >= 1.0


def test_the_tree_of_the_paper_is_bounded_by_its_servers():
    # Four flows on each link of S1: three workers and the root.
    assert METHODS["xagg"].prepare(SETTING).bound(5_000_000, {}) == pytest.approx(5e6 * 8 / 250e6, rel=0.04)


def test_the_switch_takes_the_servers_place():
    case = METHODS["switch"].prepare(SETTING)
    assert case.plan is not None
    assert [node.name for node in case.plan.nodes] == ["fabric"]
    assert case.bound(5_000_000, {}) == pytest.approx(5e6 * 8 / 400e6, rel=0.04)


def measured(name: str, seconds: list[float]) -> Measured:
    case = METHODS[name].prepare(SETTING)
    return Measured(case, {"Small": seconds, "Large": [2 * s for s in seconds]}, {"Small": 0.0, "Large": 1e-6})


def test_the_report_has_every_method_and_model_beside_xagg():
    options = Options(methods=("xagg", "gloo"), models={"Small": 100_000_000, "Large": 200_000_000})
    report = compare.to_report(options, {"xagg": measured("xagg", [1.0, 3.0, 2.0]), "gloo": measured("gloo", [5.0])})
    assert [(r.name, r.median) for r in report.results] == [
        ("xagg, Small", 2.0), ("xagg, Large", 4.0), ("gloo, Small", 5.0), ("gloo, Large", 10.0),
    ]  # fmt: skip
    assert [(r.name, r.value) for r in report.ratios] == [("gloo, Small / xagg", 2.5), ("gloo, Large / xagg", 2.5)]
    assert report.results[2].extra["bound_s"] == pytest.approx(2 * 6 / 7 * 1e6 * 8 / 400e6)
    assert compare.table(report).row_count == 2


def test_sizes_are_scaled_to_whole_values():
    assert Options(models={"m": 25_000_000}, model_scale=0.01).elements == {"m": 62_500}
    assert Options(models={"m": 1}, model_scale=0.01).elements == {"m": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [(Options(methods=("magic",)), "no method magic"), (Options(methods=("gloo",), starts={"W9": 1}), "no worker W9")],
)
def test_what_does_not_exist_is_refused_before_anything_starts(options, message):
    with pytest.raises(PlanError, match=message):
        compare.measure(options)


@pytest.mark.needs("namespaces")
def test_a_tiny_run_is_exact_where_it_can_be_and_has_its_turn():
    report = compare.measure(Options(methods=("xagg",), models={"tiny": 1_000_000}, repeats=1, engine="udp"))
    assert [len(result.runs) for result in report.results] == [1]
    assert report.results[0].extra["largest_deviation_from_gloo"] < 1e-4
