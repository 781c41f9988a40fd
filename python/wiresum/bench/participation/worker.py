"""One rank of a training whose ranks are late at random, by one of three methods (GOAT §VII-C, Exp. 4 and 5).

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch.distributed as dist
from torch._C._distributed_c10d import Store

import torch
from torch import nn
from wiresum.bench.participation.task import Task, TrainingOutcome
from wiresum.plan.convergence import Convergence
from wiresum.planners.participation import Choice, choose_goat_async, choose_ksgd
from wiresum.torch import Reason, explain, report
from wiresum.torch.gradient_variance import GradientVariance
from wiresum.torch.participation import await_children, rounds_ahead
from wiresum.training import data
from wiresum.training.learning import network

CANCEL_CHECK_S = 0.005
"""How often K-SGD looks whether its round is over."""
SNAPSHOT_EVERY = 5
"""Rounds between two models that are tested after training."""
WARM_UP_ROUNDS = 8
"""Rounds of everyone, without delays, that measure the gradient's variance and fill caches."""


def main() -> None:
    """Trains and, at rank 0, writes what came out."""
    task = Task.told()
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    dist.init_process_group("wiresum")
    outcome = Training(task).run()
    if dist.get_rank() == 0:
        Path(task.output).write_text(json.dumps(asdict(outcome)))
    dist.destroy_process_group()


