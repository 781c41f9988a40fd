"""Who has which circuit between two units, and which circuits go."""

import random
from itertools import pairwise

import pytest

from wiresum.turns.dealing import Deal, Need, deal

FULL = 10.0


def need(first, last, bps):
    return Need(first, last, dict.fromkeys(range(first, last + 1), bps))


def loads(made, needs, counts):
    """What each circuit has to carry in each interval."""
    return [
        {circuit: sum(one.bps.get(index, 0.0) for one, of in zip(needs, made.chosen, strict=True) if of == circuit)
         for circuit in made.lit[index]}
        for index in range(len(counts))
    ]  # fmt: skip


def test_the_older_circuit_goes_where_its_job_has_ended_and_that_of_the_younger_one_has_not():
    needs = [need(0, 1, FULL), need(1, 2, FULL)]
    made = deal([1, 2, 1], needs, FULL)
    assert made == Deal(lit=[[0], [0, 1], [1]], chosen=[0, 1])
    assert (made.stays(2, 0), made.stays(2, 1)) == (False, True)


def test_jobs_that_outlive_a_circuit_share_the_one_that_stays():
    """Put where least is to be carried, the second job would have the circuit that has to go."""
    needs = [need(0, 3, 5.0), need(1, 3, 5.0), need(1, 2, FULL)]
    made = deal([1, 2, 2, 1], needs, FULL)
    assert made.chosen == [0, 0, 1]
    assert made.lit[3] == [0]


@pytest.mark.parametrize(
    ("counts", "needs"),
    [
        ([2], [need(0, 0, 6.0)] * 3),
        ([1, 2], [need(0, 1, 4.0), Need(0, 1, {0: 6.0, 1: 9.0}), need(1, 1, 7.0)]),
        ([2, 1], [need(0, 1, 6.0), need(0, 1, 6.0)]),
    ],
    ids=["three of two thirds on two", "one that grows beside one that it cannot leave", "two on the one that stays"],
)
def test_where_no_circuits_are_enough_nothing_is_dealt(counts, needs):
    assert deal(counts, needs, FULL) is None


@pytest.mark.parametrize("seed", range(30))
def test_jobs_that_were_dealt_once_are_dealt_again_with_as_many_set_ups(seed):
    """Jobs are drawn circuit by circuit, so there is a deal; that which is found need not be the same."""
    drawn = random.Random(seed)
    lives = [sorted(drawn.sample(range(12), 2)) for _ in range(4)]
    counts = [sum(first <= index < end for first, end in lives) for index in range(12)]
    needs = [need(*_within(drawn, first, end), FULL / 2) for first, end in lives for _ in range(2)]
    drawn.shuffle(needs)
    made = deal(counts, needs, FULL)
    assert made is not None
    assert [len(lit) for lit in made.lit] == counts
    used = [(index, circuit) for one, circuit in zip(needs, made.chosen, strict=True) for index in one.bps]
    assert all(circuit in made.lit[index] for index, circuit in used), "a job has a circuit that is not lit"
    assert all(load <= FULL for of in loads(made, needs, counts) for load in of.values())
    added = sum(len(set(now) - set(before)) for before, now in pairwise([[], *made.lit]))
    assert added == sum(max(0, now - before) for before, now in pairwise([0, *counts]))


def _within(drawn, first, end):
    return sorted(drawn.choices(range(first, end), k=2))
