"""How long a round takes by its two thresholds: the fullest of all capacities, each linear in what is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiresum.planners.tiers.instance import SparseInstance
from wiresum.predict.sparse import Load, Quantity
from wiresum.sparse.counts import Counts
from wiresum.topology.graph import Floats, Ints

BITS = 8
ALIKE_DIGITS = 12
"""Capacities that agree so far are one: in most networks all workers' links do."""


@dataclass(frozen=True, eq=False)
class Method:
    """A way of handling rows: which load each tier puts on the network, and where the dense gradient goes.

    Attributes:
        replicated: of the rows up to the first threshold.
        summed: of those between the two.
        direct: of all others.
        dense: times that each capacity carries the dense gradient.
    """

    replicated: Load
    summed: Load
    direct: Load
    dense: Floats


class Rounds:
    """Seconds of a round. Thresholds are places among the rows that were seen, the most popular first.

    Args:
        instance: the network and what is counted.
        method: what is done with rows.
    """

    def __init__(self, instance: SparseInstance, method: Method) -> None:
        self.counts: Counts = instance.counts
        self.places = len(self.counts.seen)
        self._capacities_bps = instance.network.capacities_bps
        quantities = sorted({*method.replicated, *method.summed, *method.direct})
        self._bytes: NDArray[np.float64] = np.stack([one.up_to(self.counts) for one in quantities])
        parts = [
            _matrix(load, quantities, self._capacities_bps)
            for load in (method.replicated, method.summed, method.direct)
        ]
        first, second, third = parts
        everything = self._bytes[:, -1]
        # Σ A·F(a) + B·(F(b) − F(a)) + C·(F(end) − F(b)), by threshold.
        self._first, self._second = first - second, second - third
        self._always: Floats = third @ everything + BITS * instance.dense_bytes * method.dense / self._capacities_bps
        rows = np.column_stack([self._first, self._second, self._always])
        largest = np.abs(rows).max(axis=0)
        alike = (rows / np.where(largest > 0, largest, 1)).round(ALIKE_DIGITS)
        self._fullest = np.unique(alike, axis=0, return_index=True)[1]

    def seconds(self, replicated: int, summed: int) -> float:
        """Seconds with these thresholds: rows up to the first are replicated, up to the second summed."""
        return float(self.capacities(replicated, summed).max())

    def capacities(self, replicated: int, summed: int) -> Floats:
        """(capacities,) seconds that each takes."""
        by_first = self._first @ self._bytes[:, replicated]
        return np.asarray(by_first + self._second @ self._bytes[:, summed] + self._always)

    def along(self, replicated: Ints, summed: Ints) -> Floats:
        """(pairs,) seconds with these thresholds, pair by pair."""
        by_first, by_second = self._by_threshold(replicated, summed)
        return np.asarray((by_first + by_second).max(axis=0))

    def grid(self, replicated: Ints, summed: Ints) -> Floats:
        """(replicated, summed) seconds with each pair of thresholds; infinite where the first is beyond the second."""
        worst = np.zeros((len(replicated), len(summed)))
        for by_first, by_second in zip(*self._by_threshold(replicated, summed), strict=True):
            np.maximum(worst, by_first[:, None] + by_second[None, :], out=worst)
        worst[replicated[:, None] > summed[None, :]] = np.inf
        return worst

    def _by_threshold(self, replicated: Ints, summed: Ints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(capacities, thresholds) what each threshold adds, of capacities that may be the fullest."""
        by_first = self._first[self._fullest] @ self._bytes[:, replicated]
        by_second = self._second[self._fullest] @ self._bytes[:, summed]
        return by_first, by_second + self._always[self._fullest, None]


def _matrix(load: Load, quantities: list[Quantity], capacities_bps: Floats) -> NDArray[np.float64]:
    """(capacities, quantities) seconds that a byte of each quantity takes."""
    zero = np.zeros(len(capacities_bps))
    times = np.column_stack([load.get(one, zero) for one in quantities])
    return np.asarray(BITS * times / capacities_bps[:, None])
