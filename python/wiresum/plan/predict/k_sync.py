"""K-SGD (K-sync SGD): a round ends with the K fastest of N workers (Dutta et al., AISTATS 2018).

What the others computed is dropped, so links and sums are those of any plan, and only the wait is shorter.
"""

from __future__ import annotations

import numpy as np

from wiresum.plan.fabric import Floats


def expected_exponential_seconds(workers: int, awaited: int, shift_s: float, mean_s: float) -> float:
    """E[T_(K:N)] for times of `shift_s` plus an exponential part: Δ + (H_N − H_{N−K})/μ.

    Args:
        workers: N.
        awaited: K.
        shift_s: Δ, that every worker takes at least.
        mean_s: 1/μ, of the exponential part.

    Raises:
        ValueError: K is not 1 to N.

    Example:
        >>> [round(expected_exponential_seconds(16, awaited, 0.0, 1.0), 2) for awaited in (16, 12, 8)]
        [3.38, 1.3, 0.66]
    """
    _check(workers, awaited)
    return shift_s + mean_s * float((1 / np.arange(workers - awaited + 1, workers + 1)).sum())


def expected_seconds(rounds: Floats, awaited: int) -> float:
    """The same from measured or drawn times.

    Args:
        rounds: (rounds, workers) seconds of each worker.
        awaited: K.

    Raises:
        ValueError: K is not 1 to the number of workers.
    """
    _check(rounds.shape[1], awaited)
    return float(np.sort(rounds, axis=1)[:, awaited - 1].mean())


def _check(workers: int, awaited: int) -> None:
    if not 1 <= awaited <= workers:
        raise ValueError(f"a round awaits 1 to {workers} workers, not {awaited}")
