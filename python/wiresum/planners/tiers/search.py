"""The two thresholds with which the fullest capacity is the least full.

Every capacity falls, rises, or falls and then rises over either threshold, as a row costs the less in a higher tier the
more popular it is. The fullest of them is searched on a grid of both thresholds that becomes finer around the best
answers, then along either threshold alone, place by place. Where the grid holds all places, the answer is optimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wiresum.planners.tiers.rounds import Rounds
from wiresum.topology.graph import Ints

GRID = 160
"""Places of a threshold on the first grid, of which half are even in their logarithm: 160² pairs take milliseconds."""
KEPT = 4
"""Best answers of a grid around which the next is laid."""
HARDLY = 1e-3
"""The share of a round that may be lost to have fewer hot rows: the last million that are summed often save less."""
MAX_PASSES = 50
"""Searches along one threshold after the other; each makes a round shorter, so there are few."""


@dataclass(frozen=True, order=True)
class Thresholds:
    """An answer: places among the seen rows.

    Attributes:
        seconds: of a round.
        replicated: rows up to here are replicated.
        summed: rows up to here, and beyond the former, are summed on their way.
    """

    seconds: float
    replicated: int
    summed: int


def best(rounds: Rounds, most_replicated: int, most_hot: int, *, sums: bool = True) -> Thresholds:
    """The best thresholds.

    Args:
        rounds: what a round takes.
        most_replicated: largest first threshold.
        most_hot: largest second threshold, for the memory of nodes that sum.
        sums: whether there is a middle tier; otherwise both thresholds are the same.
    """
    most_replicated = min(most_replicated, most_hot)
    starts = [_line(rounds, every := np.arange(most_replicated + 1), every)]
    if not sums:
        return starts[0]
    firsts, seconds = _places(0, most_replicated), _places(0, most_hot)
    found = _best_of_grid(rounds, firsts, seconds)
    while True:
        found = sorted(found)[:KEPT]
        if _is_dense(firsts) and _is_dense(seconds):
            break
        finer = [_around(firsts, one.replicated) for one in found], [_around(seconds, one.summed) for one in found]
        firsts, seconds = (np.unique(np.concatenate(parts)) for parts in finer)
        before = found[0]
        found += _best_of_grid(rounds, firsts, seconds)
        if min(found) == before and len(firsts) <= GRID:
            break
    starts += [
        *found,
        _line(rounds, np.zeros(most_hot + 1, dtype=np.int64), np.arange(most_hot + 1)),
        _line(rounds, np.arange(most_replicated + 1), np.full(most_replicated + 1, most_hot)),
    ]
    return min(_descend(rounds, start, most_replicated, most_hot) for start in sorted(starts)[:KEPT])


def fewest(rounds: Rounds, found: Thresholds) -> Thresholds:
    """The fewest hot rows, then replicas, with which a round takes hardly longer: memory has other uses."""
    longest = found.seconds * (1 + HARDLY)
    seconds = np.arange(found.replicated, found.summed + 1)
    summed = int(seconds[rounds.along(np.full(len(seconds), found.replicated), seconds) <= longest][0])
    firsts = np.arange(found.replicated + 1)
    replicated = int(firsts[rounds.along(firsts, np.full(len(firsts), summed)) <= longest][0])
    return Thresholds(rounds.seconds(replicated, summed), replicated, summed)


def _descend(rounds: Rounds, start: Thresholds, most_replicated: int, most_hot: int) -> Thresholds:
    """Along one threshold after the other, while that helps."""
    at = start
    for _ in range(MAX_PASSES):
        before = at
        firsts = np.arange(min(most_replicated, at.summed) + 1)
        at = min(at, _line(rounds, firsts, np.full(len(firsts), at.summed)))
        seconds = np.arange(at.replicated, most_hot + 1)
        at = min(at, _line(rounds, np.full(len(seconds), at.replicated), seconds))
        if at == before:
            break
    return at


def _line(rounds: Rounds, replicated: Ints, summed: Ints) -> Thresholds:
    seconds = rounds.along(replicated, summed)
    at = int(seconds.argmin())
    return Thresholds(float(seconds[at]), int(replicated[at]), int(summed[at]))


def _best_of_grid(rounds: Rounds, replicated: Ints, summed: Ints) -> list[Thresholds]:
    seconds = rounds.grid(replicated, summed)
    order = np.argsort(seconds, axis=None)[:KEPT]
    pairs: Iterator[tuple[int, int]] = zip(
        *(axis.tolist() for axis in np.unravel_index(order, seconds.shape)), strict=True
    )
    return [Thresholds(float(seconds[i, j]), int(replicated[i]), int(summed[j])) for i, j in pairs]


def _places(least: int, most: int) -> Ints:
    """All places, or as many as a grid has."""
    if most - least < GRID:
        return np.arange(least, most + 1)
    even, logarithmic = np.linspace(least, most, GRID // 2), least + np.geomspace(1, most - least, GRID // 2)
    return np.unique(np.concatenate([[least, most], even, logarithmic]).astype(np.int64))


def _around(places: Ints, chosen: int) -> Ints:
    """The places between those beside a chosen one."""
    at = int(np.searchsorted(places, chosen))
    low, high = places[max(0, at - 1)], places[min(len(places) - 1, at + 1)]
    return np.unique(np.linspace(low, high, GRID // KEPT).astype(np.int64))


def _is_dense(places: Ints) -> bool:
    return len(places) == int(places[-1] - places[0]) + 1
