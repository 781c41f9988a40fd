"""One training whose workers are late: gradients are computed for real, and clocks are counted."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np

import torch
from torch import nn
from wiresum.plan.convergence import Convergence
from wiresum.reproduce.goat.late_training.measure import SEARCHES, LateTrainingOutcome, Options, delays
from wiresum.training import data
from wiresum.training.learning import network

WARM_UP_ROUNDS = 8
"""Rounds with gradients of everyone, which show their variance."""


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
        self.ready = self.base_s + delays(self.random, (workers,), options)
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
            self.ready[worker] = end + self.base_s + delays(self.random, (1,), self.options)[0]
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
