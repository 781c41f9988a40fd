"""One rank of `wiresum bench allreduce`: the same tensor through every backend in turn, under the same conditions.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

import torch
from wiresum.bench.baselines.push_pull import PushPull
from wiresum.bench.rank import PATIENCE, account_of, by_turns, write
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask

Reduce = Callable[[torch.Tensor], Any]
"""Replaces a tensor by the sum of all ranks."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        backends: of torch.distributed.
        elements: of the float32 tensor.
        repeats: measured all-reduces of each.
        warmups: all-reduces before that.
        output: file for rank 0's view.
        servers: of each rival that sums at servers, where those are.
    """

    backends: list[str]
    elements: int
    repeats: int
    warmups: int
    output: str
    servers: dict[str, list[str]] = field(default_factory=dict)


def main() -> None:
    """Measures, checks the sums, and writes rank 0's view to a file."""
    task = Task.told()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=PATIENCE)
    groups = {
        name: dist.group.WORLD if name == "gloo" else dist.new_group(backend=name, timeout=PATIENCE)
        for name in task.backends
    }
    inputs = torch.empty(task.elements).uniform_(-1, 1, generator=torch.Generator().manual_seed(dist.get_rank()))
    expected = inputs.clone()
    dist.all_reduce(expected)
    clients = {name: PushPull(servers) for name, servers in task.servers.items()}
    reduce: dict[str, Reduce] = {name: partial(dist.all_reduce, group=group) for name, group in groups.items()}
    reduce |= {name: partial(pull_sums, client) for name, client in clients.items()}
    starts = Starts(Path(task.output).with_suffix(".starts"), dist.get_rank(), dist.get_world_size(), dist.barrier)
    measured = by_turns(reduce, partial(measure, inputs, expected, starts), task.repeats, task.warmups)
    write(task.output, {**measured, "report": account_of(task.backends)})
    for client in clients.values():
        client.close()
    for name, group in groups.items():
        if name != "gloo":
            dist.destroy_process_group(group)
    dist.destroy_process_group()


def pull_sums(client: PushPull, tensor: torch.Tensor) -> None:
    """An all-reduce at servers."""
    client.all_reduce(tensor.numpy())


def measure(inputs: torch.Tensor, expected: torch.Tensor, starts: Starts, all_reduce: Reduce) -> tuple[float, float]:
    """Seconds from the common start until the slowest rank has the sum, and the largest deviation from Gloo's sum."""
    tensor = inputs.clone()
    start = starts.wait()
    all_reduce(tensor)
    elapsed = torch.tensor([time.monotonic() - start, float((tensor - expected).abs().max())], dtype=torch.float64)
    dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
    return float(elapsed[0]), float(elapsed[1])


if __name__ == "__main__":
    main()
