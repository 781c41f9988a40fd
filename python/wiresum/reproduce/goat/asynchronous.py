"""§VII-B, Exp. 4 and 5: rounds that do not wait for everyone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from wiresum.bench.participation import measure as participation
from wiresum.bench.participation.command import Options
from wiresum.bench.participation.plot import draw
from wiresum.bench.result import Report, Result
from wiresum.reproduce.goat import printed
from wiresum.reproduce.goat.late_training import measure as late_training
from wiresum.reproduce.goat.late_training import plot as late_training_plot
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, percent, times

WORKERS = 16
BATCH_SIZE = 64
DEVIATION = 0.2
"""§VII-C."""
SIMULATED_ROUNDS = 4000
SEED = 1


def _delays(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(count, workers) seconds, normal about the middle and cut off at 0 and 1: the paper leaves the mean open."""
    random = np.random.default_rng(SEED)
    return np.clip(random.normal(0.5, DEVIATION, (count, WORKERS)), 0.0, 1.0)


@cache
def ksgd_rounds(base_s: float) -> tuple[float, ...]:
    """By K, mean seconds of a round whose late workers begin anew; every gradient takes `base_s` and a delay."""
    return tuple(base_s + np.sort(_delays(SIMULATED_ROUNDS), axis=1).mean(axis=0))


@cache
def async_rounds(base_s: float) -> tuple[float, ...]:
    """The same where late workers go on: Alg. 2's rounds with a new delay for each gradient."""
    return tuple(_carried(base_s, k) for k in range(1, WORKERS + 1))


def _carried(base_s: float, k: int) -> float:
    fresh = base_s + _delays(SIMULATED_ROUNDS + 1)
    left, total = fresh[0], 0.0
    for following in fresh[1:]:
        h = np.sort(left)[k - 1]
        left = np.where(left > h, left - h, following)
        total += float(h)
    return total / SIMULATED_ROUNDS


def _waiting_for(rounds: dict[str, float]) -> str:
    """Which K would give the rounds' times, when those of GOAT set the base."""
    base = rounds["GOAT"] - ksgd_rounds(0.0)[-1]
    found = {"K-SGD": ksgd_rounds(base), "GOAT-Async": async_rounds(base)}
    nearest = {name: 1 + int(np.argmin([abs(one - rounds[name]) for one in all_k])) for name, all_k in found.items()}
    return listed({name: f"about {k} of {WORKERS}" for name, k in nearest.items()})


def _rounds_of_speed() -> dict[str, float]:
    """Seconds of a round, if every worker's batch counts in every round."""
    return {name: WORKERS * BATCH_SIZE / speed for name, speed in printed.ASYNC_IMAGES_PER_S.items()}


def _throughput() -> str:
    ours = printed.ASYNC_IMAGES_PER_S["GOAT-Async"]
    gains = {name: f"+{percent(ours / printed.ASYNC_IMAGES_PER_S[name] - 1)}" for name in ("GOAT", "K-SGD")}
    rounds = listed({name: f"{seconds:.2f} s" for name, seconds in _rounds_of_speed().items()})
    return f"GOAT-Async against {listed(gains)}; with 16 × 64 images a round, whoever is late: {rounds}"


def _training() -> str:
    ours = printed.TRAINING_S["GOAT-Async"]
    true = listed({name: times(printed.TRAINING_S[name] / ours) for name in ("GOAT", "K-SGD")})
    between = times(printed.TRAINING_S["GOAT"] / printed.TRAINING_S["K-SGD"])
    return f"GOAT-Async against {true}; {between} is GOAT over K-SGD: the labels are exchanged"


def _computed_speed() -> str:
    return f"rounds as long as these wait for: {_waiting_for(_rounds_of_speed())}"


def _computed_training() -> str:
    epochs = {name: seconds / printed.ASYNC_EPOCHS for name, seconds in printed.TRAINING_S.items()}
    return f"{epochs['GOAT-Async']:.2f} s is less than any gradient takes, so rounds wait for: {_waiting_for(epochs)}"


def _gains(quantity: str) -> Callable[[Reports], str]:
    """What the benchmark measured of GOAT-Async against its rivals."""

    def measured(reports: Reports) -> str:
        ratios = {ratio.name: ratio.value for ratio in reports.report("async").ratios}
        shown = {rival: times(ratios[f"goat_async / {rival}, {quantity}"]) for rival in ("sync", "ksgd")}
        return f"live: goat_async against {listed(shown)}"

    return measured


