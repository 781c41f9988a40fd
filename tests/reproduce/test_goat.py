"""The table of GOAT: complete, and right where a figure has one value."""

from __future__ import annotations

import pytest

from wiresum.reproduce import CLASSES, PAPERS
from wiresum.reproduce.goat import placement

pytest.importorskip("highspy", reason="the solver is not installed: `make build`")

GOAT = PAPERS["goat"]
ROWS = {row.id: row for row in GOAT.rows}


def test_every_row_says_something_and_has_its_classes():
    for row in GOAT.rows:
        assert set(row.classes) <= set(CLASSES)
        assert row.computed or row.recomputed
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
        ("G5a", ["GOAT 2.02 ×, K-SGD 1.56 ×", "1.30 × is GOAT over K-SGD"]),
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
