"""How many samples a worker should take before it communicates (InGo §III and §V-A, step 3).

A step of b samples takes c·b + o seconds of computation (Eq. 33) and M/f of communication (Eq. 34). InGo takes a step's
progress as proportional to √b, which its Corollary 2 does not prove: an empirical rule, for a learning rate that grows
with √b (`scaled_learning_rate`). Progress per second √b / (c·b + o + M/f) is then greatest at b* = (o + M/f) / c.

Example:
    >>> timing = fit([16, 64, 256], [0.026, 0.074, 0.266])
    >>> round(timing.seconds_per_sample, 6), round(timing.fixed_seconds, 6)
    (0.001, 0.01)
    >>> best_batch_size([timing], communication_seconds=0.09)
    100
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

MIN_BATCH_SIZE, MAX_BATCH_SIZE = 16, 256
"""InGo's b_min and b_max."""
FEWEST_SIZES = 2

Progress = Callable[[float], float]
"""What a step of b samples is worth, in any unit."""


@dataclass(frozen=True)
class BatchTiming:
    """How long a worker computes.

    Attributes:
        seconds_per_sample: c_w.
        fixed_seconds: o_w, for each step.
    """

    seconds_per_sample: float
    fixed_seconds: float

    def seconds(self, batch_size: float) -> float:
        """Seconds of a step's computation."""
        return self.seconds_per_sample * batch_size + self.fixed_seconds


def fit(batch_sizes: Sequence[int], seconds: Sequence[float]) -> BatchTiming:
    """Fits measured steps by least squares; neither part is below zero.

    Raises:
        ValueError: fewer than two different sizes, or not as many times.
    """
    if len(batch_sizes) != len(seconds) or len(set(batch_sizes)) < FEWEST_SIZES:
        raise ValueError(
            f"{len(seconds)} times of {len(set(batch_sizes))} different batch sizes show no slope; measure one time "
            "for each, and two sizes or more"
        )
    sizes, times = np.array(batch_sizes, dtype=np.float64), np.array(seconds)
    slope, intercept = np.polyfit(sizes, times, 1)
    if intercept < 0:  # The best line through the origin.
        slope, intercept = float(sizes @ times / (sizes @ sizes)), 0.0
    return BatchTiming(max(0.0, float(slope)), float(intercept)) if slope > 0 else BatchTiming(0.0, float(times.mean()))


def best_batch_size(
    timings: Sequence[BatchTiming],
    communication_seconds: float,
    least: int = MIN_BATCH_SIZE,
    most: int = MAX_BATCH_SIZE,
    progress: Progress = math.sqrt,
) -> int:
    """The batch size, the same for all workers, with the most progress per second of a synchronous step.

    The slowest worker sets the pace (Eq. 31): the step takes max_w (c_w·b + o_w) + M/f. Every size is tried, as there
    are few; with equal workers and √b it is the closed form, rounded to the better neighbour and clamped.

    Args:
        timings: of each worker, or each kind of worker.
        communication_seconds: M/f, from the gradient until the sum is back.
        least: smallest size allowed.
        most: largest.
        progress: of a step; `math.sqrt` is InGo's, `noise_scale` another.

    Raises:
        ValueError: no worker, or no size is allowed.
    """
    if not timings or not 1 <= least <= most:
        raise ValueError(f"{len(timings)} workers and sizes from {least} to {most}; there must be one of each or more")

    def per_second(size: int) -> float:
        return progress(size) / (max(timing.seconds(size) for timing in timings) + communication_seconds)

    return max(range(least, most + 1), key=per_second)


def noise_scale(samples: float) -> Progress:
    """Progress by the gradient noise scale (McCandlish et al., 2018): 1 / (1 + B_noise / b), which saturates.

    Args:
        samples: B_noise, over all workers if the batch is.

    Example:
        >>> round(noise_scale(100)(300), 2)
        0.75
    """
    return lambda batch_size: 1 / (1 + samples / batch_size)


def scaled_learning_rate(learning_rate: float, batch_size: int, new_batch_size: int) -> float:
    """The learning rate for another batch size: it grows with the square root, as does a step's progress.

    Example:
        >>> scaled_learning_rate(0.1, 64, 256)
        0.2
    """
    return learning_rate * math.sqrt(new_batch_size / batch_size)