def _accuracies(reports: Reports) -> str:
    """At the moment at which GOAT-Async's training is over."""
    results = {result.name: result.extra for result in reports.report("async").results}
    end = results["goat_async"]["seconds"]
    at_end = {name: f"{participation.accuracy_at(extra['curves'], end):.3f}" for name, extra in results.items()}
    last = {name: f"{extra['last_accuracy']:.3f}" for name, extra in results.items()}
    return f"live, at {end:.1f} s: {listed(at_end)}; after all rounds: {listed(last)}"


def _trained(reports: Reports, said: Callable[[dict[str, Result]], str]) -> str:
    """What the trainings in virtual time with the most workers say."""
    report = reports.report("late")
    workers = max(one.extra["workers"] for one in report.results)
    return f"real training in virtual time, {workers} workers: {said(late_training.of(report, workers))}"


def _speeds(found: dict[str, Result]) -> str:
    return f"{_named(found, lambda one: f'{one.median:.0f}')} images/s"


def _durations(found: dict[str, Result]) -> str:
    """How long all rounds took, and how many gradients these summed."""
    shown = _named(found, lambda one: f"{one.extra['seconds']:.0f} s ({one.extra['mean_ranks']:.1f} gradients a round)")
    return f"200 rounds: {shown}"


def _learned(found: dict[str, Result]) -> str:
    """Medians over seeds, at the moment at which GOAT-Async's training is over, and at the end."""
    end = found["goat_async"].extra["seconds"]
    then = _named(found, lambda one: f"{participation.accuracy_at(one.extra['curves'], end):.3f}")
    last = _named(found, lambda one: f"{one.extra['last_accuracy']:.3f}")
    return f"at {end:.0f} s {then}; after 200 rounds {last}"


def _named(found: dict[str, Result], shown: Callable[[Result], str]) -> str:
    return listed({late_training.NAMES[method]: shown(one) for method, one in found.items()})


def _both(said: Callable[[dict[str, Result]], str], live: Callable[[Reports], str]) -> Callable[[Reports], str]:
    return lambda reports: f"{_trained(reports, said)}; {live(reports)}"


def _late(quick: bool, progress: Callable[[str], None]) -> Report:
    full = late_training.Options()
    return late_training.measure(replace(full, workers=(4, 16), seeds=1) if quick else full, progress)


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    return participation.measure(Options(rounds=30, delay_s=0.1) if quick else Options(), progress)


VIRTUAL = "real training on digits in virtual time, with GOAT's computing and delays"
BENCHMARKS = {
    "async": Benchmark("wiresum bench async", 120, 40, _measure, "8 workers, 100 Mbit/s links, digits"),
    "late": Benchmark("wiresum reproduce goat --rows G4", 20, 10, _late, VIRTUAL),
}
NEEDS = ("late", "async")
FIGURES = (
    Figure("Fig. 11", "fig-11-images.png", "late", late_training_plot.draw_speed),
    Figure("Fig. 12", "fig-12-accuracy.png", "late", late_training_plot.draw_accuracy),
    Figure("Figs. 11, 12", "async.png", "async", lambda report, path: draw(report, Path(path))),
)

ROWS = (
    Row(
        "G4", "images/s with 16 workers: GOAT, K-SGD, GOAT-Async", "AL", "§VII-B, Exp. 4",
        "512, 668, 766; 49.7 and 14.7 % more", recomputed=_throughput, computed=_computed_speed,
        measured=_both(_speeds, _gains("images/s")), needs=NEEDS,
    ),
    Row(
        "G5a", "200 epochs: GOAT-Async, K-SGD, GOAT", "AL", "§VII-B, Exp. 5",
        "207.7, 324, 420.4 s; 2.02 and 1.29 × faster than K-SGD and GOAT", recomputed=_training,
        computed=_computed_training, measured=_both(_durations, _gains("time")), needs=NEEDS,
    ),
    Row(
        "G5b", "accuracy at 200 s, and at the end", "L", "§VII-B, Exp. 5",
        "0.7252 against 0.6856 (5.78 % more); at the end GOAT about 5 % better",
        recomputed=lambda: f"+{percent(0.7252 / 0.6856 - 1, 2)}", measured=_both(_learned, _accuracies), needs=NEEDS,
    ),
)  # fmt: skip
