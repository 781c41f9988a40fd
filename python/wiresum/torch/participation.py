"""Training with rounds that go on without late workers (a plan's `job.rounds`; GOAT §V).

A training script need not know of them. One that does catches up sooner, counts more of what it computed, and can
change how many workers a round waits for while it runs.
"""

from dataclasses import dataclass, field
from typing import Self

import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

import torch
from wiresum.errors import WiresumError
from wiresum.torch import explain
from wiresum.torch.connection import Connection
from wiresum.torch.reason import Reason

ROUNDS_AHEAD = "rounds_ahead"
"""The engine's counter of rounds that it has opened and this rank has not submitted."""


def rounds_ahead() -> int:
    """How many collectives are under way, or over, that this rank has not called yet: it is late for all of them.

    Raises:
        WiresumError: this process sums nothing in the network.
    """
    return int(_connection().statistics().get(ROUNDS_AHEAD, 0))


def await_children(k: int) -> None:
    """From now on this rank is late for a round once k of its aggregator's children are in; at most all of them count.

    Ranks need not agree. Nothing happens where the plan lets no round go on without late workers.

    Raises:
        WiresumError: this process sums nothing in the network.
    """
    _connection().await_children(k)


def _connection() -> Connection:
    connection = Connection.first()
    if connection is None:
        raise WiresumError(
            "this process sums nothing in the network; call this after init_process_group('wiresum') has connected it"
        )
    return connection


@dataclass(frozen=True)
class Late:
    """Gradients that no round has counted.

    Attributes:
        total: their sum.
        count: how many.
    """

    total: torch.Tensor
    count: int

    def with_one_more(self, gradient: torch.Tensor) -> Self:
        """The new one is added in place."""
        return type(self)(self.total.add_(gradient), self.count + 1)


@dataclass
class FoldLate:
    """A DDP communication hook: a gradient that came too late goes into this rank's next contribution to its bucket.

    What is contributed then is the mean of the late gradients and the new one, so that every rank that takes part still
    counts once. What is late for several rounds in a row waits for the next one in time.

    Attributes:
        group: of the ranks that train together; the default group where absent.

    Example:
        model.register_comm_hook(FoldLate(), FoldLate.hook)
    """

    group: dist.ProcessGroup | None = None
    late: dict[int, Late] = field(default_factory=dict)

    def hook(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Averages a bucket."""
        gradient, index = bucket.buffer(), bucket.index()
        before = self.late.pop(index, None)
        # DDP may divide the parameters into other buckets after the first step.
        fits = before is not None and before.total.shape == gradient.shape
        held = before.with_one_more(gradient) if before is not None and fits else Late(gradient.clone(), 1)
        gradient.copy_(held.total).div_(held.count)
        work = dist.all_reduce(gradient, op=dist.ReduceOp.AVG, group=self.group, async_op=True)
        assert work is not None

        def settle(_done: object) -> torch.Tensor:
            if explain(work) is Reason.MISSED:
                self.late[index] = held
            return gradient

        return work.get_future().then(settle)
