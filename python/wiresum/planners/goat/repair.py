"""Making an answer to Eq. (1) feasible, and better while memory is left: what every method here ends with."""

from __future__ import annotations

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.goat.problem import Problem
from wiresum.topology.graph import Bools, Floats, Ints


def repaired(problem: Problem, opened: Bools) -> Bools:
    """What is left of `opened` when memories hold and nothing is open in vain, and what more is worth its memory.

    A switch over its memory gives up what is worth least by byte, until the rest fits. Then the opening that saves most
    by byte is added as long as it fits and saves anything. Takes O((openings + sub-models) · groups · switches).
    """
    kept = opened.copy()
    kept[PS] = True
    for aggregator in np.flatnonzero(problem.excess(kept)):
        _evict(problem, kept, int(aggregator))
    _close_useless(problem, kept)
    return _filled(problem, kept)


def _evict(problem: Problem, opened: Bools, aggregator: int) -> None:
    """Closes the least valuable sub-models of a node, in place."""
    held = np.flatnonzero(opened[aggregator])
    worth = np.array([_worth(problem, opened[:, one], aggregator) for one in held])
    for one in held[np.argsort(worth, kind="stable")]:
        if opened[aggregator] @ problem.sizes <= problem.memory[aggregator]:
            return
        opened[aggregator, one] = False


def _close_useless(problem: Problem, opened: Bools) -> None:
    """Closes what saves nothing, in place: one by one, as each makes others more valuable."""
    for aggregator, sub_model in np.argwhere(opened[1:]):
        if _worth(problem, opened[:, sub_model], aggregator + 1) <= 0:
            opened[aggregator + 1, sub_model] = False


def _worth(problem: Problem, column: Bools, aggregator: int) -> int:
    """Links saved, by unit of the sub-model's size, because this node is open beside the column's others."""
    others = column.copy()
    others[aggregator] = False
    without = problem.useful[:, others].min(axis=1)
    nearer = np.maximum(0, without - problem.useful[:, aggregator])
    return int(problem.workers @ nearer - problem.climb[aggregator])


def _filled(problem: Problem, opened: Bools) -> Bools:
    """With the best openings added, while there are any that fit."""
    free = problem.memory - opened @ problem.sizes
    reach = problem.reach(opened)
    savings = np.stack([_savings(problem, column) for column in reach.T], axis=1)
    savings[opened] = 0
    while True:
        fits = problem.sizes[None, :] <= free[:, None]
        best = int(np.where(fits, savings, 0).argmax())
        aggregator, sub_model = divmod(best, len(problem.sizes))
        if savings[aggregator, sub_model] <= 0 or not fits[aggregator, sub_model]:
            return opened
        opened[aggregator, sub_model] = True
        free[aggregator] -= problem.sizes[sub_model]
        reach[:, sub_model] = np.minimum(reach[:, sub_model], problem.useful[:, aggregator])
        savings[:, sub_model] = _savings(problem, reach[:, sub_model])
        savings[opened[:, sub_model], sub_model] = 0


def _savings(problem: Problem, reach: Ints) -> Floats:
    """(aggregators,) links that opening each would save, by unit of size."""
    nearer = np.maximum(0, reach[:, None] - problem.useful)
    return np.asarray(problem.workers @ nearer - problem.climb, dtype=np.float64)
