"""Measured steps become one batch size and learning rate on all ranks."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch.distributed as dist
from world import World

from wiresum.torch.batch_size import tune_batch_size

PER_SAMPLE_S = 5e-4
GRADIENT_BYTES = 4000
OLD_BATCH_SIZE, OLD_LEARNING_RATE = 64, 0.1


def tune(fixed_seconds: float) -> Any:
    """Rank 1 takes twice as long for a sample."""
    slowness = 1 + (dist.get_rank() == 1)

    def step(size: int) -> None:
        time.sleep(fixed_seconds + slowness * PER_SAMPLE_S * size)

    chosen = tune_batch_size(step, GRADIENT_BYTES, OLD_LEARNING_RATE, OLD_BATCH_SIZE, sizes=(16, 64))
    return chosen.batch_size, chosen.learning_rate, [timing.seconds_per_sample for timing in chosen.timings]


def test_all_ranks_choose_alike_and_by_the_slowest() -> None:
    with World(2, backend="gloo") as world:
        (batch_size, learning_rate, per_sample), other = world.run(tune, 0.1)
    assert (batch_size, learning_rate, per_sample) == other
    assert per_sample[1] > per_sample[0] >= PER_SAMPLE_S / 2
    assert 16 <= batch_size <= 256
    assert learning_rate == pytest.approx(OLD_LEARNING_RATE * (batch_size / OLD_BATCH_SIZE) ** 0.5)


def test_with_nothing_to_wait_for_steps_are_small() -> None:
    with World(1, backend="gloo") as world:
        ((batch_size, _, _),) = world.run(tune, 0.0)
    assert batch_size < 64
