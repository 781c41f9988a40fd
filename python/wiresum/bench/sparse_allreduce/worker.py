"""One rank of `wiresum bench sparse-allreduce`: the same rows through every method in turn, under the same conditions.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch.distributed as dist

import torch
from wiresum.bench.rank import account_of, by_turns, joined, write
from wiresum.bench.sparse_allreduce import balanced
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask
from wiresum.sparse.spec import parse

PRODUCT = "wiresum"

Reduce = Callable[[torch.Tensor], object]
"""Replaces a sparse tensor by the sum of all ranks."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        trace: its specification.
        against: rivals.
        repeats: measured all-reduces of each.
        warmups: all-reduces before that.
        output: file for rank 0's view.
    """

    trace: str
    against: list[str]
    repeats: int
    warmups: int
    output: str


def main() -> None:
    """Measures, checks the sums, and writes rank 0's view to a file."""
    task = Task.told()
    with joined(PRODUCT, task.output) as (group, starts):
        methods: dict[str, Reduce] = {
            PRODUCT: partial(dist.all_reduce, group=group),
            "gloo": dist.all_reduce,
            "balanced": balanced.all_reduce,
        }
        methods = {name: methods[name] for name in (PRODUCT, *task.against)}
        tensor = pushed(task.trace)
        expected = tensor.clone()
        dist.all_reduce(expected)
        once = partial(measure, tensor, expected, starts)
        measured = by_turns(methods, once, task.repeats, task.warmups)
        write(task.output, {**measured, "report": account_of([PRODUCT])})


def pushed(spec: str) -> torch.Tensor:
    """What this rank pushes in the trace's first round, with values drawn by rank."""
    trace = parse(spec)
    keys = torch.from_numpy(trace.pushed(0, dist.get_rank(), dist.get_world_size()))
    random = torch.Generator().manual_seed(dist.get_rank())
    dim = trace.tables.tables[0].dimension
    values = torch.empty(len(keys), dim).uniform_(-1, 1, generator=random)
    size = (trace.rows, dim)
    return torch.sparse_coo_tensor(keys[None], values, size, is_coalesced=True, check_invariants=False)


def measure(pushed: torch.Tensor, expected: torch.Tensor, starts: Starts, reduce: Reduce) -> tuple[float, float]:
    """Seconds from the common start until the slowest rank has the sum, and the largest deviation from Gloo's sum."""
    tensor = pushed.clone()
    start = starts.wait()
    reduce(tensor)
    elapsed = time.monotonic() - start
    assert torch.equal(tensor.indices(), expected.indices()), "an all-reduce has other rows than Gloo's"
    seen = torch.tensor([elapsed, float((tensor.values() - expected.values()).abs().max())], dtype=torch.float64)
    dist.all_reduce(seen, op=dist.ReduceOp.MAX)
    return float(seen[0]), float(seen[1])


if __name__ == "__main__":
    main()
