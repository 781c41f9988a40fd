"""`wiresum bench async`: GOAT-Async, K-SGD and rounds of everyone, with workers that are late (GOAT, Exp. 4, 5)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from wiresum.bench.participation.command import Options
from wiresum.bench.participation.task import Task, TrainingOutcome
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.participation import with_rounds
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

METHODS = {
    "sync": "every round waits for everyone",
    "ksgd": "K-SGD: late gradients are discarded, and their workers begin anew",
    "goat_async": "GOAT-Async: late gradients count in the first round that they are in time for",
}
DIFFERENT = "MODELS DIFFER"
MOST_MISSED = 64
"""Rounds in a row without the same worker: beyond what these delays bring about."""


def measure(options: Options, progress: Callable[[str], None] = lambda _method: None) -> Report:
    """Trains by each method, one after the other, on the same links; then again with the next seed.

    Raises:
        PlanError: a method that does not exist.
        TestbedError: the links cannot be made, or a worker failed.
    """
    unknown = next((name for name in options.methods if name not in METHODS), None)
    if unknown:
        raise PlanError(f"there is no method {unknown}; choose from {', '.join(METHODS)}")
    outcomes: dict[str, list[TrainingOutcome]] = {name: [] for name in options.methods or tuple(METHODS)}
    for seed in range(1, options.seeds + 1):
        for name, own in outcomes.items():
            progress(f"seed {seed} of {options.seeds}, {METHODS[name]}")
            own.append(train(name, options, seed))
    results = [to_result(name, own) for name, own in outcomes.items()]
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        "rounds": options.rounds,
        "batch_size": options.batch_size,
        "learning_rate": options.learning_rate,
        "delay_s": options.delay_s,
        "deviation": options.deviation,
        "target": options.target,
        "search_every": options.search_every,
        "engine": options.engine,
        "seeds": options.seeds,
    }
    return Report("async", parameters, results, ratios(results), notes=notes(outcomes))


def planned(name: str, options: Options) -> AggregationPlan:
    """A star; but for `sync`, with rounds that may go on without late workers."""
    made = plan(star(options.workers, options.rate_bps), Job(), PlanOptions(engine=options.engine))
    return made if name == "sync" else with_rounds(made, options.workers, most_missed=MOST_MISSED)


def train(name: str, options: Options, seed: int) -> TrainingOutcome:
    """One training in a testbed of its own."""
    made = planned(name, options)
    with Testbed(star(options.workers, options.rate_bps), made) as bed:
        task = Task(
            name, options.rounds, options.batch_size, options.learning_rate, options.delay_s, options.deviation,
            options.target, options.search_every, str(bed.folder / "training.json"), seed,
        )  # fmt: skip
        return TrainingOutcome(**view(bed, task, "the training"))


def to_result(name: str, outcomes: Sequence[TrainingOutcome]) -> Result:
    """Images in the sums, each second, of every seed; medians over seeds, and the curve of each."""
    counts = [count for one in outcomes if (count := mean_k(one)) is not None]
    extra = {
        "seconds": statistics.median(one.seconds for one in outcomes),
        "seconds_of_seeds": [one.seconds for one in outcomes],
        "ranks_per_sum": statistics.median(one.ranks_per_sum for one in outcomes),
        "mean_k": statistics.median(counts) if counts else None,
        "last_accuracy": statistics.median(one.curve[-1][1] for one in outcomes),
        "last_accuracies": [one.curve[-1][1] for one in outcomes],
        "curves": [one.curve for one in outcomes],
        "counts": outcomes[0].counts,
        "gradient_variance": statistics.median(one.variance for one in outcomes),
    }
    return Result(name, "images/s", [one.samples / one.seconds for one in outcomes], extra)


def mean_k(outcome: TrainingOutcome) -> float | None:
    """Mean of the choices of K; None where there is none."""
    return sum(k for _, k in outcome.counts) / len(outcome.counts) if outcome.counts else None


def ratios(results: list[Result]) -> list[Ratio]:
    """Ratios of speed and of the time for all rounds, each against those that come before."""
    pairs = [(later, earlier) for index, later in enumerate(results) for earlier in results[:index]]
    return [Ratio(f"{a.name} / {b.name}, images/s", a.median / b.median) for a, b in pairs] + [
        Ratio(f"{b.name} / {a.name}, time", b.extra["seconds"] / a.extra["seconds"]) for a, b in pairs
    ]


def notes(outcomes: Mapping[str, Sequence[TrainingOutcome]]) -> list[str]:
    """How to read the figures."""
    lines = [f"{name}: {METHODS[name]}" for name in outcomes]
    for name, own in outcomes.items():
        same = "the same model on all ranks, bit for bit" if all(one.is_same_everywhere for one in own) else DIFFERENT
        seconds = _with_range([one.seconds for one in own], ".1f")
        ranks = _with_range([one.ranks_per_sum for one in own], ".2f")
        accuracy = _with_range([one.curve[-1][1] for one in own], ".3f")
        lines.append(f"{name}: {seconds} s, {ranks} ranks in the mean sum, accuracy {accuracy} at the end; {same}")
    return lines


def _with_range(values: Sequence[float], digits: str) -> str:
    """The median, and the least and the most where there are several."""
    spread = f" ({min(values):{digits}} to {max(values):{digits}})" if len(values) > 1 else ""
    return f"{statistics.median(values):{digits}}{spread}"


def accuracy_at(curves: Sequence[Sequence[tuple[float, float]]], seconds: float) -> float:
    """The last accuracy known at a moment, the median over seeds; 0 before the first."""
    return statistics.median(_known_at(curve, seconds) for curve in curves)


def _known_at(curve: Sequence[tuple[float, float]], seconds: float) -> float:
    return next((accuracy for moment, accuracy in reversed(curve) if moment <= seconds), 0.0)
