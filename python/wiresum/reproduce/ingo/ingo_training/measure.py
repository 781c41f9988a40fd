"""InGo's trainings (§VI, Figs. 4, 5, 8 and 9): planned rates, its batch size rule, and what real batches teach.

A step takes c·b of computation and M/f of communication. M is Inception-V3's gradient, f what a planner leaves to the
slowest worker; c follows from the paper's times, as its GPUs are not here. Loss and accuracy are those of a small
network on real images, trained with each batch size and the learning rate for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from wiresum.bench.result import Report, Result
from wiresum.bench.routing import measure as routing
from wiresum.errors import SimulationError
from wiresum.plan.assignment import Instance
from wiresum.plan.job import Job
from wiresum.plan.models import MODELS, count
from wiresum.plan.options import PlanOptions
from wiresum.planners.comparison import sample_workers
from wiresum.planners.ingo.batch_size import BatchTiming, best_batch_size, scaled_learning_rate
from wiresum.topology.generators.ingo import ingo
from wiresum.training.learned import Learned, Training

MODEL_BITS = 32 * count(MODELS["inception-v3"]())
FIXED_BATCH_SIZE = 64
"""Images of a worker under InGo-64, GRID and ATP."""
LEARNING_RATE = 0.1
"""For that size; it grows with the square root of the size (`scaled_learning_rate`)."""
TARGET = 0.9
"""Accuracy on digits: high on the steep part, as the paper's 54 and 76 % are on CIFAR."""
PRINTED_S = (826.2, 908.7, 1120.4)
PRINTED_BPS = (3.74e9, 1.61e9, 1.39e9)
"""Rates of InGo-64, GRID and ATP on the testbed (§VI-B), the last two exchanged: elsewhere in the paper
ATP is the slowest."""

TESTBED, FAT_TREE = "testbed", "fat-tree"
Progress = Callable[[str], None]


class Scheme(NamedTuple):
    """A curve: who plans, and whether the batch size is tuned."""

    method: str
    is_tuned: bool


SCHEMES = {
    "InGo": Scheme("ingo", is_tuned=True),
    "R-InGo's roundings": Scheme("R-InGo's roundings", is_tuned=True),
    "InGo-64": Scheme("ingo", is_tuned=False),
    "GRID": Scheme("grid", is_tuned=False),
    "ATP": Scheme("atp, one level", is_tuned=False),
}


class Step(NamedTuple):
    """A step of a scheme: rate of every worker, images of a worker, and seconds."""

    rate_bps: float
    batch_size: int
    seconds: float


@dataclass(frozen=True)
class Options:
    """What to train.

    Attributes:
        workers: in the fat-tree.
        networks: with links at random and places of workers, of the fat-tree; their mean rate counts.
        seeds: of trainings, each of which is run with every batch size.
        rounds: of each training at most.
        time_limit_s: of each planner.
    """

    workers: int = 50
    networks: int = 2
    seeds: int = 3
    rounds: int = 450
    time_limit_s: float = 30.0


def printed_timing() -> BatchTiming:
    """The paper's c, with o = 0: a straight line through its times over its M/f. Steps are as many in each."""
    waiting = [MODEL_BITS / rate for rate in PRINTED_BPS]
    slope, intercept = np.polyfit(waiting, PRINTED_S, 1)
    return BatchTiming(float(intercept / slope) / FIXED_BATCH_SIZE, 0.0)


def measure(options: Options, progress: Progress = lambda line: None) -> Report:
    """Plans, chooses batch sizes and trains.

    Raises:
        FileNotFoundError: scikit-learn, which has the images, is not installed.
    """
    timing = printed_timing()
    results = []
    for network, instances in _networks(options):
        workers = len(instances[0].workers)
        for scheme, (method, is_tuned) in SCHEMES.items():
            progress(f"{network}: {scheme}")
            rate = rate_bps(method, instances, options)
            size = best_batch_size([timing], MODEL_BITS / rate) if is_tuned else FIXED_BATCH_SIZE
            step_s = timing.seconds(size) + MODEL_BITS / rate
            curves = [_train(workers, size, seed, options.rounds) for seed in range(1, options.seeds + 1)]
            results.append(to_result(network, scheme, Step(rate, size, step_s), curves))
    parameters = {
        "target": TARGET, "seconds_per_sample": timing.seconds_per_sample, "networks": options.networks,
        "seeds": options.seeds,
    }  # fmt: skip
    return Report("ingo-training", parameters, results)


def _networks(options: Options) -> Iterator[tuple[str, list[Instance]]]:
    yield TESTBED, [Instance.of(ingo("mesh"), Job())]
    made = [(seed, routing.paper_network(seed)) for seed in range(1, options.networks + 1)]
    yield FAT_TREE, [Instance.of(one, Job(workers=sample_workers(one, options.workers, seed))) for seed, one in made]


def rate_bps(method: str, instances: list[Instance], options: Options) -> float:
    """The mean over networks, and roundings where there are several."""
    return statistics.fmean(
        outcome.rate_bps
        for seed, instance in enumerate(instances)
        for outcome in routing.planned(method, instance, PlanOptions(seed=seed, time_limit_s=options.time_limit_s))
    )


@cache
def _train(workers: int, size: int, seed: int, rounds: int) -> Learned:
    from wiresum.training.learning import learn  # PyTorch, which a list of rows does without

    rate = scaled_learning_rate(LEARNING_RATE, FIXED_BATCH_SIZE, size)
    return learn(Training(workers, size, rate, rounds, seed))


def to_result(network: str, scheme: str, step: Step, curves: list[Learned]) -> Result:
    """Seconds to the target of each seed; the first seed's curves.

    Raises:
        SimulationError: a training ended before.
    """
    rounds = [number for learned in curves if (number := learned.rounds_to(TARGET)) is not None]
    if len(rounds) < len(curves):
        most = len(curves[0].accuracies)
        raise SimulationError(f"{network}, {scheme}: no accuracy of {TARGET} after {most} rounds; train longer")
    extra = {
        "network": network, "scheme": scheme, "rate_gbps": step.rate_bps / 1e9, "batch_size": step.batch_size,
        "step_s": step.seconds,
        "rounds": rounds, "accuracies": list(curves[0].accuracies), "losses": list(curves[0].losses),
    }  # fmt: skip
    seconds = [number * step.seconds for number in rounds]
    return Result(f"{network}, {scheme}", f"s to an accuracy of {TARGET}", seconds, extra)


def of(report: Report, network: str) -> dict[str, Result]:
    """A network's results by scheme."""
    return {one.extra["scheme"]: one for one in report.results if one.extra["network"] == network}
