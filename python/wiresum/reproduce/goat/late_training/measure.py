"""GOAT-Async, K-SGD and rounds of everyone by real training in virtual time (GOAT §VII-C, Figs. 11 and 12).

`wiresum bench async` runs the same over a network, with as many workers as a machine has room for. Here gradients are
computed for real, each on the model that its worker had, and clocks are counted: 4 to 16 workers, at the paper's times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.bench.result import Report, Result
from wiresum.plan.convergence import Convergence
from wiresum.planners.participation import Choice, choose_goat_async, choose_ksgd

PRINTED_ROUND_S = 2.0
"""A round of GOAT with 16 workers: 16 · 64 images at 512 images/s (Exp. 4)."""
PRINTED_WORKERS = 16
SEARCHES: dict[str, Callable[[Sequence[float], Convergence], Choice] | None] = {
    "sync": None, "ksgd": choose_ksgd, "goat_async": choose_goat_async,
}  # fmt: skip
NAMES = {"sync": "GOAT", "ksgd": "K-SGD", "goat_async": "GOAT-Async"}
"""As the paper calls them."""
DELAY_DRAWS = 4000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What to train.

    Attributes:
        workers: numbers of them.
        batch_size: images of a worker and gradient.
        learning_rate: of plain SGD.
        rounds: sums of each training.
        delay_s: what a delay of 1 is.
        deviation: σ of the delays, which are normal about 0.5 and cut off at 0 and 1.
        target: ε in units of σ² of the gradient.
        search_every: rounds between two choices of K.
        seeds: of first weights, batches and delays.
    """

    workers: Sequence[int] = (4, 8, 12, 16)
    batch_size: int = 64
    learning_rate: float = 0.1
    rounds: int = 200
    delay_s: float = 1.0
    deviation: float = 0.2
    target: float = 1.0
    search_every: int = 5
    seeds: int = 3

    @property
    def computing_s(self) -> float:
        """Seconds of a gradient and its round's communication: the paper's round less the mean longest delay."""
        drawn = delays(np.random.default_rng(0), (DELAY_DRAWS, PRINTED_WORKERS), self)
        return PRINTED_ROUND_S - float(drawn.max(axis=1).mean())


@dataclass(frozen=True)
class LateTrainingOutcome:
    """What one training has come to.

    Attributes:
        ends_s: of each round.
        accuracies: after it.
        ranks: workers in its sum.
    """

    ends_s: list[float]
    accuracies: list[float]
    ranks: list[int]


def measure(options: Options, progress: Progress = lambda line: None) -> Report:
    """Trains with every number of workers, by every method and seed.

    Raises:
        FileNotFoundError: scikit-learn, which has the images, is not installed.
    """
    from wiresum.reproduce.goat.late_training.training import train  # PyTorch, which a list of rows does without

    results = []
    for workers in options.workers:
        for method in SEARCHES:
            progress(f"{workers} workers, {NAMES[method]}")
            own = [train(method, workers, seed, options) for seed in range(1, options.seeds + 1)]
            results.append(to_result(method, workers, own, options))
    parameters = {
        "rounds": options.rounds, "batch_size": options.batch_size, "deviation": options.deviation,
        "seeds": options.seeds,
    }  # fmt: skip
    return Report("late-training", parameters, results)


def to_result(method: str, workers: int, outcomes: Sequence[LateTrainingOutcome], options: Options) -> Result:
    """Images in the sums, each second; the first seed's curve."""
    extra = {
        "method": method,
        "workers": workers,
        "seconds": statistics.median(one.ends_s[-1] for one in outcomes),
        "mean_ranks": statistics.median(statistics.fmean(one.ranks) for one in outcomes),
        "last_accuracy": statistics.median(one.accuracies[-1] for one in outcomes),
        "curves": [list(zip(one.ends_s, one.accuracies, strict=True)) for one in outcomes],
    }
    speeds = [sum(one.ranks) * options.batch_size / one.ends_s[-1] for one in outcomes]
    return Result(f"{NAMES[method]}, {workers} workers", "images/s", speeds, extra)


def of(report: Report, workers: int) -> dict[str, Result]:
    """Results by method."""
    return {one.extra["method"]: one for one in report.results if one.extra["workers"] == workers}


def delays(
    random: np.random.Generator, shape: tuple[int, ...], options: Options
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Seconds, normal about the middle and cut off: the paper leaves the mean open."""
    return options.delay_s * np.clip(random.normal(0.5, options.deviation, shape), 0.0, 1.0)
