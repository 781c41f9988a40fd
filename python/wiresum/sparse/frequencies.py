"""How often each row was updated, as a server's log has it: once for each worker and round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from wiresum.sparse.randomness import Floats, Ints, RandomStream, uniforms
from wiresum.sparse.trace import Trace, told

MERGED_AT = 1 << 22
"""Keys that wait until they are added to what was counted before: 64 MB with their counts."""
STEP, THRESHOLD = 1_000, 0.01
"""Rows that Zebra adds to its hot list at a time, and the share of updates that they must bring (§V-C)."""


class Frequencies:
    """Updates of rows, the most often updated first; of rows with as many, the one with the lowest key.

    Attributes:
        keys: (seen,) the rows that were updated.
        updates: (seen,) how often.
    """

    def __init__(self, keys: Ints, updates: Ints) -> None:
        order = np.lexsort((keys, -updates))
        self.keys: Ints = keys[order]
        self.updates: Ints = updates[order]

    @classmethod
    def of(
        cls,
        trace: Trace,
        workers: int,
        rounds: int,
        *,
        first_round: int = 0,
        merged: bool = True,
        sampling: float = 1.0,
        seed: int = 0,
        progress: Callable[[str], None] = lambda line: None,
    ) -> Frequencies:
        """Counts a run.

        Args:
            trace: what is drawn.
            workers: number of workers.
            rounds: number of rounds.
            first_round: of them.
            merged: whether a worker pushes a row once in a round; otherwise every lookup counts.
            sampling: share of the samples that the run has, drawn one by one and put into batches as large as before.
            seed: which samples.
            progress: told which round is drawn.
        """
        tally = _Tally()
        remark = "" if sampling == 1 else ", sampled"
        every = told(first_round, rounds, lambda line: progress(line + remark))
        for batch in _batches(trace, workers, every, sampling=sampling, seed=seed):
            tally.add(np.unique(batch) if merged else batch.ravel())
        return cls(*tally.total())

    @cached_property
    def shares(self) -> Floats:
        """(seen + 1,) share of all updates that go to the first so many rows: to none, one, … all."""
        return np.append(0.0, np.cumsum(self.updates) / max(1, self.updates.sum()))

    def share(self, top: int) -> float:
        """Share of all updates that go to the first so many rows."""
        return float(self.shares[min(top, len(self.keys))])

    def knee(self, step: int = STEP, threshold: float = THRESHOLD) -> int:
        """Rows of Zebra's hot list: `step` more at a time until they bring less than a share of all updates."""
        return knee(len(self.keys), self.shares.__getitem__, step, threshold)

    def ranks(self, keys: Ints, round: int = 0) -> Ints:
        """Ranks by updates; rows that nobody updated follow, by key. A round changes nothing about them."""
        by_key = np.argsort(self.keys)
        known = self.keys[by_key]
        place = np.searchsorted(known, keys)
        at = np.minimum(place, len(known) - 1)
        return np.where(known[at] == keys, by_key[at], len(known) + keys - place)


def knee(rows: int, shares: Callable[[Ints], Floats], step: int = STEP, threshold: float = THRESHOLD) -> int:
    """Rows of a hot list that grows by `step` rows until these bring less than a share of all updates.

    Args:
        rows: number of rows that the list can have.
        shares: share of all updates that go to the first so many rows.
        step: rows that are added at a time.
        threshold: the share that they must bring.
    """
    ends = np.minimum(np.arange(0, rows + step, step), rows)
    short = np.flatnonzero(np.diff(shares(ends)) < threshold)
    return int(ends[short[0]] if len(short) else ends[-1])


class _Tally:
    """Counts of keys in little memory: arrays are merged when many wait."""

    def __init__(self) -> None:
        self._waiting: list[Ints] = []
        self._size = 0
        self._keys: Ints = np.zeros(0, dtype=np.int64)
        self._counts: Ints = np.zeros(0, dtype=np.int64)

    def add(self, keys: Ints) -> None:
        self._waiting.append(keys)
        self._size += len(keys)
        if self._size >= MERGED_AT:
            self.total()

    def total(self) -> tuple[Ints, Ints]:
        keys = np.concatenate([self._keys, *self._waiting])
        weights = np.concatenate([self._counts, np.ones(self._size, dtype=np.int64)])
        self._keys, inverse = np.unique(keys, return_inverse=True)
        self._counts = np.bincount(inverse, weights=weights, minlength=len(self._keys)).astype(np.int64)
        self._waiting, self._size = [], 0
        return self._keys, self._counts


def _batches(trace: Trace, workers: int, rounds: Iterable[int], *, sampling: float, seed: int) -> Iterator[Ints]:
    """(samples, lookups) keys of one batch after the other; what is left of sampled ones is put together again."""
    kept = np.zeros((0, trace.lookups), dtype=np.int64)
    for round in rounds:
        for worker in range(workers):
            drawn = trace.batch_of(round, worker, workers)
            if sampling < 1:
                first = (round * workers + worker) * trace.batch
                drawn = drawn[uniforms(seed, RandomStream.SAMPLING, first, trace.batch) < sampling]
            kept = np.concatenate([kept, drawn])
            if len(kept) >= trace.batch:
                yield kept[: trace.batch]
                kept = kept[trace.batch :]
    if len(kept):
        yield kept
