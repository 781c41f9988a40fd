"""GOAT-Async beside its rivals: what is planned, and a tiny training of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.capabilities import best_engine

from wiresum.bench.participation import measure as participation
from wiresum.bench.participation.measure import METHODS, Options, accuracy_at, notes, planned, to_result
from wiresum.bench.participation.plot import draw
from wiresum.bench.participation.task import TrainingOutcome
from wiresum.errors import PlanError

TINY = Options(workers=3, rounds=12, delay_s=0.05, search_every=2, engine=best_engine())


def test_a_method_that_is_not_there() -> None:
    with pytest.raises(PlanError, match=f"choose from {', '.join(METHODS)}"):
        participation.measure(Options(methods=("magic",)))


@pytest.mark.parametrize("name", METHODS)
def test_rounds_of_everyone_have_no_counts(name: str) -> None:
    assert (planned(name, Options()).job.rounds is None) == (name == "sync")


def test_accuracy_is_the_last_that_is_known() -> None:
    curve = [(1.0, 0.5), (2.0, 0.75)]
    assert [accuracy_at([curve], moment) for moment in (0.5, 1.0, 1.9, 5.0)] == [0.0, 0.5, 0.5, 0.75]


def test_several_seeds_have_medians_and_every_curve() -> None:
    def outcome(seconds: float, accuracy: float) -> TrainingOutcome:
        return TrainingOutcome(
            seconds, 1000.0, [(seconds, accuracy)], 0.25, [(0, 8), (5, 4)], 4.0, is_same_everywhere=True
        )

    own = [outcome(10.0, 0.8), outcome(20.0, 0.9), outcome(50.0, 0.7)]
    result = to_result("ksgd", own)
    assert result.runs == [100.0, 50.0, 20.0]
    assert (result.extra["seconds"], result.extra["last_accuracy"], result.extra["mean_k"]) == (20.0, 0.8, 6.0)
    assert accuracy_at(result.extra["curves"], 25.0) == 0.8
    assert "20.0 (10.0 to 50.0) s, 4.00 (4.00 to 4.00) ranks" in notes({"ksgd": own})[1]


def test_a_tiny_training_of_each_keeps_models_equal_and_learns(tmp_path: Path) -> None:
    report = participation.measure(TINY)
    assert [result.name for result in report.results] == list(METHODS)
    assert not [line for line in report.notes if "DIFFER" in line]
    by_name = {result.name: result.extra for result in report.results}
    assert by_name["sync"]["ranks_per_sum"] == TINY.workers
    for name in ("ksgd", "goat_async"):
        assert 1 <= by_name[name]["ranks_per_sum"] <= TINY.workers
        assert by_name[name]["counts"][0] == [0, TINY.workers], "before anyone's times are known"
    assert all(extra["gradient_variance"] > 0 for extra in by_name.values())
    draw(report, tmp_path / "async.png")
    assert (tmp_path / "async.png").stat().st_size > 0
