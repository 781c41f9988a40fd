"""Late workers in virtual time: who is in a round, how long it is, and that each method learns."""

import statistics

import pytest

from wiresum.reproduce.goat.asynchronous import _durations, _learned, _speeds
from wiresum.reproduce.goat.late_training import measure as late_training
from wiresum.reproduce.goat.late_training import plot as late_training_plot
from wiresum.reproduce.goat.late_training.measure import SEARCHES, Options, of
from wiresum.reproduce.goat.late_training.training import train

WORKERS = 6
SHORT = Options(workers=(3, WORKERS), learning_rate=0.2, rounds=60, seeds=2)


@pytest.fixture(scope="module")
def report():
    return late_training.measure(SHORT)


def test_rounds_of_everyone_wait_for_the_slowest():
    outcome = train("sync", WORKERS, 1, SHORT)
    assert outcome.ranks == [WORKERS] * SHORT.rounds
    rounds = [later - earlier for earlier, later in zip([0.0, *outcome.ends_s], outcome.ends_s, strict=False)]
    assert min(rounds) >= SHORT.computing_s - 1e-9
    assert max(rounds) <= SHORT.computing_s + SHORT.delay_s + 1e-9


def test_nobody_late_makes_all_methods_the_same():
    punctual = Options(rounds=10, deviation=0.0)
    outcomes = [train(method, WORKERS, 1, punctual) for method in SEARCHES]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0].ranks == [WORKERS] * 10


def test_rounds_of_some_are_shorter_and_all_methods_learn(report):
    found = of(report, WORKERS)
    for method in ("ksgd", "goat_async"):
        assert found[method].extra["seconds"] < found["sync"].extra["seconds"]
        assert 1 <= found[method].extra["mean_ranks"] <= WORKERS
    for result in found.values():
        first, last = result.extra["curves"][0][0][1], result.extra["last_accuracy"]
        assert last > 0.5 > first


def test_the_paper_sets_the_computing_time():
    rounds = train("sync", 16, 1, Options(rounds=60)).ends_s
    mean_s = rounds[-1] / len(rounds)
    assert mean_s == pytest.approx(late_training.PRINTED_ROUND_S, abs=0.1)


def test_rows_and_figures(report, tmp_path):
    found = of(report, WORKERS)
    assert f"GOAT {found['sync'].median:.0f}, K-SGD " in _speeds(found)
    assert f"GOAT {found['sync'].extra['seconds']:.0f} s ({WORKERS}.0 gradients a round)" in _durations(found)
    assert f"{statistics.median(one[-1][1] for one in found['sync'].extra['curves']):.3f}" in _learned(found)
    for draw in (late_training_plot.draw_speed, late_training_plot.draw_accuracy):
        draw(report, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 0
