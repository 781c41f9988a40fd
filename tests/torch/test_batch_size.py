"""Measured steps become one batch size and learning rate on all ranks, on a clock that only steps and sums move."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch.distributed as dist
from world import World

from wiresum.planners.ingo.batch_size import MIN_BATCH_SIZE
from wiresum.torch import batch_size as module
from wiresum.torch.batch_size import tune_batch_size

PER_SAMPLE_S = 5e-4
GRADIENT_BYTES = 4000
OLD_BATCH_SIZE, OLD_LEARNING_RATE = 64, 0.1


class Clock:
    """A clock that stands still but where something takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


def tune(fixed_seconds: float) -> Any:
    """Rank 1 takes twice as long for a sample, and a sum takes no time."""
    slowness, clock = 1 + (dist.get_rank() == 1), Clock()

    def step(size: int) -> None:
        clock.now += fixed_seconds + slowness * PER_SAMPLE_S * size

    with patch.object(module, "time", clock):
        chosen = tune_batch_size(step, GRADIENT_BYTES, OLD_LEARNING_RATE, OLD_BATCH_SIZE, sizes=(16, 64))
    return chosen.batch_size, chosen.learning_rate, [timing.seconds_per_sample for timing in chosen.timings]


def test_all_ranks_choose_alike_and_by_the_slowest() -> None:
    with World(2, backend="gloo") as world:
        (batch_size, learning_rate, per_sample), other = world.run(tune, 0.1)
    assert (batch_size, learning_rate, per_sample) == other
    assert per_sample == pytest.approx([PER_SAMPLE_S, 2 * PER_SAMPLE_S])
    # The most √B / (f + B s) is at B = f / s.
    assert batch_size == pytest.approx(0.1 / (2 * PER_SAMPLE_S), abs=1)
    assert learning_rate == pytest.approx(OLD_LEARNING_RATE * (batch_size / OLD_BATCH_SIZE) ** 0.5)


def test_with_nothing_to_wait_for_steps_are_as_small_as_may_be() -> None:
    with World(1, backend="gloo") as world:
        ((batch_size, _, _),) = world.run(tune, 0.0)
    assert batch_size == MIN_BATCH_SIZE
