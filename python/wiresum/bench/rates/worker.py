"""One rank of `wiresum bench rates`: all-reduces of one size, and what the engine counted in each of them.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line. All
ranks have to be on one machine (see `wiresum.bench.start`).
"""

from __future__ import annotations

import time
from collections import Counter

import torch.distributed as dist

import torch
import wiresum.torch
from wiresum.bench.rank import joined, write
from wiresum.bench.rates.task import Task
from wiresum.bench.start import Starts

ROUNDING = 1e-4
"""Error of a sum of a few values below 1, in a float32 and in lanes of 32 bits."""


def main() -> None:
    """Sums once so that memory is in place, then as often as it is told."""
    task = Task.told()
    with joined("wiresum", task.output) as (group, starts):
        dist.all_reduce(torch.ones(task.warmup_elements), group=group)
        rounds = [measure(task, group, starts) for _ in range(task.rounds)]
        everyone: list[list[dict[str, int]]] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, [growth for growth, _ in rounds])
        write(task.output, {"growths": everyone, "seconds": [seconds for _, seconds in rounds]})


def measure(task: Task, group: dist.ProcessGroup, starts: Starts) -> tuple[dict[str, int], float]:
    """What the engine's counters grew by in one round, and its seconds."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((task.elements,), float(rank + 1)) for _ in range(task.together)]
    start(task, rank, starts)
    before, began = counters(), time.monotonic()
    for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]:
        if work:
            work.wait()
    seconds = time.monotonic() - began
    growth = counters()
    growth.subtract(before)
    expected = torch.tensor(size * (size + 1) / 2)
    if not all(torch.allclose(tensor, expected, rtol=ROUNDING) for tensor in tensors):
        raise SystemExit(f"rank {rank} got a wrong sum; please report this")
    return dict(growth), seconds


def start(task: Task, rank: int, starts: Starts) -> None:
    """Waits for the moment on which all ranks agree; rank 0 writes it down before it has come."""
    begin = starts.next()
    if rank == 0:
        with open(task.started, "a", encoding="ascii") as lines:
            lines.write(f"{begin}\n")
    time.sleep(max(0.0, begin - time.monotonic()))


def counters() -> Counter[str]:
    """Whole numbers that the engine counts."""
    engines = [group.engine for group in wiresum.torch.report().groups if group.engine]
    return Counter({name: value for name, value in engines[0].items() if isinstance(value, int)})


if __name__ == "__main__":
    main()
