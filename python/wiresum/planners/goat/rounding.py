"""Steps 2 and 3 of Alg. 1: from fractions of sub-models at switches to switches, and from these to each worker's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.goat.problem import Problem
from wiresum.topology.graph import Bools, Floats, Ints

GUARD = 1e-9
"""A sum of fractions that is this close below a whole number is that number; a fraction below is none."""

Knapsacks = list[list[int]]
"""Indices of the fractions in each."""
Packing = Callable[[Sequence[float], int], Knapsacks]


@dataclass(frozen=True, eq=False)
class Rounded:
    """What one run of the rounding gave.

    Attributes:
        opened: (aggregators, sub-models) x̂.
        target: (workers, sub-models) ŷ, as the aggregator that each worker sends to.
        negative: pairs of group and sub-model whose probabilities added up to more than 1, which leaves the parameter
            server a negative one.
    """

    opened: Bools
    target: Ints
    negative: int


@dataclass(frozen=True)
class Method:
    """What the corrected algorithm does otherwise than the printed one.

    Attributes:
        guard: added to Σ x̃ before it is rounded down.
        pack: step 2's min-max knapsacks.
        nearest: whether ỹ is that of Eq. (1), for which nearer switches come first; else Eq. (4)'s, where ỹ = x̃.
    """

    guard: float
    pack: Packing
    nearest: bool


def list_scheduling(fractions: Sequence[float], count: int) -> Knapsacks:
    """Each fraction, in the given order, into the emptiest knapsack.

    A knapsack may stay below ½, against Lemma 3:
        >>> sorted(len(one) for one in list_scheduling([1 / 3, 1 / 3, 1 / 3, 1, 1], 3))
        [1, 2, 2]
    """
    if count == 0:
        return []
    knapsacks: Knapsacks = [[] for _ in range(count)]
    sums = [0.0] * count
    for index, fraction in enumerate(fractions):
        emptiest = sums.index(min(sums))
        knapsacks[emptiest].append(index)
        sums[emptiest] += fraction
    return knapsacks


def leximin(fractions: Sequence[float], count: int) -> Knapsacks:
    """Longest first, then moves and swaps between two knapsacks until none makes the larger of them smaller.

    Example:
        >>> sorted(leximin([1 / 3, 1 / 3, 1 / 3, 1, 1], 3))
        [[0, 1, 2], [3], [4]]
    """
    order = sorted(range(len(fractions)), key=lambda index: -fractions[index])
    packed = list_scheduling([fractions[index] for index in order], count)
    knapsacks = [sorted(order[index] for index in one) for one in packed]
    while _improve(knapsacks, fractions):
        pass
    return knapsacks


def _improve(knapsacks: Knapsacks, fractions: Sequence[float]) -> bool:
    """One move or swap, in place; each shrinks the sum of squares, so there is an end."""
    sums = [sum(fractions[index] for index in one) for one in knapsacks]
    for heavy, light in ((a, b) for a in range(len(sums)) for b in range(len(sums)) if sums[a] > sums[b] + GUARD):
        for index in knapsacks[heavy]:
            for other in [None, *knapsacks[light]]:
                moved = fractions[index] - (0.0 if other is None else fractions[other])
                if GUARD < moved < sums[heavy] - sums[light] - GUARD:
                    knapsacks[heavy].remove(index)
                    knapsacks[light].append(index)
                    if other is not None:
                        knapsacks[light].remove(other)
                        knapsacks[heavy].append(other)
                    return True
    return False


PRINTED = Method(guard=0.0, pack=list_scheduling, nearest=False)
CORRECTED = Method(guard=GUARD, pack=leximin, nearest=True)


def rounded(problem: Problem, x: Floats, group_of: Ints, method: Method, random: np.random.Generator) -> Rounded:
    """One run.

    Args:
        problem: Eq. (1).
        x: (aggregators, sub-models) x̃, with the parameter server's row.
        group_of: (workers,) each worker's group.
        method: as printed, or corrected.
        random: of the run.
    """
    opened, target, negative = problem.nothing.copy(), [], 0
    for sub_model in range(x.shape[1]):
        fractions = np.where(x[:, sub_model] > GUARD, x[:, sub_model], 0.0)
        fractions[PS] = 0.0
        chosen = _choose(fractions, method, random)
        opened[chosen, sub_model] = True
        chances = _chances(problem, fractions, chosen, method)
        negative += int((chances.sum(axis=1) > 1 + GUARD).sum())
        target.append(_draw(chances, chosen, group_of, random))
    return Rounded(opened, np.stack(target, axis=1), negative)


def _choose(fractions: Floats, method: Method, random: np.random.Generator) -> Ints:
    """Step 2: k(g) switches, one from each knapsack."""
    candidates = np.flatnonzero(fractions)
    count = math.floor(fractions.sum() + method.guard)
    values = fractions[candidates]
    chosen = [
        random.choice(knapsack, p=values[knapsack] / values[knapsack].sum())
        for knapsack in method.pack(values.tolist(), count)
        if knapsack
    ]
    return candidates[np.sort(np.array(chosen, dtype=np.int64))]


def _chances(problem: Problem, fractions: Floats, chosen: Ints, method: Method) -> Floats:
    """(groups, chosen) ỹ / x̃: the probability of each chosen switch, before what is above 1 is seen to."""
    if not method.nearest:
        return np.ones((len(problem.workers), len(chosen)))
    return _nearest_first(problem, fractions)[:, chosen] / fractions[chosen]


def _nearest_first(problem: Problem, fractions: Floats) -> Floats:
    """(groups, aggregators) ỹ that is best for x̃: nearer nodes first, as much of each as is there, 1 in all."""
    fractions = fractions.copy()
    fractions[PS] = 1.0
    # The parameter server is the last among equals: what is summed on the way never costs more.
    order = np.argsort(2 * problem.hops + (np.arange(len(fractions)) == PS), axis=1, kind="stable")
    before = np.cumsum(fractions[order], axis=1) - fractions[order]
    shares = np.clip(1 - before, 0.0, fractions[order])
    result = np.zeros(order.shape)
    np.put_along_axis(result, order, shares, axis=1)
    return result


def _draw(chances: Floats, chosen: Ints, group_of: Ints, random: np.random.Generator) -> Ints:
    """Step 3: each worker's aggregator; the parameter server has what is left of 1, nothing if there is more."""
    total = chances.sum(axis=1, keepdims=True)
    scaled = chances / np.maximum(1.0, total)
    thresholds = np.cumsum(scaled, axis=1)[group_of]
    place = (random.random((len(group_of), 1)) >= thresholds).sum(axis=1)
    return np.asarray(np.append(chosen, PS)[place], dtype=np.int64)
