"""The rows of sharded modules: pulled before forward, pushed in backward, stepped when backward is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import torch
from wiresum.errors import SparseError

Keys = NDArray[np.int64]
Weights = NDArray[np.float32]


class Client(Protocol):
    """What carries rows: a `wiresum.sparse.client.SparseClient`."""

    @property
    def tables(self) -> dict[str, int]:
        """Values of a row, by name of the table."""

    @property
    def stored(self) -> dict[str, int]:
        """Numbers that are stored of a row, weights and the optimizer's state, by name of the table."""

    def pull(self, table: str, keys: Keys) -> Weights:
        """Rows as they are after the last round, an array [keys, values]."""

    def pull_all(self, wanted: Sequence[tuple[str, Keys]]) -> list[Weights]:
        """Rows of several tables."""

    def pull_stored(self, table: str, keys: Keys) -> Weights:
        """The same with the optimizer's state, an array [keys, stored]."""

    def push(self, table: str, keys: Keys, grads: Weights) -> None:
        """Adds to the gradients of this rank's round."""

    def put(self, table: str, keys: Keys, values: Weights) -> None:
        """Has rows be `values`, an array [keys, stored], after the round."""

    def finish_round(self) -> int:
        """Ends the round and waits for its end everywhere."""

    def close(self) -> None:
        """Leaves the job."""


@dataclass
class Prefetched:
    """Rows that a later lookup needs.

    Attributes:
        keys: of the rows.
        version: rounds after which they are pulled.
        weights: when they are here.
        is_asked: whether they are on their way, as their round is over.
    """

    keys: Keys
    version: int
    weights: Future[Weights] = field(default_factory=Future)
    is_asked: bool = False


