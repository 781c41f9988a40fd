"""One rank of `wiresum bench collectives`: the same collectives through every backend in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.distributed as dist

import torch
from wiresum.bench.rank import account_of, crossed, joined_by_each, worst, write
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask
from wiresum.predict.collectives import PARTS

ROOT = 0
AT_ROOT = ("reduce", "gather")
"""What the root alone takes."""
LARGEST = 8
"""Values are whole numbers below this one: sums are exact in every type."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        backends: of torch.distributed.
        collectives: names.
        dtype: of the tensors.
        elements: of the unsharded tensor, a multiple of the ranks.
        repeats: measured collectives of each.
        warmups: collectives before that.
        output: file for rank 0's view.
    """

    backends: list[str]
    collectives: list[str]
    dtype: str
    elements: int
    repeats: int
    warmups: int
    output: str


class Tensors:
    """A rank's tensors, and what they have to become."""

    def __init__(self, elements: int, dtype: torch.dtype) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        self.mine = values(rank, elements, dtype)
        self.sums = sum((values(other, elements, dtype) for other in range(size)), torch.zeros(elements, dtype=dtype))
        self.of_root = values(ROOT, elements, dtype)
        self.own = slice(rank * elements // size, (rank + 1) * elements // size)
        self.whole = self.mine.clone()
        self.is_root = rank == ROOT
        self.part = torch.empty(elements // size, dtype=dtype)
        self.gathered = torch.empty(elements, dtype=dtype)

    def prepare(self) -> None:
        """As at first."""
        self.whole.copy_(self.mine)
        self.part.zero_()
        self.gathered.zero_()
        self.gathered[self.own] = self.of_root[self.own]

    def begin(self, collective: str, group: Any) -> list[Any]:
        """Begins a collective; what to wait for."""
        calls: dict[str, Callable[..., Any]] = {
            "all_reduce": partial(dist.all_reduce, self.whole),
            "reduce": partial(dist.reduce, self.whole, ROOT),
            "broadcast": partial(dist.broadcast, self.whole, ROOT),
            "reduce_scatter": partial(dist.reduce_scatter_tensor, self.part, self.whole),
            "all_gather": partial(dist.all_gather_into_tensor, self.gathered, self.gathered[self.own]),
            "gather": partial(dist.gather, self.gathered[self.own], self._listed(self.gathered), ROOT),
            "scatter": partial(dist.scatter, self.part, self._listed(self.whole), ROOT),
        }
        return [calls[name](group=group, async_op=True) for name in PARTS.get(collective, (collective,))]

    def _listed(self, whole: torch.Tensor) -> list[torch.Tensor] | None:
        """What the root alone passes."""
        return list(whole.chunk(dist.get_world_size())) if self.is_root else None

    def is_right(self, collective: str) -> bool:
        """Whether this rank has what it was to get, to the bit."""
        results = {
            "all_reduce": (self.whole, self.sums),
            "reduce": (self.whole, self.sums),
            "broadcast": (self.whole, self.of_root),
            "reduce_scatter": (self.part, self.sums[self.own]),
            "all_gather": (self.gathered, self.of_root),
            "gather": (self.gathered, self.of_root),
            "scatter": (self.part, self.of_root[self.own]),
        }
        names = PARTS.get(collective, (collective,))
        taken = [results[name] for name in names if self.is_root or name not in AT_ROOT]
        return all(torch.equal(found, expected) for found, expected in taken)


def values(rank: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
    """A rank's whole numbers."""
    return ((torch.arange(elements) + rank) % LARGEST).to(dtype)


def measure(tensors: Tensors, collective: str, group: Any, starts: Starts) -> dict[str, float]:
    """Seconds from the common start until the slowest rank is done, and the busiest rank's bytes.

    Raises:
        SystemExit: a result is wrong.
    """
    tensors.prepare()
    start, before = starts.wait(), crossed()
    for work in tensors.begin(collective, group):
        work.wait()
    seconds = time.monotonic() - start
    if not tensors.is_right(collective):
        raise SystemExit(f"{collective}: rank {dist.get_rank()} has a wrong result; please report this")
    return worst(seconds, before, starts)


def main() -> None:
    """Measures, checks every result, and writes rank 0's view to a file."""
    task = Task.told()
    with joined_by_each(task.backends, task.output) as (groups, starts):
        tensors = Tensors(task.elements, getattr(torch, task.dtype))
        runs = []
        for repeat in range(task.warmups + task.repeats):
            for collective in task.collectives:
                for name, group in groups.items():
                    found = measure(tensors, collective, group, starts)
                    if repeat >= task.warmups:
                        runs.append({"collective": collective, "backend": name, **found})
        write(task.output, {"runs": runs, "report": account_of(task.backends)})


if __name__ == "__main__":
    main()
