"""The table of GOAT: complete, and right where a figure has one value."""

from __future__ import annotations

import pytest

from wiresum.bench.asynchrony.measure import LINKS, SERVER
from wiresum.bench.result import Report, Result
from wiresum.reproduce import PAPERS
from wiresum.reproduce.goat import fat_tree, placement, public, simulation
from wiresum.reproduce.goat.simulation import METHODS
from wiresum.reproduce.row import CLASSES

GOAT = PAPERS["goat"]
ROWS = {row.id: row for row in GOAT.rows}


def test_every_row_says_something_and_has_its_classes():
    for row in GOAT.rows:
        assert set(row.classes) <= set(CLASSES)
        assert row.computed or row.recomputed
        assert set(row.needs) <= set(GOAT.benchmarks)
        assert row.recomputed is None or row.recomputed()
    assert len(ROWS) == len(GOAT.rows)


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        ("G0", ["PS −57.1 %", "switches −23.5 %", "triangle 3 at the PS, 13 out of switches", "17 out of switches"]),
        ("G3a", ["GOAT (planner `goat`) 44 MB", "Geryon (planner `ps`) 704 MB"]),
        ("G9", ["3 ln 20 = 9.0", "factor 4"]),
        ("G1b", ["Geryon 2162", "440 images/s"]),
        ("G1c", ["ESA 1.51 ×, ATP 1.64 ×, Geryon 1.77 ×"]),
        ("G4", ["GOAT +49.6 %, K-SGD +14.7 %", "GOAT 2.00 s, K-SGD 1.53 s, GOAT-Async 1.34 s"]),
        ("G5a", ["GOAT 2.02 ×, K-SGD 1.56 ×", "1.30 × is GOAT over K-SGD"]),
        ("G5b", ["+5.78 %"]),
    ],
)
def test_figures_that_have_one_value(row, figures):
    found = ROWS[row].evaluate(None)
    assert [figure for figure in figures if figure not in found.recomputed + found.ours] == []


def test_simulated_networks_keep_the_models_bytes(monkeypatch):
    """No placement brings less than a model to the server, and all gradients are somewhere."""
    monkeypatch.setattr(placement, "PLACEMENTS", 1)
    ours, without = (placement.simulated("leaf-spine", 35, planner) for planner in ("goat", "ps"))
    assert without.server == 8400
    assert 240 <= ours.server < without.server
    assert ours.server + ours.in_network == pytest.approx(8400)
    assert ours.total < without.total


@pytest.mark.parametrize(("workers", "atp_mb"), [(20, 3855), (35, 6735)])
def test_the_public_simulation_is_counted_as_its_files_have_it(workers, atp_mb):
    """Bytes at the server of ATP and Geryon are the same in every placement, and those of the authors' files."""
    found = public.counted("leaf-spine", workers, seed=0)
    assert (found["ATP"].server, found["Geryon"].server) == (atp_mb, 240 * workers)
    assert found["GOAT"].server < 240 < found["ESA"].server < found["ATP"].server
    assert found["GOAT"].total < found["ESA"].total < found["ATP"].total < found["Geryon"].total


def test_simulated_rows_read_their_reports():
    """With the figures of another run: what rows say is what reports have."""
    quantities = {SERVER: 2.0, LINKS: 100.0}
    results = [
        Result(
            "", "", [value + deviation], {"method": method, "quantity": quantity, "deviation": deviation, "workers": 35}
        )
        for method in METHODS.values()
        for quantity, value in quantities.items()
        for deviation in (0.0, 10.0)
    ]

    class Reports:
        def report(self, name):
            assert name in GOAT.benchmarks
            return Report("asynchrony", {}, results)

    assert "GOAT 100 → 110" in ROWS["G7b"].evaluate(Reports()).ours
    assert "GOAT 0.48 GB" in ROWS["G6a"].measured(Reports())
    assert "ATP 24.00 GB" in ROWS["G7a"].measured(Reports())


def test_the_figures_are_drawn(tmp_path):
    extra = {"method": "atp", "quantity": LINKS, "deviation": 0.0, "workers": 35}
    report = Report(
        "asynchrony", {}, [Result("", "", [1.0, 2.0], extra), Result("", "", [1.0], {**extra, "quantity": SERVER})]
    )
    for figure in simulation.FIGURES:
        figure.draw(report, tmp_path / figure.file)
        assert (tmp_path / figure.file).stat().st_size > 0


def test_the_fat_tree_is_planned_beyond_64_workers(monkeypatch, tmp_path):
    monkeypatch.setattr(placement, "PLACEMENTS", 1)
    report = GOAT.benchmarks["fat-tree"].measure(True, lambda line: None)
    found = {(one.extra["planner"], one.extra["workers"]): one.median for one in report.results}
    for workers in (40, 70):
        assert found["goat", workers] <= (workers - 1) * 0.24, "the server gets a model"
        assert found["atp_static", workers] < found["atp", workers] < found["goat", workers]

    class Reports:
        def report(self, name):
            assert name == "fat-tree"
            return report

    assert f"GOAT {found['goat', 70]:.2f}" in ROWS["G6b"].measured(Reports())
    (figure,) = fat_tree.FIGURES
    figure.draw(report, tmp_path / figure.file)
    assert (tmp_path / figure.file).stat().st_size > 0