class Rows:
    """The rows of all sharded modules of a model; what `shard_embeddings` returns.

    A round is one backward: its gradients are pushed while it runs, and when it is over the round ends, on a thread of
    its own, beside what DDP still sums and what the dense optimizer does. The next forward waits for that. With a
    delay of d, forward has the rows as they were exactly d rounds before, and waits for the rounds until then only;
    what it looks up is prefetched d steps ahead. Use as a context manager, or call `close`.

    Args:
        client: what carries rows.
        delay: rounds that rows are late in training.
    """

    def __init__(self, client: Client, delay: int = 0) -> None:
        if delay < 0:
            raise SparseError(f"delay is {delay} rounds; give 0 or more")
        self._client = client
        self._delay = delay
        # The client belongs to one thread, which also keeps its calls in order.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wiresum rows")
        self._unseen: deque[Future[Any]] = deque()
        self._prefetched: dict[str, list[Prefetched]] = {}
        self._rounds = 0
        self._is_used = False
        self._is_loading = False
        self._accumulates = False
        self._backward = -1

    @property
    def stored(self) -> dict[str, int]:
        """Numbers that servers store of a row, weights and the optimizer's state, by name of the table."""
        return self._client.stored

    @property
    def rounds(self) -> int:
        """Rounds that have ended, or are ending."""
        return self._rounds

    @property
    def next_round(self) -> int:
        """The round that ends next; that in which rows are loaded, if they are."""
        return self._rounds + 1

    def pull(self, table: str, keys: Keys) -> torch.Tensor:
        """The rows of ascending distinct keys, as a leaf of the graph whose gradient is pushed.

        Args:
            table: where they are.
            keys: of the rows.

        Returns:
            A float32 tensor [keys, values].

        Raises:
            SparseError: a round has failed; or with a delay, the rows were not prefetched.
        """
        self._end_loading()
        trains = torch.is_grad_enabled()
        weights = self._wanted(table, keys) if trains else self._thread.submit(self._client.pull, table, keys)
        self._look(wait=not trains or self._delay == 0)  # what went wrong comes before what follows from it
        rows = torch.from_numpy(weights.result())
        if trains:
            self._is_used = True
            rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(lambda leaf: self._push(table, keys, leaf))  # type: ignore[no-untyped-call]
        return rows

    def prefetch(self, table: str, keys: Keys) -> None:
        """Has rows pulled before they are needed: by the next step, or with a delay of d, d steps later."""
        self._end_loading()
        version = self._rounds + 1 if self._is_used and not self._delay else self._rounds
        self._prefetched.setdefault(table, []).append(Prefetched(keys, version))
        self._pull_ahead()

    def pull_stored(self, table: str, keys: Keys) -> torch.Tensor:
        """Weights and the optimizer's state of rows as they are after the last round, a tensor [keys, stored]."""
        self._end_loading()
        return torch.from_numpy(self._thread.submit(self._client.pull_stored, table, keys).result())

    def put(self, table: str, keys: Keys, values: torch.Tensor) -> None:
        """Has rows be `values`, a tensor [keys, stored], from the next lookup on; all ranks load, each its own rows."""
        self._is_loading = True
        self._thread.submit(self._client.put, table, keys, values.numpy(force=True)).result()

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Backwards in this context do not end the round; the next one after it does, as with DDP's `no_sync`."""
        self._accumulates = True
        try:
            yield
        finally:
            self._accumulates = False

    def finish_round(self) -> None:
        """Ends the round; for a rank whose backward met no sharded module, as every rank has to end every round."""
        self._end_loading()
        self._look(wait=self._delay == 0)
        self._end_round()

    def wait(self) -> None:
        """Returns when the last round is over everywhere; raises what went wrong in it."""
        self._look(wait=True)

    def close(self) -> None:
        """Waits for the last round and leaves the job. Harmless when repeated."""
        try:
            self._end_loading()
            self.wait()
        finally:
            self._thread.shutdown()
            self._client.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _wanted(self, table: str, keys: Keys) -> Future[Weights]:
        """Rows as they were `delay` rounds before: prefetched ones, or where that is now, pulled."""
        version = max(0, self._rounds - self._delay)
        ahead = self._prefetched.get(table, [])
        for index, one in enumerate(ahead):
            if one.version == version and one.is_asked and np.array_equal(one.keys, keys):
                del ahead[index]
                return one.weights
        if version == self._rounds:
            return self._thread.submit(self._client.pull, table, keys)
        raise SparseError(
            f"table {table}: rows of {self._delay} rounds before are gone; call `prefetch` with what a step looks up "
            f"{self._delay} steps before it, and for the first {self._delay} steps before the first one"
        )

    def _push(self, table: str, keys: Keys, leaf: torch.Tensor) -> None:
        """In backward: hands the gradient of pulled rows over, and sees to the round's end."""
        gradient, leaf.grad = leaf.grad, None
        assert gradient is not None, "the hook runs after accumulation"
        pushed = self._thread.submit(self._client.push, table, keys, gradient.numpy(force=True))
        if self._delay:  # rounds before are still under way
            self._unseen.append(pushed)
        else:
            pushed.result()
        backward = torch._C._current_graph_task_id()
        if backward != self._backward and not self._accumulates:
            self._backward = backward
            torch.autograd.Variable._execution_engine.queue_callback(self.finish_round)

    def _end_round(self) -> None:
        self._is_used = False
        self._rounds += 1
        self._unseen.append(self._thread.submit(self._client.finish_round))
        self._pull_ahead()

    def _end_loading(self) -> None:
        """Rows that were put are there after a round."""
        if self._is_loading:
            self._is_loading = False
            self._end_round()

    def _pull_ahead(self) -> None:
        """Asks for what is due, and forgets what no lookup came for."""
        least = max(0, self._rounds - self._delay)
        due: list[tuple[str, Prefetched]] = []
        for table, ahead in self._prefetched.items():
            ahead[:] = [one for one in ahead if one.version >= least]
            due += [(table, one) for one in ahead if not one.is_asked and one.version == self._rounds]
        for _, one in due:
            one.is_asked = True
        if due:
            self._thread.submit(self._pull_all, due)

    def _pull_all(self, due: list[tuple[str, Prefetched]]) -> None:
        """On the thread: tables together, so that they share their round trips."""
        try:
            rows = self._client.pull_all([(table, one.keys) for table, one in due])
        except Exception as error:  # whoever looks the rows up raises it
            for _, one in due:
                one.weights.set_exception(error)
            return
        for (_, one), weights in zip(due, rows, strict=True):
            one.weights.set_result(weights)

    def _look(self, *, wait: bool) -> None:
        """Raises what went wrong in calls that nobody waited for."""
        while self._unseen and (wait or self._unseen[0].done()):
            self._unseen.popleft().result()
