"""What a drawn trace makes workers and servers carry, counted: how many distinct rows, alone and together.

Zebra's model of a server's relief, 1 / ((1 − h) + h/N), holds only if every worker touches every hot row in every
round. What a server has to take is N · U · (1 − h) + G_hot: U distinct rows a worker, G_hot distinct hot rows of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from wiresum.sparse.randomness import Floats, Ints
from wiresum.sparse.trace import Trace, told


class Ranking(Protocol):
    """What knows how popular rows are: a trace itself, or counts of an earlier part of it."""

    def ranks(self, keys: Ints, round: int = 0) -> Ints:
        """Ranks of keys in a round; no two have the same."""


@dataclass(frozen=True, eq=False)
class HotSet:
    """What sums of the most popular rows would save a server, where it hands out rows as before.

    Attributes:
        rows: of the set.
        share: h, of what workers push.
        distinct: G_hot, touched by any worker in a round.
        server_rows: that a server takes in a round.
        gain: of what it would take without sums, over that.
        formula: the same by Zebra's model.
    """

    rows: int
    share: float
    distinct: float
    server_rows: float
    gain: float
    formula: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dict(vars(self))


def formula(share: float, workers: int) -> float:
    """Zebra's model: 1 / ((1 − h) + h/N).

    Example:
        >>> round(formula(0.75, 32), 2)
        3.66
    """
    return 1 / (1 - share + share / workers)


class Counts:
    """Distinct rows by rank, over the rounds of a trace.

    Args:
        workers: N.
        rounds: that were counted.
        rows: of all tables.
        ranks: of the rows that each worker touched, ascending, by round and worker.
        row_bytes: of the values of each distinct rank among them, in order of rank: as they are, and as float32.

    Attributes:
        seen: (seen,) ranks that anybody touched, ascending.
    """

    def __init__(
        self, workers: int, rounds: int, rows: int, ranks: Sequence[Sequence[Ints]], row_bytes: tuple[Ints, Ints]
    ) -> None:
        self.workers, self.rounds, self.rows = workers, rounds, rows
        self.seen: Ints = np.unique(np.concatenate([one for of_round in ranks for one in of_round]))
        self._touched = [[np.searchsorted(self.seen, one) for one in of_round] for of_round in ranks]
        self._row_bytes, self._wide_row_bytes = row_bytes
        self._distinct: dict[int, Floats] = {}

    @classmethod
    def of(
        cls,
        trace: Trace,
        workers: int,
        rounds: int,
        *,
        first_round: int = 0,
        ranking: Ranking | None = None,
        progress: Callable[[str], None] = lambda line: None,
    ) -> Counts:
        """Counts some rounds of a trace.

        Args:
            trace: what is drawn.
            workers: N.
            rounds: number of rounds.
            first_round: of them.
            ranking: which rows are hot; by default the trace's own, which knows the truth.
            progress: told which round is drawn.
        """
        ranking = ranking or trace
        ranks: list[list[Ints]] = []
        known: Ints = np.zeros(0, dtype=np.int64)
        row_bytes, wide = known, known
        for round in told(first_round, rounds, progress):
            pushed = [trace.pushed(round, worker, workers) for worker in range(workers)]
            union = np.unique(np.concatenate(pushed))
            by_key = ranking.ranks(union, round)
            ranks.append([np.sort(by_key[np.searchsorted(union, one)]) for one in pushed])
            known, places = np.unique(np.concatenate([known, by_key]), return_index=True)
            row_bytes = np.concatenate([row_bytes, trace.row_bytes(union)])[places]
            wide = np.concatenate([wide, trace.wide_row_bytes(union)])[places]
        return cls(workers, rounds, trace.rows, ranks, (row_bytes, wide))

    def distinct(self, together: int) -> Floats:
        """(seen,) how often, in a round, a row is touched by at least one of `together` workers.

        It is the mean over rounds and over as many groups of neighbouring workers as there are.
        """
        if together not in self._distinct:
            groups = self.workers // together
            touched = np.zeros(len(self.seen))
            for of_round in self._touched:
                for group in range(groups):
                    members = of_round[group * together : (group + 1) * together]
                    touched[members[0] if together == 1 else np.unique(np.concatenate(members))] += 1
            self._distinct[together] = touched / (groups * self.rounds)
        return self._distinct[together]

    def rows_up_to(self, together: int) -> Floats:
        """(seen + 1,) distinct rows of `together` workers among the first seen ranks: none, one, … all."""
        return np.append(0.0, np.cumsum(self.distinct(together)))

    def bytes_up_to(self, together: int, bytes_of: Callable[[Ints, Ints], Floats]) -> Floats:
        """(seen + 1,) the same in bytes.

        Args:
            together: workers.
            bytes_of: what rows take, by the bytes of their values, and of these as float32.
        """
        taken = bytes_of(self._row_bytes, self._wide_row_bytes)
        return np.append(0.0, np.cumsum(self.distinct(together) * taken))

    @cached_property
    def scales(self) -> list[float]:
        """(workers,) rows that each worker pushes in a round, over the mean of all."""
        pushed = np.array([[len(one) for one in of_round] for of_round in self._touched], dtype=np.float64).sum(axis=0)
        return [float(one) for one in pushed / pushed.mean()]

    def place(self, rank: int) -> int:
        """How many of the seen ranks come before this one."""
        return int(np.searchsorted(self.seen, rank))

    def ranks_up_to(self, place: int) -> int:
        """The fewest ranks that hold the first so many seen ones."""
        return int(self.seen[place - 1]) + 1 if place else 0

    @cached_property
    def pushed(self) -> float:
        """U: distinct rows of one worker in a round."""
        return float(self.rows_up_to(1)[-1])

    @cached_property
    def union(self) -> float:
        """G: distinct rows of all workers in a round."""
        return float(self.rows_up_to(self.workers)[-1])

    @property
    def row_bytes(self) -> float:
        """Bytes of the values of a mean pushed row."""
        return float((self.distinct(1) * self._row_bytes).sum() / self.pushed)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"workers": self.workers, "rounds": self.rounds, "pushed": self.pushed, "union": self.union}

    def hot(self, rows: int) -> HotSet:
        """What sums of the most popular rows save a server."""
        place = self.place(rows)
        share = float(self.rows_up_to(1)[place]) / self.pushed
        distinct = float(self.rows_up_to(self.workers)[place])
        taken = self.workers * self.pushed * (1 - share) + distinct
        gain = self.workers * self.pushed / taken
        return HotSet(rows, share, distinct, taken, gain, formula(share, self.workers))
