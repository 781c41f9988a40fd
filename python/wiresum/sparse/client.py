"""A worker of a sparse job: it pulls rows of tables, pushes their gradients, and ends rounds.

Example:
    >>> from wiresum.sparse.client import SparseClient
    >>> with SparseClient.connect("sparse-job.json", rank=0) as client:  # doctest: +SKIP
    ...     weights = client.pull("users", [3, 17])
    ...     client.push("users", [3, 17], gradients)
    ...     client.finish_round()

Between calls a program computes. `ask` and `end_round` do not wait, so that a program which knows the rows of its next
batch has them while it computes:

    >>> with SparseClient.connect("sparse-job.json", rank=0) as client:  # doctest: +SKIP
    ...     client.push("users", [3, 17], gradients)
    ...     round = client.end_round()
    ...     rows = client.ask("users", [17, 40])
    ...     weights = rows.wait()
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiresum.errors import SparseError
from wiresum.sparse.job import job_text


class Submitted(Protocol):
    """Rows that an engine was asked for, or a round that it was told to end."""

    @property
    def done(self) -> bool:
        """Whether `wait` returns at once."""

    def wait(self, weights: NDArray[np.float32] | None) -> None:
        """Waits until it is done, and fills `weights`, an array [n, dim], with rows that were asked for."""


class RowEngine(Protocol):
    """What carries a client's rows: `wiresum._native.SparseEngine`, or a double of it in tests."""

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        """Number and values of a row, by name of the table."""

    @property
    def stored(self) -> dict[str, int]:
        """Numbers that are stored of a row, weights and the optimizer's state, by name of the table."""

    @property
    def version(self) -> int:
        """Rounds that are over."""

    def pull(self, table: int, keys: NDArray[np.uint64], weights: NDArray[np.float32]) -> None:
        """Fills `weights`, an array [n, dim], with the rows of `keys`."""

    def push(self, table: int, keys: NDArray[np.uint64], grads: NDArray[np.float32]) -> None:
        """Adds gradients, an array [n, dim], to those of the round."""

    def pull_stored(self, table: int, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> None:
        """Fills `values`, an array [n, stored], with the rows of `keys` and the optimizer's state."""

    def put(self, table: int, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> None:
        """Has rows be `values`, an array [n, stored], after the round."""

    def finish_round(self) -> int:
        """Ends the round, and waits for its end everywhere; its number."""

    def ask(self, table: int, keys: NDArray[np.uint64]) -> Submitted:
        """Asks for the rows of `keys` as they will be after the last round that was ended."""

    def end_round(self) -> Submitted:
        """Ends the round, and does not wait for its end everywhere."""

    def statistics(self) -> dict[str, Any]:
        """Counts since joining."""

    def close(self) -> None:
        """Leaves."""


class PendingRows:
    """Rows that were asked for."""

    def __init__(self, submitted: Submitted, weights: NDArray[np.float32]) -> None:
        self._submitted, self._weights = submitted, weights

    @property
    def done(self) -> bool:
        """Whether they are here, or the job has failed: `wait` returns at once."""
        return self._submitted.done

    def wait(self) -> NDArray[np.float32]:
        """The weights, an array [n, dim] in the order of the keys.

        Raises:
            SparseError: a server does not answer in time, or has refused something.
        """
        self._submitted.wait(self._weights)
        return self._weights


class PendingRound:
    """A round that was ended here."""

    def __init__(self, submitted: Submitted) -> None:
        self._submitted = submitted

    @property
    def done(self) -> bool:
        """Whether it is over for all ranks, or the job has failed: `wait` returns at once."""
        return self._submitted.done

    def wait(self) -> None:
        """Waits until it is over for all ranks.

        Raises:
            SparseError: as `SparseClient.finish_round`.
        """
        self._submitted.wait(None)


class SparseClient:
    """One rank's way to the servers of tables and to the switches that sum hot rows.

    A round is what all ranks push until each has called `finish_round`. Then every row with a gradient takes one step
    of its table's optimizer, and `pull` returns the rows as they are after that step. All ranks have to finish every
    round, even with nothing to push.

    A client belongs to one thread at a time. Its packets travel on a thread of its own, without Python's lock.
    """

    def __init__(self, engine: RowEngine) -> None:
        self._engine = engine
        self._tables: dict[str, tuple[int, int]] = engine.tables

    @classmethod
    def connect(
        cls,
        job: str | Path,
        rank: int,
        *,
        incarnation: int = 0,
        address: str | None = None,
        timeout_s: float = 30.0,
    ) -> Self:
        """Joins a job.

        Args:
            job: path of the job file (`wiresum-sparse-job/1`), its text, or path of a plan with tables.
            rank: 0 to the number of workers less one; each once.
            incarnation: a number that all ranks agree on, and larger than that of any earlier start of this job;
                servers begin anew for a larger one.
            address: `HOST:PORT` to receive at; by default the system chooses.
            timeout_s: the longest time that joining, a pull, or the end of a round may take.

        Raises:
            SparseError: the job's file, the rank or the address cannot be; or a server is silent or refuses this rank.
        """
        from wiresum._native import SparseEngine

        return cls(SparseEngine(job_text(job), rank, incarnation, address, timeout_s))

    @property
    def tables(self) -> dict[str, int]:
        """Values of a row, by name of the table."""
        return {name: dim for name, (_, dim) in self._tables.items()}

    @property
    def stored(self) -> dict[str, int]:
        """Numbers that servers store of a row by name of the table: its weights, then the optimizer's state."""
        return self._engine.stored

    @property
    def finished_rounds(self) -> int:
        """Rounds that are over; `pull` returns rows as they are after these."""
        return self._engine.version

    def pull(self, table: str, keys: ArrayLike) -> NDArray[np.float32]:
        """The weights of rows as they are after the last round.

        Args:
            table: its name in the job file.
            keys: of the rows, n integers from 0; a key may be there several times.

        Returns:
            An array [n, dim] in the order of `keys`.

        Raises:
            SparseError: no such table or row, or a server that does not answer in time.
        """
        number, dim = self._table(table)
        array = _keys(keys)
        weights = np.empty((array.size, dim), np.float32)
        self._engine.pull(number, array, weights)
        return weights

    def pull_all(self, wanted: Sequence[tuple[str, ArrayLike]]) -> list[NDArray[np.float32]]:
        """As `pull`, of several tables, which share their round trips: an array for each pair of a name and keys."""
        asked = [self.ask(table, keys) for table, keys in wanted]
        return [rows.wait() for rows in asked]

    def push(self, table: str, keys: ArrayLike, grads: ArrayLike) -> None:
        """Adds gradients of rows to what this rank gives to the round.

        Args:
            table: its name in the job file.
            keys: of the rows, n integers from 0. Gradients of a row that is there, or is pushed, several times are
                added in float32, in the order in which they come.
            grads: an array [n, dim], finite and within ±4096.

        Raises:
            SparseError: no such table or row, another shape, or a gradient that cannot be summed. Then nothing is
                pushed.
        """
        number, dim = self._table(table)
        array = _keys(keys)
        values = np.ascontiguousarray(grads, np.float32)
        self._check_shape(table, array, values, dim)
        self._engine.push(number, array, values)

    def pull_stored(self, table: str, keys: ArrayLike) -> NDArray[np.float32]:
        """All that servers store of rows after the last round: for a checkpoint.

        Args:
            table: its name in the job file.
            keys: of the rows, n integers from 0.

        Returns:
            An array [n, stored] in the order of `keys`.

        Raises:
            SparseError: no such table or row, or a server that does not answer in time.
        """
        number, _ = self._table(table)
        array = _keys(keys)
        values = np.empty((array.size, self.stored[table]), np.float32)
        self._engine.pull_stored(number, array, values)
        return values

    def put(self, table: str, keys: ArrayLike, values: ArrayLike) -> None:
        """Has rows be this after the round, whatever their gradients in it. One rank puts a row in a round.

        Args:
            table: its name in the job file.
            keys: of the rows, n distinct integers from 0.
            values: an array [n, stored], as `pull_stored` returns it.

        Raises:
            SparseError: no such table or row, or another shape.
        """
        number, _ = self._table(table)
        array, rows = _keys(keys), np.ascontiguousarray(values, np.float32)
        self._check_shape(table, array, rows, self.stored[table])
        self._engine.put(number, array, rows)

    def finish_round(self) -> int:
        """Sends what was pushed, and waits until the round is over for all ranks.

        Returns:
            The number of the round, from 1.

        Raises:
            SparseError: a server or switch refused something, or the round was not over in time; the message names who
                is silent. The job has to begin anew, from the servers' snapshots or as a new incarnation.
        """
        return self._engine.finish_round()

    def ask(self, table: str, keys: ArrayLike) -> PendingRows:
        """Asks for the weights of rows as they will be after the last round that was ended, and does not wait for them.

        Args:
            table: its name in the job file.
            keys: of the rows, n integers from 0; a key may be there several times.

        Raises:
            SparseError: no such table or row.
        """
        number, dim = self._table(table)
        array = _keys(keys)
        return PendingRows(self._engine.ask(number, array), np.empty((array.size, dim), np.float32))

    def end_round(self) -> PendingRound:
        """Ends the round with what was pushed, and does not wait until it is over for all ranks.

        Several rounds may be ended ahead; beyond four that have not begun, this waits for the first of them.

        Raises:
            SparseError: as `finish_round`.
        """
        return PendingRound(self._engine.end_round())

    def statistics(self) -> dict[str, Any]:
        """Counts since joining: packets and bytes sent, packets sent again, rows by tier."""
        return self._engine.statistics()

    def close(self) -> None:
        """Leaves; a round that was not finished is lost. May be called twice."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def _check_shape(table: str, keys: NDArray[np.uint64], values: NDArray[np.float32], numbers: int) -> None:
        if values.shape != (keys.size, numbers):
            raise SparseError(
                f"table {table}: {keys.size} rows of {numbers} values are due, and these have the shape"
                f" {list(values.shape)}"
            )

    def _table(self, name: str) -> tuple[int, int]:
        if name not in self._tables:
            known = ", ".join(self._tables)
            raise SparseError(f"the job has no table {name!r}: it has {known}")
        return self._tables[name]


def _keys(keys: ArrayLike) -> NDArray[np.uint64]:
    array = np.asarray(keys)
    if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise SparseError(f"keys are a row of integers, and these are {array.ndim}-dimensional {array.dtype}")
    if array.size and array.min() < 0:
        raise SparseError(f"key {array.min()} is below 0: rows are numbered from 0")
    return np.ascontiguousarray(array, np.uint64)
