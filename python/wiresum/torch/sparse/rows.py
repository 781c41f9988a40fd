"""The rows of sharded modules: pulled before forward, pushed in backward, stepped when backward is over."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import torch

Keys = NDArray[np.int64]
Weights = NDArray[np.float32]


class Client(Protocol):
    """What carries rows: a `wiresum.sparse.client.SparseClient`."""

    @property
    def tables(self) -> dict[str, int]:
        """Values of a row, by name of the table."""

    def pull(self, table: str, keys: Keys) -> Weights:
        """Rows as they are after the last round, an array [keys, values]."""

    def push(self, table: str, keys: Keys, grads: Weights) -> None:
        """Adds to the gradients of this rank's round."""

    def finish_round(self) -> int:
        """Ends the round and waits for its end everywhere."""

    def close(self) -> None:
        """Leaves the job."""


class Rows:
    """The rows of all sharded modules of a model; what `shard_embeddings` returns.

    A round is one backward: its gradients are pushed while it runs, and when it is over the round ends, on a thread of
    its own, beside what DDP still sums and what the dense optimizer does. The next forward waits for that. Use as a
    context manager, or call `close`.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # The client belongs to one thread, which also keeps its calls in order.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wiresum rows")
        self._ending: Future[int] | None = None
        self._prefetched: dict[str, tuple[Keys, Future[Weights] | None]] = {}
        self._is_used = False
        self._accumulates = False
        self._backward = -1

    def pull(self, table: str, keys: Keys) -> torch.Tensor:
        """The rows of ascending distinct keys, as a leaf of the graph whose gradient is pushed.

        Args:
            table: where they are.
            keys: of the rows.

        Returns:
            A float32 tensor [keys, values].
        """
        known, weights = self._prefetched.get(table, (keys, None))
        if weights is not None and np.array_equal(known, keys):
            del self._prefetched[table]
        else:
            weights = self._thread.submit(self._client.pull, table, keys)
        self.wait()  # what went wrong in the round comes before what follows from it
        rows = torch.from_numpy(weights.result())
        if torch.is_grad_enabled():
            self._is_used = True
            rows.requires_grad_()
            rows.register_post_accumulate_grad_hook(lambda leaf: self._push(table, keys, leaf))  # type: ignore[no-untyped-call]
        return rows

    def prefetch(self, table: str, keys: Keys) -> None:
        """Has rows pulled before they are needed: as they are after the step under way, if there is one."""
        self._prefetched[table] = (keys, None)
        if not self._is_used:
            self._pull_ahead()

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
        self.wait()
        self._is_used = False
        self._ending = self._thread.submit(self._client.finish_round)
        self._pull_ahead()

    def wait(self) -> None:
        """Returns when the last round is over everywhere; raises what went wrong in it."""
        if self._ending is not None:
            ending, self._ending = self._ending, None
            ending.result()

    def close(self) -> None:
        """Waits for the last round and leaves the job. Harmless when repeated."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            self._client.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _push(self, table: str, keys: Keys, leaf: torch.Tensor) -> None:
        """In backward: hands the gradient of pulled rows over, and sees to the round's end."""
        gradient, leaf.grad = leaf.grad, None
        assert gradient is not None, "the hook runs after accumulation"
        self._thread.submit(self._client.push, table, keys, gradient.numpy(force=True)).result()
        backward = torch._C._current_graph_task_id()
        if backward != self._backward and not self._accumulates:
            self._backward = backward
            torch.autograd.Variable._execution_engine.queue_callback(self.finish_round)

    def _pull_ahead(self) -> None:
        for table, (keys, _) in self._prefetched.items():
            self._prefetched[table] = (keys, self._thread.submit(self._client.pull, table, keys))
