"""The number of workers that a round waits for: GOAT's Alg. 2 with its update corrected, and K-SGD's.

Both minimise the time of the training, ψ(K) rounds times the mean time of one. They differ in what becomes of a worker
that misses a round: under GOAT-Async it goes on with its gradient, which counts in a later round; under K-SGD it begins
anew.

What is meant by what the paper's Alg. 2 prints: the round's time is the K-th smallest of the *estimated* intervals p′,
not of the measured ones; those that have not arrived have p′ > h, and p′ − h left; all others begin anew with p′ = p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.errors import PlanError
from wiresum.plan.convergence import Convergence
from wiresum.topology.graph import Floats


@dataclass(frozen=True)
class Choice:
    """A number of workers, and why.

    Attributes:
        k: workers that a round waits for.
        round_seconds: by K from 1 on, the mean time of a round.
        rounds: by K, ψ(K); infinite where K gradients a round never reach the target.
    """

    k: int
    round_seconds: tuple[float, ...]
    rounds: tuple[float, ...]

    @property
    def total_seconds(self) -> tuple[float, ...]:
        """By K from 1 on, the time of the training."""
        return tuple(seconds * rounds for seconds, rounds in zip(self.round_seconds, self.rounds, strict=True))

    def __str__(self) -> str:
        """For people."""
        total = self.total_seconds[self.k - 1]
        mean = self.round_seconds[self.k - 1]
        return f"{self.k} of {len(self.rounds)} workers a round: {total:.4g} s = {total / mean:.4g} × {mean:.4g} s"


def round_seconds(intervals: Sequence[float] | Floats, k: int, rounds: int | None = None) -> float:
    """Mean time of a round that ends with the K-th gradient, late workers going on with theirs (Alg. 2, lines 3 to 13).

    O(rounds · n log n).

    Args:
        intervals: (workers,) p, seconds from when a worker gets the model until its gradient is here.
        k: K, 1 to the number of workers.
        rounds: M, simulated; as many as workers where absent, as in the paper.

    Example: of 1, 1 and 3 s, the rounds of K = 2 take 1 s each, and the third worker is in every third of them.

        >>> round_seconds([1.0, 1.0, 3.0], k=2)
        1.0
    """
    measured = np.asarray(intervals, dtype=np.float64)
    if not 1 <= k <= len(measured):
        raise ValueError(f"a round takes 1 to {len(measured)} workers, not {k}")
    left, total = measured.copy(), 0.0
    count = len(measured) if rounds is None else rounds
    for _ in range(count):
        h = np.sort(left)[k - 1]
        left = np.where(left > h, left - h, measured)
        total += float(h)
    return total / count


def choose_goat_async(
    intervals: Sequence[float] | Floats, convergence: Convergence, rounds: int | None = None
) -> Choice:
    """GOAT's Alg. 2, corrected.

    Args:
        intervals: (workers,) seconds from when a worker gets the model until its gradient is here.
        convergence: of the training.
        rounds: M, simulated for each K; as many as workers where absent.

    Raises:
        PlanError: no number of workers reaches the target.
    """
    return _choose(len(intervals), convergence, lambda k: round_seconds(intervals, k, rounds))


def choose_ksgd(intervals: Sequence[float] | Floats, convergence: Convergence) -> Choice:
    """The same for K-SGD, which discards late gradients and lets their workers begin anew (Dutta et al., AISTATS 2018).

    Raises:
        PlanError: no number of workers reaches the target.
    """
    ordered = np.sort(np.asarray(intervals, dtype=np.float64))
    return _choose(len(ordered), convergence, lambda k: float(ordered[k - 1]))


def _choose(workers: int, convergence: Convergence, seconds_of: Callable[[int], float]) -> Choice:
    """The K with the least time; of several, the largest, which has the least variance."""
    if not workers or not convergence.admits(workers):
        least = convergence.variance / convergence.target
        raise PlanError(
            f"{workers} gradients a round do not reach a mean square of {convergence.target:g}: it takes more than "
            f"{least:.4g} (σ²/ε); choose a larger target, larger batches, or more workers"
        )
    seconds = tuple(seconds_of(k) for k in range(1, workers + 1))
    rounds = tuple(convergence.rounds(k, workers) for k in range(1, workers + 1))
    totals = [math.inf if math.isinf(n) else s * n for s, n in zip(seconds, rounds, strict=True)]
    best = max(range(workers), key=lambda index: (-totals[index], index))
    return Choice(best + 1, seconds, rounds)
