"""Reduce-scatters that run while the backward pass goes on, and end with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import torch.distributed as dist

import torch
from wiresum.torch.fsdp.internals import BlockInternals


class UnderWay:
    """Reduce-scatters of a model that nobody has waited for yet, in the order in which they began.

    Args:
        most: how many, at least 1.
        at_end_of_backward: has something called when the backward pass that is going on ends; false where none is.
    """

    def __init__(self, most: int, at_end_of_backward: Callable[[Callable[[], None]], bool]) -> None:
        self._most = most
        self._at_end_of_backward = at_end_of_backward
        self._begun: deque[tuple[dist.Work, Sequence[torch.Tensor]]] = deque()
        """With the tensors, which have to live as long."""

    def begin(self, begin: Callable[[], dist.Work | None], *tensors: torch.Tensor) -> None:
        """Begins one when fewer than the most are under way.

        Every one asks to be waited for at the end, as a backward pass that raises leaves no other trace than those.
        """
        while len(self._begun) >= self._most:
            self._wait_for_oldest()
        work = begin()
        if work is not None:
            self._begun.append((work, tensors))
        if not self._at_end_of_backward(self.finish):
            self.finish()

    def finish(self) -> None:
        """Waits for all."""
        while self._begun:
            self._wait_for_oldest()

    def _wait_for_oldest(self) -> None:
        work, _tensors = self._begun.popleft()
        work.wait()


class ReduceScatterAhead:
    """What FSDP2 calls instead of its own reduce-scatter, for one block (its `ReduceScatter` has no public name).

    Args:
        block: whose gradients these are.
        under_way: those of the model.
        say: is told why one was waited for.
    """

    def __init__(self, block: BlockInternals, under_way: UnderWay, say: Callable[[str], None]) -> None:
        self._block, self._under_way, self._say = block, under_way, say

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory of its own for each input and output: several are under way."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: dist.ReduceOp.RedOpType,
        async_op: bool = False,
    ) -> None:
        """Begins, or where the result is read at once, reduces and waits: also for gradients that it is added to."""

        def begin() -> dist.Work | None:
            return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op=True)

        self._under_way.begin(begin, output_tensor, input_tensor)
        if reason := self._block.reader(output_tensor.dtype, op):
            self._say(reason)
            self._under_way.finish()
