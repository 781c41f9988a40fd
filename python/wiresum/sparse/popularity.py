"""How often each rank is touched: power laws in one piece or several, exact in the head and analytic in the tail."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from wiresum.sparse.randomness import Floats, Ints

HEAD = 200_000
"""Ranks whose chances are kept one by one, 3 MB. At the first rank beyond, the integral over its unit interval differs
from its chance by s(s + 1)/24 · HEAD⁻², less than 10⁻¹¹ of it."""
FIT_STEPS = 60
"""Bisections of an exponent: beyond the precision of a float."""
LARGEST_EXPONENT = 4.0


class Piece(NamedTuple):
    """A power law over neighbouring ranks.

    Attributes:
        last: its last rank, counted from 1.
        exponent: s of rank⁻ˢ.
        share: of all touches.
    """

    last: int
    exponent: float
    share: float


class Popularity:
    """The chance of each rank. Ranks count from 0, and chances never grow from one to the next.

    Args:
        pieces: in order of rank; all but the last end in the head.

    Example:
        >>> Popularity.zipf(rows=2, exponent=1.0).chance(np.array([0, 1])).round(3).tolist()
        [0.667, 0.333]
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.rows = pieces[-1].last
        parts: list[Floats] = []
        self._scale = self._exponent = 0.0
        for before, piece in pairwise([Piece(0, 0.0, 0.0), *pieces]):
            weights = np.arange(before.last + 1, min(piece.last, HEAD) + 1, dtype=np.float64) ** -piece.exponent
            tail = float(_area(HEAD + 0.5, piece.last + 0.5, piece.exponent)) if piece.last > HEAD else 0.0
            self._exponent, self._scale = piece.exponent, piece.share / (float(weights.sum()) + tail)
            parts.append(weights * self._scale)
        self._chances = np.concatenate(parts)
        self._cumulative = np.cumsum(self._chances)

    @classmethod
    def zipf(cls, rows: int, exponent: float) -> Popularity:
        """One power law over all rows."""
        return cls([Piece(rows, exponent, 1.0)])

    def chance(self, ranks: Ints) -> Floats:
        """Share of all touches that each of these ranks gets."""
        head = self._chances[np.minimum(ranks, len(self._chances) - 1)]
        if self.rows <= HEAD:
            return np.asarray(head)
        tail = self._scale * (ranks + 1.0) ** -self._exponent
        return np.where(ranks < HEAD, head, tail)

    def share(self, ranks: Ints) -> Floats:
        """Share of all touches that go to the first so many ranks."""
        ranks = np.minimum(ranks, self.rows)
        head = np.append(0.0, self._cumulative)[np.minimum(ranks, len(self._chances))]
        if self.rows <= HEAD:
            return np.asarray(head)
        beyond = np.maximum(ranks, HEAD)
        return np.asarray(head + self._scale * _area(HEAD + 0.5, beyond + 0.5, self._exponent))

    def draw(self, uniform: Floats) -> Ints:
        """Ranks from numbers between 0 and 1."""
        ranks = np.searchsorted(self._cumulative, uniform, side="right")
        if self.rows <= HEAD:
            return np.minimum(ranks, self.rows - 1)
        beyond = ranks == HEAD
        area = (uniform[beyond] - self._cumulative[-1]) / self._scale
        ends = _end(HEAD + 0.5, area, self._exponent)
        ranks[beyond] = np.clip(np.rint(ends).astype(np.int64) - 1, HEAD, self.rows - 1)
        return ranks

    def above(self, chances: Floats, *, or_equal: bool) -> Ints:
        """Number of ranks with a larger chance than each of these, or with one as large, too."""
        found = np.searchsorted(-self._chances, -chances, side="right" if or_equal else "left")
        if self.rows <= HEAD:
            return found
        with np.errstate(divide="ignore"):
            ranks = (self._scale / chances) ** (1 / self._exponent) if self._exponent else np.full(len(chances), np.inf)
        tail = np.clip(ranks, HEAD, self.rows).astype(np.int64)
        return np.where(found < HEAD, found, tail)


def fitted(rows: int, top: int, share: float) -> float:
    """The exponent with which the first `top` of so many ranks get this share of all touches.

    Example:
        >>> round(fitted(rows=150_000_000, top=30_000, share=0.5), 3)
        0.975
    """
    low, high = 0.0, LARGEST_EXPONENT
    for _ in range(FIT_STEPS):
        middle = (low + high) / 2
        if float(Popularity.zipf(rows, middle).share(np.array([top]))[0]) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _area(begin: float, end: float | Floats, exponent: float) -> Floats:
    """The integral of x⁻ˢ; also where s is close to 1."""
    power = 1 - exponent
    span = np.log(np.asarray(end) / begin)
    return np.asarray(begin**power * (np.expm1(power * span) / power if power else span))


def _end(begin: float, area: Floats, exponent: float) -> Floats:
    """Where the integral from `begin` on reaches this area."""
    power = 1 - exponent
    relative = area / begin**power
    return np.asarray(begin * np.exp(np.log1p(power * relative) / power if power else relative))
