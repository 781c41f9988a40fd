"""InGo's trainings: the rule applied to planned rates, seconds from steps, and pictures."""

import pytest

from wiresum.bench.result import Report
from wiresum.errors import SimulationError
from wiresum.planners.ingo.batch_size import best_batch_size
from wiresum.reproduce.ingo import benchmarks
from wiresum.reproduce.ingo.ingo_training import measure as ingo_training
from wiresum.reproduce.ingo.ingo_training.measure import (
    FAT_TREE,
    SCHEMES,
    TARGET,
    TESTBED,
    Step,
    of,
    printed_timing,
    to_result,
)
from wiresum.reproduce.ingo.training import _trained
from wiresum.training.learning import Learned


def made(network, scheme, reached):
    """A training that is at the target after so many rounds."""
    accuracies = [0.1] * (reached - 1) + [TARGET] * 3
    return to_result(network, scheme, Step(1e9, 16, 0.5), [Learned([1.0] * len(accuracies), accuracies)])


@pytest.fixture
def report():
    results = [
        made(network, scheme, 10 + 10 * index)
        for network in (TESTBED, FAT_TREE)
        for index, scheme in enumerate(SCHEMES)
    ]
    return Report("ingo-training", {}, results)


def test_the_papers_times_are_on_the_line_of_their_waiting():
    timing = printed_timing()
    step = [timing.seconds(64) + ingo_training.MODEL_BITS / rate for rate in ingo_training.PRINTED_BPS]
    assert step == sorted(step)
    for one, seconds in zip(step, ingo_training.PRINTED_S, strict=True):
        assert seconds / one == pytest.approx(ingo_training.PRINTED_S[0] / step[0], rel=0.15)


def test_higher_rates_ask_for_smaller_batches():
    sizes = [best_batch_size([printed_timing()], ingo_training.MODEL_BITS / rate) for rate in (5e9, 1e9, 0.3e9)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 64 < sizes[-1]


def test_seconds_are_steps_times_their_length(report):
    found = of(report, TESTBED)
    assert found["InGo"].runs == [5.0]
    assert found["R-InGo's roundings"].runs == [10.0]


def test_a_training_that_does_not_get_there_says_so():
    with pytest.raises(SimulationError, match="after 2 rounds; train longer"):
        to_result(TESTBED, "InGo", Step(1e9, 16, 0.5), [Learned([1.0, 1.0], [0.1, 0.2])])


def test_a_tiny_one_plans_and_trains(monkeypatch):
    monkeypatch.setattr(ingo_training, "TARGET", 0.15)
    found = ingo_training.measure(ingo_training.Options(workers=4, networks=1, seeds=1, rounds=25))
    testbed = of(found, TESTBED)
    assert testbed["InGo"].extra["rate_gbps"] == pytest.approx(5.0), "proven for the mesh"
    assert testbed["InGo"].extra["batch_size"] < 64 == testbed["InGo-64"].extra["batch_size"]
    assert set(of(found, FAT_TREE)) == set(SCHEMES)


def test_the_figures_are_drawn_and_rows_have_what_reports_have(report, tmp_path):
    class Reports:
        def report(self, name):
            assert name == "training"
            return report

    assert "InGo 5 s (batches of 16), R-InGo's roundings 10 s (batches of 16; InGo −50.0 %)" in _trained(TESTBED)(
        Reports()
    )
    for figure in benchmarks.TRAININGS:
        figure.draw(report, tmp_path / figure.file)
        assert (tmp_path / figure.file).stat().st_size > 0
