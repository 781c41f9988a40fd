"""Chooses the batch size by measured steps (InGo §V-A, step 3)."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.distributed as dist

import torch
from wiresum.planners.ingo.batch_size import (
    MAX_BATCH_SIZE,
    MIN_BATCH_SIZE,
    BatchTiming,
    Progress,
    best_batch_size,
    fit,
    scaled_learning_rate,
)

REPEATS = 3
"""Measurements of each size, of which the median counts; one before them warms up."""


@dataclass(frozen=True)
class BatchChoice:
    """What was chosen, and why; the same on every rank.

    Attributes:
        batch_size: of every rank.
        learning_rate: for it, scaled with the square root of the batch size.
        communication_seconds: the slowest rank's all-reduce of a gradient.
        timings: of all ranks, in rank order.
    """

    batch_size: int
    learning_rate: float
    communication_seconds: float
    timings: Sequence[BatchTiming]


def tune_batch_size(
    step: Callable[[int], object],
    gradient_bytes: int,
    learning_rate: float,
    batch_size: int,
    *,
    sizes: Sequence[int] = (16, 64, 256),
    least: int = MIN_BATCH_SIZE,
    most: int = MAX_BATCH_SIZE,
    progress: Progress = math.sqrt,
    group: dist.ProcessGroup | None = None,
) -> BatchChoice:
    """Measures computation and communication, and chooses the batch size with the most progress per second.

    All ranks of the group call this together, before training or between epochs; each goes on with the choice's batch
    size and learning rate, as in `for parameters in optimizer.param_groups: parameters["lr"] = choice.learning_rate`.

    Args:
        step: one local step of so many samples up to the gradient, without communication: of DDP under `no_sync()`,
            with `torch.cuda.synchronize()` at the end on a GPU.
        gradient_bytes: float32 bytes of the model's gradient.
        learning_rate: that is right for `batch_size`.
        batch_size: of each rank so far.
        sizes: that are measured, two or more.
        least: smallest size allowed.
        most: largest.
        progress: what a step is worth; see `wiresum.planners.ingo.batch_size`.
        group: of ranks that train together; the default group where absent.

    Raises:
        ValueError: fewer than two different sizes, or no size is allowed.

    Example:
        choice = tune_batch_size(lambda size: loss(model(data[:size])).backward(), 97_000_000, lr, 64)
    """
    timing = fit(sizes, [_median_seconds(lambda size=size: step(size)) for size in sizes])  # type: ignore[misc]
    gradient = torch.zeros(max(1, gradient_bytes // 4))
    communication = _median_seconds(lambda: dist.all_reduce(gradient, group=group))
    measured: list[tuple[BatchTiming, float]] = [(timing, communication)] * dist.get_world_size(group)
    dist.all_gather_object(measured, (timing, communication), group=group)
    timings = [one for one, _ in measured]
    slowest = max(seconds for _, seconds in measured)
    chosen = best_batch_size(timings, slowest, least, most, progress)
    return BatchChoice(chosen, scaled_learning_rate(learning_rate, batch_size, chosen), slowest, timings)


def _median_seconds(work: Callable[[], object]) -> float:
    work()
    runs = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        runs.append(time.perf_counter() - begin)
    return statistics.median(runs)
