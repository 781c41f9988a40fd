"""One rank of one turn of `wiresum bench compare`: every model once through one backend, each after a warm-up.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
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


@dataclass(frozen=True)
class Task:
    """What to measure.

    Attributes:
        backend: of torch.distributed.
        elements: float32 values of each model.
        starts_s: when each rank has its gradient, in seconds after the first.
        output: file for rank 0's view.
    """

    backend: str
    elements: list[int]
    starts_s: list[float]
    output: str

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


def main() -> None:
    """Measures, compares the sums with Gloo's, and writes seconds and deviations by model to a file."""
    task = Task(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = dist.group.WORLD if task.backend == "gloo" else dist.new_group(backend=task.backend)
    start_s = task.starts_s[dist.get_rank()]
    measured = [measure(elements, group, start_s) for elements in task.elements]
    if dist.get_rank() == 0:
        seconds, deviations = zip(*measured, strict=True)
        Path(task.output).write_text(json.dumps({"seconds": seconds, "deviations": deviations}))
    if task.backend != "gloo":
        dist.destroy_process_group(group)
    dist.destroy_process_group()


def measure(elements: int, group: Any, start_s: float) -> tuple[float, float]:
    """Seconds from the first rank's start to the last rank's end, and the largest deviation from Gloo's sum."""
    inputs = torch.empty(elements).uniform_(-1, 1, generator=torch.Generator().manual_seed(dist.get_rank()))
    expected = inputs.clone()
    dist.all_reduce(expected)
    dist.all_reduce(inputs.clone(), group=group)
    tensor = inputs.clone()
    dist.barrier()
    began = time.perf_counter()
    time.sleep(start_s)
    dist.all_reduce(tensor, group=group)
    outcome = torch.tensor([time.perf_counter() - began, float((tensor - expected).abs().max())], dtype=torch.float64)
    dist.all_reduce(outcome, op=dist.ReduceOp.MAX)
    return float(outcome[0]), float(outcome[1])


if __name__ == "__main__":
    main()
