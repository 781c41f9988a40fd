"""One rank of a benchmark whose ranks have their gradients at different times.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line. All
ranks have to be on one machine (see `wiresum.bench.start`).
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import torch.distributed as dist

import torch
from wiresum.bench.late import LateSumsOutcome, Task
from wiresum.bench.rank import joined, write
from wiresum.bench.start import Starts


def main() -> None:
    """Measures size after size."""
    task = Task.told()
    with joined(task.backend, task.output) as (group, starts):
        write(task.output, [asdict(measure(elements, task, group, starts)) for elements in task.elements])


def measure(elements: int, task: Task, group: Any, starts: Starts) -> LateSumsOutcome:
    """Sums once without anyone late, so that memory is in place, then as often as was asked for."""
    rank = dist.get_rank()
    inputs = torch.empty(elements).uniform_(-1, 1, generator=torch.Generator().manual_seed(rank))
    expected = inputs.clone()
    dist.all_reduce(expected)
    all_reduce(inputs, group, starts, 0.0)
    seconds, begins, deviation = [], [], 0.0
    for _ in range(task.repeats):
        begin, elapsed, result = all_reduce(inputs, group, starts, task.starts[rank])
        seconds.append(elapsed)
        begins.append(begin)
        deviation = max(deviation, float((result - expected).abs().max()))
    return LateSumsOutcome(seconds, begins, deviation)


def all_reduce(inputs: torch.Tensor, group: Any, starts: Starts, late_s: float) -> tuple[float, float, torch.Tensor]:
    """The common start on the monotonic clock, seconds from it until the last rank has the sum, and the sum."""
    tensor = inputs.clone()
    begin = starts.wait(late_s)
    dist.all_reduce(tensor, group=group)
    end = torch.tensor([time.monotonic()], dtype=torch.float64)
    dist.all_reduce(end, op=dist.ReduceOp.MAX)
    return begin, float(end) - begin, tensor


if __name__ == "__main__":
    main()
