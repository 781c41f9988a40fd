"""GOAT's Alg. 2 by hand and against arrivals one by one, and counts against their definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment import Instance
from wiresum.plan.convergence import Convergence
from wiresum.plan.evaluation import Evaluation, WorkerEvaluation
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign, plan
from wiresum.planners.participation import (
    choose_goat_async,
    choose_ksgd,
    contributions,
    proportional_counts,
    round_seconds,
    with_rounds,
)
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

TRAINING = Convergence(loss_gap=2.0, variance=1.0, target=0.5)
WHOLE_SECONDS = st.lists(st.integers(1, 20), min_size=1, max_size=8)
"""Whole numbers, so that ties are ties."""


def arrivals(intervals: list[int], k: int, rounds: int) -> list[int]:
    """How long each round takes, second by second: it ends when K gradients lie there, and their workers begin anew."""
    begun = [0] * len(intervals)
    ends, now = [0], 0
    while len(ends) <= rounds:
        now += 1
        there = [now - begin >= interval for begin, interval in zip(begun, intervals, strict=True)]
        if sum(there) >= k:
            begun = [now if arrived else begin for begin, arrived in zip(begun, there, strict=True)]
            ends.append(now)
    return np.diff(ends).tolist()


@given(WHOLE_SECONDS, st.data())
def test_rounds_are_those_of_arrivals_one_by_one(intervals, data):
    k = data.draw(st.integers(1, len(intervals)))
    rounds = data.draw(st.integers(1, 12))
    expected = np.mean(arrivals(intervals, k, rounds))
    assert round_seconds(intervals, k, rounds) == pytest.approx(expected)


def test_a_late_gradient_counts_in_a_later_round():
    # p = 1, 2, 4 and K = 2. Rounds end at 2 (both of the fast), 4 (2 s later), where the slow one is there too.
    assert [round_seconds([1, 2, 4], 2, rounds) for rounds in (1, 2, 3)] == [2, 2, 2]
    # K = 3 takes everyone each time; K = 1 the fastest alone, but that of 4 s is there in round 4.
    assert round_seconds([1, 2, 4], 3) == 4
    assert round_seconds([1, 2, 4], 1) == 1
    # K = 2 of 3, 4, 5 s: round 1 ends at 4, when 1 s of the last one is left; round 2 with the first, at 7.
    assert round_seconds([3, 4, 5], 2, rounds=1) == 4
    assert round_seconds([3, 4, 5], 2, rounds=2) == (4 + 3) / 2


def test_as_printed_the_slow_would_never_come():
    """With p in place of p′ in line 4, every round would take as long as the first."""
    assert round_seconds([1.0, 10.0, 11.0], 2, rounds=2) == (10 + 1) / 2


def test_rounds_follow_equation_36():
    assert TRAINING.rounds(4, workers=4) == pytest.approx(4 * 16 * 4 / (4 * (0.5 * 4 - 1) ** 2))
    assert math.isinf(TRAINING.rounds(2, workers=4)), "K = σ²/ε is not enough"
    assert math.isinf(TRAINING.rounds(1, workers=4)), "the square would hide the sign"


@given(st.integers(3, 64), st.data())
def test_after_these_rounds_the_bound_is_the_target(workers, data):
    k = data.draw(st.integers(3, workers))
    rounds = TRAINING.rounds(k, workers)
    assert TRAINING.bound(k, workers, rounds) == pytest.approx(TRAINING.target)


@given(WHOLE_SECONDS.filter(lambda p: len(p) > 2))
def test_the_choice_is_the_best_of_all(intervals):
    for choice in (choose_goat_async(intervals, TRAINING), choose_ksgd(intervals, TRAINING)):
        best = min(total for total in choice.total_seconds if not math.isnan(total))
        assert choice.total_seconds[choice.k - 1] == best
        assert all(total > best for total in choice.total_seconds[choice.k :]), "of several, the largest"
        assert TRAINING.admits(choice.k)


def test_one_straggler_is_not_waited_for_and_equals_are():
    assert choose_goat_async([1.0] * 7 + [10.0], TRAINING).k == 7
    assert choose_goat_async([1.0] * 8, TRAINING).k == 8
    assert choose_ksgd([1.0] * 7 + [10.0], TRAINING).k == 7


def test_goat_async_is_never_slower_than_ksgd_with_the_same_count():
    random = np.random.default_rng(5)
    intervals = np.clip(random.normal(0.5, 0.2, 16), 0, 1) + 0.1
    ksgd = choose_ksgd(intervals, TRAINING)
    for k, seconds in enumerate(ksgd.round_seconds, start=1):
        assert round_seconds(intervals, k) <= seconds + 1e-12


def test_a_target_that_nobody_reaches_is_refused():
    with pytest.raises(PlanError, match=r"2 gradients a round .* more than 2 \(σ²/ε\)"):
        choose_goat_async([1.0, 1.0], TRAINING)
    with pytest.raises(ValueError, match="1 to 2 workers, not 3"):
        round_seconds([1.0, 1.0], 3)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.data())
def test_proportional_counts_add_up(workers, data):
    k = data.draw(st.integers(len(workers), sum(workers)))
    counts = proportional_counts(workers, k)
    assert all(1 <= count <= most for count, most in zip(counts, workers, strict=True))
    assert sum(counts) >= k
    assert all(count - k * most / sum(workers) < 1 for count, most in zip(counts, workers, strict=True))


def test_counts_of_a_tree_take_nodes_and_the_fastest_workers():
    made = with_rounds(plan(xagg(), Job()), 4, intervals=[1, 1, 9, 9, 9, 1, 1])
    assert made.job.rounds is not None
    names = {made.node(count.node).name: count.k for count in made.job.rounds.counts}
    assert names == {"PS": 3, "S1": 2, "S2": 1}, "PS: two nodes and W7"
    assert AggregationPlan.parse(made.to_json()) == made


def test_more_participants_than_workers_are_refused():
    with pytest.raises(PlanError, match="1 to 4 workers of this plan, not 5"):
        with_rounds(plan(star(4), Job()), 5)
    with pytest.raises(PlanError, match="codec `block`"):
        with_rounds(plan(star(4), Job(codec="fixed:1e8")), 3)


def test_contributions_are_counted_by_switch_and_sub_model():
    assignment = assign(goat(), Job(sub_models=equal_parts("model", 8_000_000, 3)), planner="goat")
    takes_part = np.arange(len(assignment.instance.workers)) % 2 == 0
    expected = np.zeros((len(assignment.instance.aggregators), 3), dtype=int)
    for worker, row in enumerate(assignment.target):
        for sub_model, aggregator in enumerate(row):
            expected[aggregator, sub_model] += takes_part[worker]
    assert (contributions(assignment, takes_part) == expected).all()
    assert (expected.sum(axis=0) == takes_part.sum()).all()


def evaluated(seconds: list[float]) -> PlanOptions:
    names = [worker.name for worker in goat().workers]
    rounds = [
        WorkerEvaluation(name=name, compute_seconds=one, communication_seconds=0.0)
        for name, one in zip(names, seconds, strict=True)
    ]
    return PlanOptions(evaluation=Evaluation.build(workers=rounds), convergence=TRAINING)


@pytest.mark.parametrize("planner", ["goat-async", "ksgd"])
def test_the_planners_place_as_goat_and_count(planner):
    job = Job(secret="0" * 64, sub_models=equal_parts("model", 8_000_000, 3))
    workers = len(Instance.of(goat(), job).workers)
    made = plan(goat(), job, evaluated([1.0] * (workers - 1) + [10.0]), planner=planner)
    assert made.streams == plan(goat(), job, planner="goat").streams
    assert f"{workers - 1} of {workers} workers a round" in made.planner
    assert made.job.rounds is not None
    counts = made.job.rounds.counts
    assert sum(len(made.streams[0].children(count.node)) - count.k for count in counts) == 1, "all but the slow one"


def test_the_planners_need_times_and_constants():
    with pytest.raises(PlanError, match="--evaluation"):
        plan(goat(), Job(), planner="goat-async")
