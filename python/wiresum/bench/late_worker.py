"""One rank of a benchmark whose ranks have their gradients at different times.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line. All
ranks have to be on one machine: they agree on a moment of its monotonic clock.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

import torch

HEAD_START_S = 0.1
"""From the agreement on a start to the start: longer than the agreement takes to reach everyone."""


@dataclass(frozen=True)
class Task:
    """What to measure.

    Attributes:
        backend: of the group that sums.
        elements: float32 values.
        starts: seconds at which each rank has its gradient.
        repeats: measured all-reduces.
        output: file for rank 0's view.
    """

    backend: str
    elements: int
    starts: list[float]
    repeats: int
    output: str

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


def main() -> None:
    """Sums once without anyone late, so that memory is in place, then measures."""
    task = Task(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = dist.group.WORLD if task.backend == "gloo" else dist.new_group(backend=task.backend)
    rank = dist.get_rank()
    inputs = torch.empty(task.elements).uniform_(-1, 1, generator=torch.Generator().manual_seed(rank))
    expected = inputs.clone()
    dist.all_reduce(expected)
    measure(inputs, group, 0.0)
    seconds, begins, error = [], [], 0.0
    for _ in range(task.repeats):
        begin, elapsed, result = measure(inputs, group, task.starts[rank])
        seconds.append(elapsed)
        begins.append(begin)
        error = max(error, float((result - expected).abs().max()))
    if rank == 0:
        Path(task.output).write_text(json.dumps({"seconds": seconds, "begins": begins, "error": error}))
    if task.backend != "gloo":
        dist.destroy_process_group(group)
    dist.destroy_process_group()


def measure(inputs: torch.Tensor, group: Any, start_s: float) -> tuple[float, float, torch.Tensor]:
    """The common start on the monotonic clock, seconds from it until the last rank has the sum, and the sum."""
    tensor = inputs.clone()
    begin = torch.tensor([time.monotonic() + HEAD_START_S], dtype=torch.float64)
    dist.all_reduce(begin, op=dist.ReduceOp.MAX)
    time.sleep(max(0.0, float(begin) + start_s - time.monotonic()))
    dist.all_reduce(tensor, group=group)
    end = torch.tensor([time.monotonic()], dtype=torch.float64)
    dist.all_reduce(end, op=dist.ReduceOp.MAX)
    return float(begin), float(end - begin), tensor


if __name__ == "__main__":
    main()
