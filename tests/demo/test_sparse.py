"""`wiresum demo --sparse`: its table and picture, from trainings that were not run."""

from __future__ import annotations

import json

import pytest

from wiresum.bench.sparse_training.command import Options
from wiresum.bench.sparse_training.measure import Training
from wiresum.demo import sparse


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> sparse.SparseDemoOutcome:
    asked: list[Options] = []

    def train(model: str, options: Options, progress: object) -> tuple[list[Training], list[str]]:
        asked.append(options)
        losses = [0.7 / (step + 1) for step in range(10)]
        methods = {"wiresum": 0.1, "push_pull": 0.25, "gloo": 0.2}
        return [Training(model, name, losses, [taken] * 10, 1024) for name, taken in methods.items()], []

    monkeypatch.setattr(sparse, "train", train)
    made = sparse.compare(4, 50e6, "udp", loopback=True, progress=lambda what: None)
    assert asked[0].workers == 4
    return made


def test_tiers_are_those_of_the_planner_and_shares_end_with_all(outcome: sparse.SparseDemoOutcome) -> None:
    assert 0 < outcome.tiers["A"] < len(outcome.pushed)
    assert outcome.pushed[-1] == pytest.approx(1)
    assert list(outcome.pushed) == sorted(outcome.pushed)
    assert outcome.pushed[0] > 1 / len(outcome.pushed)


def test_the_table_has_speeds_and_their_ratios(outcome: sparse.SparseDemoOutcome) -> None:
    table = outcome.table()
    assert [column.header for column in table.columns] == ["", "Wiresum", "servers without sums", "Gloo's DDP"]
    assert list(table.columns[2].cells)[:3] == ["4,096", "250 ms", "2.50 ×"]


def test_it_is_drawn_and_is_json(outcome: sparse.SparseDemoOutcome, tmp_path) -> None:
    outcome.draw(tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 0
    assert json.loads(json.dumps(outcome.to_json()))["tiers"] == outcome.tiers
