"""Which row has which rank: scattered over the table, and drifting from round to round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wiresum.errors import TraceError
from wiresum.sparse.randomness import Floats, Ints, RandomStream, uniforms

GOLDEN = (math.sqrt(5) - 1) / 2
"""Neighbouring ranks come to lie as far from each other as can be."""


@dataclass(frozen=True, eq=False)
class Swaps:
    """A permutation that moves few numbers.

    Attributes:
        source: those that it moves, ascending.
        target: where to.
    """

    source: Ints
    target: Ints

    @classmethod
    def of(cls, moved: dict[int, int]) -> Swaps:
        """From what it moves, and where to."""
        pairs = np.array(sorted(moved.items()), dtype=np.int64).reshape(-1, 2)
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy())

    @property
    def inverse(self) -> Swaps:
        """The way back."""
        order = np.argsort(self.target)
        return Swaps(self.target[order], self.source[order])

    def __call__(self, numbers: Ints) -> Ints:
        """Each number's place."""
        if not len(self.source):
            return numbers
        at = np.minimum(np.searchsorted(self.source, numbers), len(self.source) - 1)
        return np.where(self.source[at] == numbers, self.target[at], numbers)


class Changes(NamedTuple):
    """How much of a popularity changes.

    Attributes:
        replaced: share of the top ranks that is replaced in a round.
        top: number of ranks that change.
        day: rounds of a day; 0: there are no evenings.
        swing: share of the top ranks that is another in the evening.
    """

    replaced: float = 0.0
    top: int = 20_000
    day: int = 0
    swing: float = 0.0


class Drift:
    """Popularity that changes: fresh rows among the top ranks in every round, and others in the evening.

    A rank that is replaced, drawn evenly in its logarithm, changes places with one far below. In the evening a share of
    the top ranks has changed places with rows that are nowhere in the morning.

    Args:
        rows: of the table.
        changes: how many.
        seed: which ranks.

    Raises:
        TraceError: more than half of the rows are to change.
    """

    def __init__(self, rows: int, changes: Changes, seed: int) -> None:
        top = changes.top
        if top < 1 or 2 * top > rows:
            raise TraceError(f"top: {top} of {rows} ranks cannot change; give 1 to {rows // 2}")
        self._rows, self._top, self._changes, self._seed = rows, top, changes, seed
        self._swapped: dict[int, int] = {}
        self._done = 0
        self._at: tuple[int, Swaps, Swaps] | None = None
        order = np.argsort(uniforms(seed, RandomStream.EVENING, 0, top))
        self._evening_ranks = order.astype(np.int64)
        self._evening_partners = top + np.arange(top) * ((rows - top) // top)

    def items(self, ranks: Ints, round: int) -> Ints:
        """What has these ranks in a round."""
        fresh, evening = self._of(round)
        return fresh(evening(ranks))

    def ranks(self, items: Ints, round: int) -> Ints:
        """The ranks that these have in a round."""
        fresh, evening = self._of(round)
        return evening(fresh.inverse(items))

    def _of(self, round: int) -> tuple[Swaps, Swaps]:
        if self._at is None or self._at[0] != round:
            self._at = (round, self._fresh(round), self._evening(round))
        return self._at[1:]

    def _fresh(self, round: int) -> Swaps:
        wanted = math.floor(self._changes.replaced * self._top * round)
        if wanted < self._done:
            self._swapped, self._done = {}, 0
        drawn = uniforms(self._seed, RandomStream.DRIFT, 2 * self._done, 2 * (wanted - self._done)).reshape(-1, 2)
        ranks = np.exp(drawn[:, 0] * math.log(self._top + 1)).astype(np.int64) - 1
        partners = self._top + (drawn[:, 1] * (self._rows - self._top)).astype(np.int64)
        swapped = self._swapped
        for rank, partner in zip(ranks.tolist(), partners.tolist(), strict=True):
            swapped[rank], swapped[partner] = swapped.get(partner, partner), swapped.get(rank, rank)
        self._done = wanted
        return Swaps.of(swapped)

    def _evening(self, round: int) -> Swaps:
        if not self._changes.day:
            return Swaps.of({})
        height = (1 - math.cos(2 * math.pi * round / self._changes.day)) / 2
        count = math.floor(self._changes.swing * self._top * height + 0.5)
        ranks, partners = self._evening_ranks[:count], self._evening_partners[:count]
        source, target = np.concatenate([ranks, partners]), np.concatenate([partners, ranks])
        order = np.argsort(source)
        return Swaps(source[order], target[order])


class Places:
    """The rows of a table by rank: row = (a · rank + b) mod rows, so that no table has its popular rows at one end.

    Args:
        rows: of the table.
        seed: chooses b.
        drift: what changes from round to round.
    """

    def __init__(self, rows: int, seed: int, drift: Drift | None = None) -> None:
        self._rows, self._drift = rows, drift
        self._factor = _coprime(round(GOLDEN * rows), rows)
        self._inverse = pow(self._factor, -1, rows) if rows > 1 else 0
        self._offset = int(_first(uniforms(seed, RandomStream.ORDER, 0, 1)) * rows)

    def rows(self, ranks: Ints, round: int) -> Ints:
        """The rows that have these ranks in a round."""
        items = self._drift.items(ranks, round) if self._drift else ranks
        return (items * self._factor + self._offset) % self._rows

    def ranks(self, rows: Ints, round: int) -> Ints:
        """The ranks of these rows in a round."""
        items = (rows - self._offset) % self._rows * self._inverse % self._rows
        return self._drift.ranks(items, round) if self._drift else items


def _coprime(near: int, rows: int) -> int:
    while math.gcd(near, rows) != 1:
        near += 1
    return near


def _first(values: Floats) -> float:
    return float(values[0])
