"""One rank of a scenario that runs live: it computes as long as in the simulation, by sleeping, and sums.

The comparison starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line. All
ranks have to be on one machine: they share its monotonic clock.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

import torch
from wiresum.bench.scenario.task import Task

HEAD_START_S = 0.2
"""From the agreement on a start to the start: longer than the agreement takes to reach everyone."""
FIRST_ELEMENTS = 1024
"""Elements of a collective before the first round, so that connections and memory are in place."""


def main() -> None:
    """Runs the rounds, and writes everyone's begins and ends to a file."""
    task = Task.told()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group: Any = dist.new_group(backend="wiresum")
    dist.all_reduce(torch.ones(FIRST_ELEMENTS), group=group)
    spans, deviation = rounds(task, group)
    everyone: list[tuple[list[tuple[float, float]], float]] = [([], 0.0)] * dist.get_world_size()
    dist.all_gather_object(everyone, (spans, deviation))
    if dist.get_rank() == 0:
        found = {"spans": [one[0] for one in everyone], "deviation": max(one[1] for one in everyone)}
        Path(task.output).write_text(json.dumps(found))
    dist.destroy_process_group(group)
    dist.destroy_process_group()


def rounds(task: Task, group: Any) -> tuple[list[tuple[float, float]], float]:
    """Begin and end of each round on the monotonic clock, and the sums' largest relative deviation."""
    rank, size = dist.get_rank(), dist.get_world_size()
    shape = torch.empty(task.elements).uniform_(-1, 1, generator=torch.Generator().manual_seed(1))
    expected = shape * (size * (size + 1) / 2)
    tensors = [shape * (rank + 1) for _ in task.waits_s[rank]]
    spans, deviation = [], 0.0
    start = torch.tensor([time.monotonic() + HEAD_START_S], dtype=torch.float64)
    dist.all_reduce(start, op=dist.ReduceOp.MAX)
    time.sleep(max(0.0, float(start) - time.monotonic()))
    for tensor, wait_s in zip(tensors, task.waits_s[rank], strict=True):
        time.sleep(wait_s)
        begin_s = time.monotonic() - float(start)
        dist.all_reduce(tensor, group=group)
        spans.append((begin_s, time.monotonic() - float(start)))
    for tensor in tensors:
        deviation = max(deviation, float((tensor - expected).abs().max() / expected.abs().max()))
    return spans, deviation


if __name__ == "__main__":
    main()
