"""What a trace is: an endless sequence of samples, each with the rows that it looks up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from wiresum.errors import TraceError
from wiresum.plan.tables import Tables
from wiresum.sparse.randomness import Floats, Ints

LOOKUPS_AT_ONCE = 1 << 22
"""Lookups that are drawn together: some 100 MB with what drawing needs."""


class Trace(ABC):
    """Samples by number. Which worker takes them, and in which round, changes nothing about them.

    A *key* is a row's number among the rows of all tables, one table after the other. Rank 0 is the most popular row.

    Args:
        tables: whose rows are looked up.
        batch: samples of a worker in a round.

    Attributes:
        tables: as given.
        batch: as given.
        first_keys: (tables + 1,) the key of each table's first row, and the number of all rows.
    """

    def __init__(self, tables: Tables, batch: int) -> None:
        self.tables = tables
        self.batch = batch
        self.first_keys: Ints = np.cumsum([0, *(table.rows for table in tables.tables)])

    def adopt(self, tables: Tables) -> None:
        """Takes tables of a model in place of the trace's own, such as other dimensions, types or optimizers.

        Raises:
            TraceError: a table has another number of rows or features; the message names it.
        """
        if len(tables.tables) != len(self.tables.tables):
            raise TraceError(
                f"tables: there are {len(tables.tables)}, and the trace has {len(self.tables.tables)}; "
                "give the trace and the tables of one model"
            )
        for own, other in zip(self.tables.tables, tables.tables, strict=True):
            if (own.rows, len(own.features)) != (other.rows, len(other.features)):
                raise TraceError(
                    f"tables: {other.name} has {other.rows} rows and {len(other.features)} features, and the trace's "
                    f"{own.name} has {own.rows} and {len(own.features)}; make a trace with as many"
                )
        self.tables = tables

    @property
    def lookups(self) -> int:
        """Rows that a sample looks up."""
        return self.tables.features

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return int(self.first_keys[-1])

    @abstractmethod
    def samples(self, first: int, count: int, round: int = 0) -> Ints:
        """(count, lookups) keys of the samples from number `first` on, where popularity is that of a round."""

    @abstractmethod
    def ranks(self, keys: Ints, round: int = 0) -> Ints:
        """Ranks of keys by how popular they are in a round; no two have the same."""

    @abstractmethod
    def top(self, count: int, round: int = 0) -> Ints:
        """The keys of the first so many ranks, the most popular first."""

    def batch_of(self, round: int, worker: int, workers: int) -> Ints:
        """(batch, lookups) keys that a worker looks up in a round; workers take the samples in turn."""
        return self.samples((round * workers + worker) * self.batch, self.batch, round)

    def pushed(self, round: int, worker: int, workers: int) -> Ints:
        """The distinct keys among them, ascending: what the worker pushes at the round's end."""
        first, at_once = (round * workers + worker) * self.batch, max(1, LOOKUPS_AT_ONCE // self.lookups)
        parts = [
            np.unique(self.samples(first + done, min(at_once, self.batch - done), round))
            for done in range(0, self.batch, at_once)
        ]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def row_bytes(self, keys: Ints) -> Ints:
        """Bytes of each row's values."""
        sizes = np.array([table.row_bytes for table in self.tables.tables])
        return np.asarray(sizes[self.table_of(keys)])

    def wide_row_bytes(self, keys: Ints) -> Ints:
        """Bytes of each row's values as float32, whatever the table's type."""
        sizes = np.array([table.wide_row_bytes for table in self.tables.tables])
        return np.asarray(sizes[self.table_of(keys)])

    def rows_by_table(self, keys: Ints) -> list[list[int]]:
        """The rows of each table that ascending keys are of, as their numbers there."""
        ends = np.searchsorted(keys, self.first_keys)
        parts = zip(ends[:-1], ends[1:], self.first_keys[:-1], strict=True)
        return [(keys[begin:end] - first).tolist() for begin, end, first in parts]

    def table_of(self, keys: Ints) -> Ints:
        """The table of each key, by index."""
        return np.searchsorted(self.first_keys, keys, side="right") - 1


class Labelled(Trace):
    """A trace whose samples can be learned from."""

    @abstractmethod
    def numbers(self, first: int, count: int) -> Floats:
        """(count, features) numerical features of the samples."""

    @abstractmethod
    def labels(self, first: int, count: int, round: int = 0) -> Floats:
        """(count,) 1 for a click, 0 for none."""


def told(first: int, rounds: int, progress: Callable[[str], None]) -> Iterator[int]:
    """So many rounds from the first on; `progress` is told of each before it is drawn."""
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        yield first + number
