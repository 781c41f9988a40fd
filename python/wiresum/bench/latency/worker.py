"""One rank of `wiresum bench latency`: barriers and small all-reduces through every backend in turn."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

import torch
import wiresum.torch
from wiresum.bench.rank import account_of, joined_by_each, write
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask

PRODUCT = "wiresum"
THRESHOLD_VARIABLE = "WIRESUM_MIN_ELEMENTS"
MICRO = 1e6


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        backends: of torch.distributed.
        sizes: elements of the float32 tensors that are summed; 0 stands for a barrier.
        min_elements: below which sums go through Gloo.
        calls: collectives in a run.
        repeats: measured runs of each.
        warmups: runs before that.
        output: file for rank 0's view.
    """

    backends: list[str]
    sizes: list[int]
    min_elements: int
    calls: int
    repeats: int
    warmups: int
    output: str


class Calls:
    """One collective again and again, each timed by itself and checked.

    Args:
        elements: of the tensor that is summed; 0: a barrier.
        group: whose collective it is.
    """

    def __init__(self, elements: int, group: dist.ProcessGroup) -> None:
        size = group.size()
        self._mine = torch.full((elements,), float(group.rank() + 1))
        self._sum = torch.full((elements,), size * (size + 1) / 2)
        self._tensor = torch.empty(elements)
        self._group = group

    def run(self, calls: int) -> list[tuple[float, dist.Work]]:
        """Seconds of each call on this rank, and its handle.

        Raises:
            SystemExit: a sum is wrong.
        """
        begin = self._all_reduce if len(self._mine) else self._barrier
        return [self._timed(begin) for _ in range(calls)]

    def _timed(self, begin: Callable[[], Any]) -> tuple[float, dist.Work]:
        self._tensor.copy_(self._mine)
        start = time.perf_counter()
        work = begin()
        work.wait()
        seconds = time.perf_counter() - start
        if len(self._mine) and not torch.equal(self._tensor, self._sum):
            raise SystemExit(f"rank {self._group.rank()} has a wrong sum of {len(self._mine)}; please report this")
        return seconds, work

    def _all_reduce(self) -> Any:
        return dist.all_reduce(self._tensor, group=self._group, async_op=True)

    def _barrier(self) -> Any:
        return dist.barrier(self._group, async_op=True)


def measure(calls: Calls, task: Task, backend: str, starts: Starts) -> dict[str, Any]:
    """Median microseconds of a call on the slowest rank, and how often each reason was given for where it was done."""
    starts.wait()
    seconds, works = zip(*calls.run(task.calls), strict=True)
    slowest = torch.tensor(statistics.median(seconds) * MICRO, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    reasons = Counter(str(wiresum.torch.explain(work)) for work in works) if backend == PRODUCT else {}
    return {"microseconds": slowest.item(), "reasons": dict(reasons)}


def main() -> None:
    """Measures, checks every sum, and writes rank 0's view to a file."""
    task = Task.told()
    os.environ[THRESHOLD_VARIABLE] = str(task.min_elements)
    with joined_by_each(task.backends, task.output) as (groups, starts):
        runs = []
        for repeat in range(task.warmups + task.repeats):
            for elements in task.sizes:
                for backend, group in groups.items():
                    found = measure(Calls(elements, group), task, backend, starts)
                    if repeat >= task.warmups:
                        runs.append({"elements": elements, "backend": backend, **found})
        write(task.output, {"runs": runs, "report": account_of(task.backends)})


if __name__ == "__main__":
    main()
