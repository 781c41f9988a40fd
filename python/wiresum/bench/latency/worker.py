"""One rank of `wiresum bench latency`: small collectives through every backend in turn."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
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
        cases: collectives, and the elements of the float32 tensor that a rank passes; 0 for a barrier.
        min_elements: below which sums go through Gloo.
        calls: collectives in a run.
        repeats: measured runs of each.
        warmups: runs before that.
        output: file for rank 0's view.
    """

    backends: list[str]
    cases: list[tuple[str, int]]
    min_elements: int
    calls: int
    repeats: int
    warmups: int
    output: str


class Calls:
    """One collective again and again, each timed by itself and checked.

    Args:
        collective: which.
        elements: of the tensor that a rank passes; 0: a barrier.
        group: whose collective it is.
    """

    def __init__(self, collective: str, elements: int, group: dist.ProcessGroup) -> None:
        rank, size = group.rank(), group.size()
        self._begin = getattr(self, f"_{collective}")
        self._collective, self._group = collective, group
        self._mine = torch.full((elements,), rank + 1.0)
        total = torch.full((elements,), size * (size + 1) / 2)
        part = elements // size
        gathered = torch.arange(1.0, size + 1).repeat_interleave(elements)
        expected = {
            "all_reduce": total, "reduce": total if rank == 0 else None, "broadcast": torch.ones(elements),
            "reduce_scatter": total[:part], "all_gather": gathered,
            "gather": gathered if rank == 0 else None, "scatter": torch.ones(part),
        }  # fmt: skip
        self._expected = expected.get(collective)
        self._tensor = torch.empty(elements)
        outputs = {
            "reduce_scatter": torch.empty(part), "all_gather": torch.empty_like(gathered),
            "gather": torch.empty_like(gathered), "scatter": torch.empty(part),
        }  # fmt: skip
        self._output = outputs.get(collective, self._tensor)

    def run(self, calls: int) -> list[tuple[float, dist.Work]]:
        """Seconds of each call on this rank, and its handle.

        Raises:
            SystemExit: a result is wrong.
        """
        return [self._timed() for _ in range(calls)]

    def _timed(self) -> tuple[float, dist.Work]:
        self._tensor.copy_(self._mine)
        start = time.perf_counter()
        work = self._begin()
        work.wait()
        seconds = time.perf_counter() - start
        if self._expected is not None and not torch.equal(self._output, self._expected):
            raise SystemExit(
                f"rank {self._group.rank()} has a wrong result of {self._collective} of {len(self._mine)} elements; "
                "please report this"
            )
        return seconds, work

    def _barrier(self) -> Any:
        return dist.barrier(self._group, async_op=True)

    def _all_reduce(self) -> Any:
        return dist.all_reduce(self._tensor, group=self._group, async_op=True)

    def _reduce(self) -> Any:
        return dist.reduce(self._tensor, 0, group=self._group, async_op=True)

    def _broadcast(self) -> Any:
        return dist.broadcast(self._tensor, 0, group=self._group, async_op=True)

    def _reduce_scatter(self) -> Any:
        return dist.reduce_scatter_tensor(self._output, self._tensor, group=self._group, async_op=True)

    def _all_gather(self) -> Any:
        return dist.all_gather_into_tensor(self._output, self._tensor, group=self._group, async_op=True)

    def _gather(self) -> Any:
        return dist.gather(self._tensor, self._pieces(self._output), 0, group=self._group, async_op=True)

    def _scatter(self) -> Any:
        return dist.scatter(self._output, self._pieces(self._tensor), 0, group=self._group, async_op=True)

    def _pieces(self, whole: torch.Tensor) -> list[torch.Tensor] | None:
        """One for each rank, which the root alone passes."""
        return list(whole.chunk(self._group.size())) if self._group.rank() == 0 else None


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
            for collective, elements in task.cases:
                for backend, group in groups.items():
                    found = measure(Calls(collective, elements, group), task, backend, starts)
                    if repeat >= task.warmups:
                        runs.append({"collective": collective, "elements": elements, "backend": backend, **found})
        write(task.output, {"runs": runs, "report": account_of(task.backends)})


if __name__ == "__main__":
    main()
