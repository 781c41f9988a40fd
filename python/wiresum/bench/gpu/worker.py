"""One rank of `wiresum bench gpu`: all-reduces of a tensor on the GPU that all ranks share, by each backend in turn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

import torch
import wiresum.torch
from wiresum.bench.rank import account_of, joined_by_each, write
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask

PRODUCT = "wiresum"


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        backends: of torch.distributed.
        sizes: bytes of the float32 tensors.
        repeats: measured runs of each.
        warmups: runs before that.
        output: file for rank 0's view.
    """

    backends: list[str]
    sizes: list[int]
    repeats: int
    warmups: int
    output: str


def measure(tensor: torch.Tensor, group: dist.ProcessGroup, backend: str, starts: Starts) -> dict[str, Any]:
    """Seconds on the slowest rank: of the call, of wait(), and of all of it until the GPU has the sum.

    Raises:
        SystemExit: the sum is wrong, or was not made in the network.
    """
    tensor.fill_(1)
    torch.cuda.synchronize()
    starts.wait()
    began = time.perf_counter()
    work: Any = dist.all_reduce(tensor, group=group, async_op=True)
    submitted = time.perf_counter()
    work.wait()
    waited = time.perf_counter()
    torch.cuda.synchronize()
    ended = time.perf_counter()
    if not tensor.eq(group.size()).all().item():
        raise SystemExit(f"rank {group.rank()} has a wrong sum from {backend}; please report this")
    if backend == PRODUCT and (reason := wiresum.torch.explain(work)) != "summed":
        raise SystemExit(f"rank {group.rank()}: {reason.explanation}")
    slowest = torch.tensor([submitted - began, waited - submitted, ended - began], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return dict(zip(("submit", "wait", "seconds"), slowest.tolist(), strict=True))


def main() -> None:
    """Measures, checks every sum, and writes rank 0's view to a file."""
    task = Task.told()
    runs = []
    with joined_by_each(task.backends, task.output) as (groups, starts):
        for size in task.sizes:
            tensor = torch.empty(size // torch.float32.itemsize, device="cuda")
            for repeat in range(task.warmups + task.repeats):
                for backend, group in groups.items():
                    found = measure(tensor, group, backend, starts)
                    if repeat >= task.warmups:
                        runs.append({"bytes": size, "backend": backend, **found})
        write(task.output, {"runs": runs, "report": account_of(task.backends)})


if __name__ == "__main__":
    main()
