"""GOAT-Async, K-SGD and rounds of everyone by real training in virtual time (GOAT §VII-C, Figs. 11 and 12).

`wiresum bench async` runs the same over a network, with as many workers as a machine has room for. Here gradients are
computed for real, each on the model that its worker had, and clocks are counted: 4 to 16 workers, at the paper's times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import torch
from torch import nn
from wiresum.bench.result import Report, Result
from wiresum.plan.convergence import Convergence
from wiresum.planners.participation import Choice, choose_goat_async, choose_ksgd
from wiresum.training import data
from wiresum.training.learning import network

PRINTED_ROUND_S = 2.0
"""A round of GOAT with 16 workers: 16 · 64 images at 512 images/s (Exp. 4)."""
PRINTED_WORKERS = 16
SEARCHES: dict[str, Callable[[Sequence[float], Convergence], Choice] | None] = {
    "sync": None, "ksgd": choose_ksgd, "goat_async": choose_goat_async,
}  # fmt: skip
NAMES = {"sync": "GOAT", "ksgd": "K-SGD", "goat_async": "GOAT-Async"}
"""As the paper calls them."""
WARM_UP_ROUNDS = 8
"""Rounds with gradients of everyone, which show their variance."""
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
        drawn = _delays(np.random.default_rng(0), (DELAY_DRAWS, PRINTED_WORKERS), self)
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


def train(method: str, workers: int, seed: int, options: Options) -> LateTrainingOutcome:
    """One training in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # Tensors are small.
    try:
        return _Training(method, workers, seed, options).run()
    finally:
        torch.set_num_threads(threads)


class _Training:
    """Workers with clocks; each has a model, by number, a moment at which it began and one at which it is ready."""

    def __init__(self, method: str, workers: int, seed: int, options: Options) -> None:
        self.method, self.workers, self.options = method, workers, options
        self.images = data.digits()
        torch.manual_seed(seed)
        self.model = network(self.images)
        self.random = np.random.default_rng(seed)
        self.models = {0: self._parameters()}
        self.held = [0] * workers
        self.base_s = options.computing_s
        self.began = np.zeros(workers)
        self.ready = self.base_s + _delays(self.random, (workers,), options)
        self.intervals: list[float | None] = [None] * workers
        self.k = workers
        self.convergence = self._warm_up()

    def run(self) -> LateTrainingOutcome:
        """All rounds."""
        outcome = LateTrainingOutcome([], [], [])
        for number in range(self.options.rounds):
            if number % self.options.search_every == 0:
                self._search()
            end = float(np.sort(self.ready)[self.k - 1])
            present = [worker for worker in range(self.workers) if self.ready[worker] <= end]
            self._step(self._mean_gradient(present))
            self._begin_again(present, end, number + 1)
            outcome.ends_s.append(end)
            outcome.accuracies.append(self._accuracy())
            outcome.ranks.append(len(present))
        return outcome

    def _warm_up(self) -> Convergence:
        drawn = [[self._gradient(1) for _ in range(self.workers)] for _ in range(WARM_UP_ROUNDS)]
        variance = statistics.fmean(float(torch.stack([g for g, _ in one]).var(0).sum()) for one in drawn)
        loss = statistics.fmean(loss for one in drawn for _, loss in one)
        return Convergence(loss_gap=loss, variance=variance, target=self.options.target * variance)

    def _search(self) -> None:
        """K for the next rounds, by the last interval of each worker, once all have one."""
        rule = SEARCHES[self.method]
        known = [one for one in self.intervals if one is not None]
        if rule is not None and len(known) == self.workers:
            self.k = rule(known, self.convergence).k

    def _begin_again(self, present: Sequence[int], end: float, model: int) -> None:
        """Who was in time has the new model. Who was not goes on, or under K-SGD begins anew as well."""
        for worker in present:
            self.intervals[worker] = float(self.ready[worker] - self.began[worker])
        for worker in range(self.workers) if self.method == "ksgd" else present:
            self.began[worker], self.held[worker] = end, model
            self.ready[worker] = end + self.base_s + _delays(self.random, (1,), self.options)[0]
        self.models[model] = self._parameters()
        self.models = {number: self.models[number] for number in {*self.held, model}}

    def _mean_gradient(self, present: Sequence[int]) -> torch.Tensor:
        """The mean over each worker's batch on the model that it holds; workers with the same model in one pass."""
        now, parts = self._parameters(), []
        for number, share in self._shares(present):
            self._load(self.models[number])
            parts.append(share / len(present) * self._gradient(share)[0])
        self._load(now)
        return torch.stack(parts).sum(0)

    def _shares(self, present: Sequence[int]) -> Iterator[tuple[int, int]]:
        held = [self.held[worker] for worker in present]
        return ((number, held.count(number)) for number in sorted(set(held)))

    def _gradient(self, workers: int) -> tuple[torch.Tensor, float]:
        """The mean gradient of so many workers' batches, flat, and the loss."""
        count = workers * self.options.batch_size
        drawn = torch.from_numpy(self.random.integers(len(self.images.train_labels), size=count))
        self.model.zero_grad()
        output = self.model(self.images.train_images[drawn])
        loss = nn.functional.cross_entropy(output, self.images.train_labels[drawn])
        torch.autograd.backward(loss)
        return torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None]), float(
            loss.detach()
        )

    def _step(self, gradient: torch.Tensor) -> None:
        self._load(self._parameters() - self.options.learning_rate * gradient)

    def _parameters(self) -> torch.Tensor:
        return nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def _load(self, parameters: torch.Tensor) -> None:
        nn.utils.vector_to_parameters(parameters, self.model.parameters())

    def _accuracy(self) -> float:
        with torch.no_grad():
            right = self.model(self.images.test_images).argmax(1) == self.images.test_labels
        return float(right.float().mean())


def _delays(
    random: np.random.Generator, shape: tuple[int, ...], options: Options
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Seconds, normal about the middle and cut off: the paper leaves the mean open."""
    return options.delay_s * np.clip(random.normal(0.5, options.deviation, shape), 0.0, 1.0)
