"""Traces of what somebody recorded: a list of samples, again and again."""

from __future__ import annotations

import numpy as np

from wiresum.plan.tables import Tables
from wiresum.sparse.randomness import Ints
from wiresum.sparse.trace import Trace


class Observed(Trace):
    """Recorded samples; after the last comes the first again.

    Args:
        tables: whose rows are looked up.
        batch: samples of a worker in a round.
        keys: (samples, lookups) of each sample.
    """

    def __init__(self, tables: Tables, batch: int, keys: Ints) -> None:
        super().__init__(tables, batch)
        self._keys = keys
        self._by_rank: Ints | None = None
        self._rank: Ints | None = None

    def samples(self, first: int, count: int, round: int = 0) -> Ints:
        """(count, lookups) keys; a round changes nothing about them."""
        return np.asarray(self._keys[np.arange(first, first + count) % len(self._keys)], dtype=np.int64)

    def ranks(self, keys: Ints, round: int = 0) -> Ints:
        """Ranks by touches in all samples; of rows with as many, the lowest key goes first."""
        if self._rank is None:
            order = self.top(self.rows)
            self._rank = np.empty(self.rows, dtype=np.int64)
            self._rank[order] = np.arange(self.rows)
        return np.asarray(self._rank[keys])

    def top(self, count: int, round: int = 0) -> Ints:
        """The keys with the most touches."""
        if self._by_rank is None:
            touches = np.bincount(self._keys.ravel(), minlength=self.rows)
            self._by_rank = np.argsort(-touches, kind="stable")
        return np.asarray(self._by_rank[:count])