class Training:
    """A small network on handwritten digits, its gradient one flat tensor."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.images = data.load(None)
        self.model = network(self.images)
        self.random = np.random.default_rng([task.seed, self.rank])
        self.round = 0
        self.snapshots: list[tuple[float, list[torch.Tensor]]] = []
        self.counts: list[tuple[int, int]] = []
        self.began = 0.0
        self.first_loss = 0.0
        self.variance = 0.0

    def run(self) -> TrainingOutcome:
        """All rounds."""
        self.wait_for_all()
        self.warm_up()
        dist.barrier()  # an exchange with the network as well
        before = _ranks_summed()
        self.began = time.perf_counter()
        methods: dict[str, Callable[[], None]] = {
            "sync": self.contribute_once,
            "ksgd": self.contribute_or_discard,
            "goat_async": self.contribute_until_counted,
        }
        while self.round < self.task.rounds:
            methods[self.task.method]()
        seconds = time.perf_counter() - self.began
        ranks = _ranks_summed() - before
        is_same = self.is_same_everywhere()
        return TrainingOutcome(
            seconds, ranks * self.task.batch_size, self.accuracies(), self.variance, self.counts,
            ranks / self.task.rounds, is_same,
        )  # fmt: skip

    def wait_for_all(self) -> None:
        """Until further notice every round takes every rank."""
        await_children(self.ranks)
        report()  # comes back when the engine has heard it
        dist.barrier()

    def warm_up(self) -> None:
        """Measures what is known of the training; the model stays as it is."""
        measured = GradientVariance()
        for _ in range(WARM_UP_ROUNDS):
            gradient, self.first_loss = self.compute()
            measured.note_own(gradient)
            dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
            measured.note_mean(gradient)
        self.variance = measured.estimate()

    def compute(self) -> tuple[torch.Tensor, float]:
        """A gradient of the model as it is, and its loss."""
        chosen = torch.from_numpy(self.random.integers(len(self.images.train_labels), size=self.task.batch_size))
        self.model.zero_grad()
        images, labels = self.images.train_images[chosen], self.images.train_labels[chosen]
        loss = nn.functional.cross_entropy(self.model(images), labels)
        torch.autograd.backward(loss)
        gradients = [parameter.grad.flatten() for parameter in self.model.parameters() if parameter.grad is not None]
        return torch.cat(gradients), float(loss.detach())

    def compute_late(self) -> tuple[torch.Tensor, float]:
        """A gradient, and when this rank may send it: late by a normal delay about 0.5, cut off (GOAT §VII-C)."""
        began = time.perf_counter()
        gradient, _ = self.compute()
        delay = self.task.delay_s * float(np.clip(self.random.normal(0.5, self.task.deviation), 0.0, 1.0))
        ready = time.perf_counter() + delay
        _store().set(f"interval/{self.rank}", str(ready - began))
        return gradient, ready

    def contribute_once(self) -> None:
        """Everyone waits for everyone."""
        gradient, ready = self.compute_late()
        _sleep_until(ready)
        self.sum(gradient)

    def contribute_or_discard(self) -> None:
        """K-SGD: who is late gives up what it computes, takes what it missed, and begins anew."""
        self.search(choose_ksgd)
        gradient, ready = self.compute_late()
        while (left := ready - time.perf_counter()) > 0:
            if rounds_ahead():
                self.take_missed(gradient)
                return
            time.sleep(min(left, CANCEL_CHECK_S))
        self.sum(gradient)

    def take_missed(self, gradient: torch.Tensor) -> None:
        """The sums of all rounds that are over or under way; what is passed does not count."""
        for _ in range(min(rounds_ahead(), self.task.rounds - self.round)):
            self.sum(gradient.clone())

    def contribute_until_counted(self) -> None:
        """GOAT-Async: who is late takes what it missed and contributes to the first round that it is in time for."""
        self.search(choose_goat_async)
        gradient, ready = self.compute_late()
        _sleep_until(ready)
        while self.round < self.task.rounds and not self.sum(gradient.clone()):
            pass

    def sum(self, gradient: torch.Tensor) -> bool:
        """One round, and the step that follows. Whether this rank was in it."""
        work = dist.all_reduce(gradient, op=dist.ReduceOp.AVG, async_op=True)
        assert work is not None
        work.wait()
        self.step(gradient)
        return explain(work) is not Reason.MISSED

    def step(self, gradient: torch.Tensor) -> None:
        """Plain SGD, the same on every rank for the same gradient."""
        with torch.no_grad():
            parameters = list(self.model.parameters())
            for parameter, part in zip(parameters, torch.split(gradient, [p.numel() for p in parameters]), strict=True):
                parameter.sub_(part.view_as(parameter), alpha=self.task.learning_rate)
        if self.rank == 0 and self.round % SNAPSHOT_EVERY == 0:
            now = time.perf_counter() - self.began
            self.snapshots.append((now, [p.detach().clone() for p in parameters]))
        self.round += 1

    def search(self, rule: Callable[[list[float], Convergence], Choice]) -> None:
        """Chooses K now and then, by every rank's last interval. Ranks need not agree, nor do it at the same time."""
        if self.round < (self.counts[-1][0] + self.task.search_every if self.counts else 0):
            return
        keys = [f"interval/{rank}" for rank in range(self.ranks)]
        k = self.ranks
        if _store().check(keys):
            intervals = [float(one) for one in _store().multi_get(keys)]
            convergence = Convergence(
                loss_gap=self.first_loss, variance=self.variance, target=self.task.target * self.variance
            )
            k = rule(intervals, convergence).k
        await_children(k)
        self.counts.append((self.round, k))

    def accuracies(self) -> list[tuple[float, float]]:
        """Accuracies of the models kept on the way."""
        return [(seconds, self.accuracy(parameters)) for seconds, parameters in self.snapshots]

    def accuracy(self, parameters: list[torch.Tensor]) -> float:
        """Share of the test images that are recognised."""
        with torch.no_grad():
            for own, kept in zip(self.model.parameters(), parameters, strict=True):
                own.copy_(kept)
            right = self.model(self.images.test_images).argmax(1) == self.images.test_labels
        return float(right.float().mean())

    def is_same_everywhere(self) -> bool:
        """Compares the models of all ranks, bit by bit."""
        own = torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()]).view(torch.int32)
        lowest, highest = own.clone(), own.clone()
        dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
        dist.all_reduce(highest, op=dist.ReduceOp.MAX)
        return bool((lowest == highest).all())


def _ranks_summed() -> int:
    """Ranks in the sums so far, over all of these."""
    return int(report().groups[0].engine["ranks_summed"])


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))


def _store() -> Store:
    return dist.distributed_c10d._get_default_store()


if __name__ == "__main__":
    main()
