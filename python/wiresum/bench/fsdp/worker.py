"""One rank of `wiresum bench fsdp`: the same FSDP2 training through every backend and way in turn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product

import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import torch
from torch import nn
from wiresum.bench.fsdp.mesh import Axes, meshes
from wiresum.bench.rank import account_of, crossed, joined_by_each, worst, write
from wiresum.bench.start import Starts
from wiresum.bench.task import RankTask
from wiresum.torch.fsdp import overlap

BATCH = 4
"""Few rows: computing is short beside what the links carry."""
LEARNING_RATE = 0.5
"""The loss falls by a third in some twenty steps, so what is wrong with a gradient shows in the next loss."""
LOSS_TOLERANCES = {"float32": 1e-4, "bfloat16": 1e-2}
"""Relative, by type. Backends round differently: a ring at each step, the network once to its integers. A bfloat16
keeps 8 bits, and what is rounded otherwise in one step is in all later ones."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        backends: of torch.distributed; losses are compared with the first one's.
        ways: whether the model is overlapped.
        mesh: replicas, and shards of each.
        dtype: of parameters and gradients on their way.
        blocks: of the model, each sharded by itself.
        width: of a block's square of weights.
        steps: in a run.
        repeats: measured runs of each training.
        warmups: runs before that.
        output: file for rank 0's view.
    """

    backends: list[str]
    ways: list[bool]
    mesh: list[int]
    dtype: str
    blocks: int
    width: int
    steps: int
    repeats: int
    warmups: int
    output: str


class Block(nn.Module):
    """A layer whose output adds to its input, so that deep models learn from the first step on."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As wide as `x`."""
        return x + torch.tanh(self.linear(x))


class Training:
    """A model over a mesh, which begins and goes on as those over other meshes do."""

    def __init__(self, task: Task, axes: Axes, *, overlapped: bool) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(*(Block(task.width) for _ in range(task.blocks)))
        for block in (*model, model):
            fully_shard(block, mesh=axes.mesh, mp_policy=policy(task.dtype))
        self._model = overlap(model) if overlapped else model
        self._optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        self._random = torch.Generator().manual_seed(1 + dist.get_rank())
        self._width = task.width
        self.losses: list[float] = []

    def step(self) -> None:
        """One step on this rank's next batch."""
        x = torch.randn(BATCH, self._width, generator=self._random)
        loss = (self._model(x) - x.sin()).square().mean()
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.losses.append(loss.item())


def policy(dtype: str) -> MixedPrecisionPolicy:
    """The optimizer keeps float32; parameters and gradients travel, and blocks compute, in this type."""
    travels: torch.dtype = getattr(torch, dtype)
    return MixedPrecisionPolicy(param_dtype=travels, reduce_dtype=travels, output_dtype=torch.float32)


def run(training: Training, steps: int, starts: Starts) -> dict[str, float]:
    """Seconds from the common start until the slowest rank has made its steps, and the busiest rank's bytes."""
    start, before = starts.wait(), crossed()
    for _ in range(steps):
        training.step()
    return worst(time.monotonic() - start, before, starts)


def compare(task: Task, trainings: dict[tuple[bool, str], Training]) -> list[str]:
    """How far the losses of each other backend are from the first one's.

    Raises:
        SystemExit: they differ between ways of one backend, or too much between backends.
    """
    for backend, way in product(task.backends, task.ways):
        if trainings[way, backend].losses != trainings[task.ways[0], backend].losses:
            raise SystemExit(f"{backend}: rank {dist.get_rank()} has other losses with overlap; please report this")
    first, *others = task.backends
    ours = trainings[task.ways[0], first].losses
    farthest = {other: _farthest(task, ours, trainings[task.ways[0], other].losses) for other in others}
    return [f"losses over {other} differ by at most {value:.1e}, relative" for other, value in farthest.items()]


def _farthest(task: Task, ours: list[float], theirs: list[float]) -> float:
    """Relative difference, on any rank."""
    own = max(abs(a - b) / a for a, b in zip(ours, theirs, strict=True))
    farthest = torch.tensor(own, dtype=torch.float64)
    dist.all_reduce(farthest, op=dist.ReduceOp.MAX)
    if not farthest <= LOSS_TOLERANCES[task.dtype]:
        raise SystemExit(f"losses differ between backends by {float(farthest):.1e}, relative; please report this")
    return float(farthest)


def main() -> None:
    """Measures, compares losses, and writes rank 0's view to a file."""
    task = Task.told()
    with joined_by_each((), task.output) as (_, starts), meshes(task.backends, task.mesh) as axes:
        trainings = {
            (way, name): Training(task, axes[name], overlapped=way) for way, name in product(task.ways, task.backends)
        }
        runs = []
        for repeat in range(task.warmups + task.repeats):
            for (overlapped, name), training in trainings.items():
                found = run(training, task.steps, starts)
                if repeat >= task.warmups:
                    runs.append({"overlapped": overlapped, "backend": name, **found})
        notes = [*compare(task, trainings), *axes[task.backends[0]].places()]
        write(task.output, {"runs": runs, "notes": notes, "report": account_of(task.backends)})


if __name__ == "__main__":
    main()
