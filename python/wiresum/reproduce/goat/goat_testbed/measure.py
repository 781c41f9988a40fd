"""GOAT's testbed (§VII-B, Exp. 1 to 3) by simulation: rounds of each method with 4 to 16 workers, model by model.

What the paper's servers do is not to be had, so two rates stand for them, both from its own figures: how fast a worker
sends and how fast the parameter server receives. What switches and protocols make of it is simulated.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from wiresum.bench.methods import METHODS, Progress, simulated
from wiresum.bench.result import Report, Result
from wiresum.plan.models import MODELS, count
from wiresum.planners import SWITCH_POLICIES
from wiresum.registry import spelled
from wiresum.sim.outcome import SimulationOutcome
from wiresum.sim.sweep import Point
from wiresum.topology.generators.goat import SWITCHES, goat
from wiresum.topology.model import Topology
from wiresum.training.learned import Learned, Training

NAMES = {"goat": "GOAT", "esa": "ESA", "atp": "ATP", "atp_static": "its model of ATP", "ps": "Geryon"}
"""Methods of `bench.methods`, as the paper calls them."""
GIGA_MULTIPLY_ADDS = {
    "resnet18": 1.81, "resnet34": 3.66, "resnet50": 4.09, "densenet121": 2.83, "densenet169": 3.36, "densenet201": 4.29,
}  # fmt: skip
"""GFLOP of a forward pass of 224 × 224 pixels, as torchvision has them: computing time is in proportion."""
BATCH_SIZE = 128
"""Images of a worker and round: the paper's images/s times seconds are 2048 with 16 workers, not 16 × 64."""
WORKER_BPS = 0.98e9
"""What GOAT's 44 MB in 0.36 s are (Exp. 2); the links' 100 Gbit/s are not the limit."""
SERVER_BPS = 2.89e9
"""What Geryon's 704 MB in 1.95 s are."""
SWITCH_BPS = 100e9
SPREAD_S = 1.83
"""From the first of 16 workers to the last (Exp. 3)."""
SLOWEST_S = 1.84
"""Until the last of 16 has computed: GOAT's 2.2 s less 0.36 s (Exp. 2)."""
SPREAD_IN_DEVIATIONS = 3.532
"""Mean range of 16 normal values, in standard deviations (Tippett, 1925); the largest is half of it above the mean."""
DEVIATION_S = SPREAD_S / SPREAD_IN_DEVIATIONS
COMPUTING_S = SLOWEST_S - SPREAD_S / 2
"""Mean of a worker, for ResNet-18."""
MEMORY_BYTES = 20_000_000
"""Slot memory of each switch."""
ENOUGH_BYTES = 5 * MEMORY_BYTES // len(SWITCHES)
"""Instead, for models that three switches do not hold: the five that ResNet-50 is said to need, as three."""
LATE_SHARE = 0.2
"""Share of the workers that the paper's model of ATP sums nowhere: σ, as in its public simulation."""
SCALE = 10
"""Gradients and rates are those of the testbed over this, and memory with them, so that times are the testbed's."""
WINDOW, TRAIN = 64, 16
TIMEOUT_S = 0.05 * SCALE
"""ATP's first is 50 ms. What is sent again is a window, which is not scaled, so that it is sent less often."""
ROUND, COMMUNICATION, SERVER, SPEED = "round", "communication", "server", "images"
ACCURACY = "accuracy"
QUANTITIES = {
    ROUND: "s for a round",
    COMMUNICATION: "s from the last worker's gradient to the last worker's sum",
    SERVER: "MB into the parameter server, a round",
    SPEED: "images/s",
}


@dataclass(frozen=True)
class Case:
    """One simulation."""

    model: str
    workers: int
    method: str
    seed: int


@dataclass(frozen=True)
class Options:
    """What to simulate.

    Attributes:
        by_workers: models that are simulated with every number of workers.
        by_model: models that are simulated with `few` workers.
        workers: numbers of them, even.
        few: workers of `by_model`.
        seeds: computing times, for each point.
        rounds: of each run.
        scale: of the network; see `SCALE`.
        training_rounds: of the training whose accuracy is put over time.
    """

    by_workers: Sequence[str] = ("resnet18", "resnet50")
    by_model: Sequence[str] = tuple(GIGA_MULTIPLY_ADDS)
    workers: Sequence[int] = (4, 8, 12, 16)
    few: int = 8
    seeds: int = 3
    rounds: int = 8
    scale: int = SCALE
    training_rounds: int = 300

    def cases(self) -> list[Case]:
        """Each once."""
        points = [(model, workers) for model in self.by_workers for workers in self.workers]
        points += [(model, self.few) for model in self.by_model]
        return [
            Case(model, workers, method, seed)
            for model, workers in dict.fromkeys(points)
            for method in NAMES
            for seed in range(1, self.seeds + 1)
        ]


def model_bytes(model: str) -> int:
    """Size of a gradient in float32."""
    return 4 * count(MODELS[model]())


def network(model: str, workers: int, scale: int) -> Topology:
    """The triangle with rates that stand for hosts."""
    fits = model_bytes(model) <= len(SWITCHES) * MEMORY_BYTES
    made = goat(workers // 2, MEMORY_BYTES if fits else ENOUGH_BYTES, SWITCH_BPS / scale)
    rates = {"ps": SERVER_BPS / scale} | {worker.name: WORKER_BPS / scale for worker in made.workers}
    links = [
        link.model_copy(update={"bandwidth_bps": rates[link.source]}) if link.source in rates else link
        for link in made.links
    ]
    return made.model_copy(update={"links": links})


def measure(options: Options, progress: Progress = lambda done, of: None) -> Report:
    """Simulates every model, number of workers, method and seed on all cores, and trains once.

    Raises:
        SimulationError: a run made no progress.
    """
    cases = options.cases()
    with tempfile.TemporaryDirectory() as folder:
        for model, workers in {(case.model, case.workers) for case in cases}:
            network(model, workers, options.scale).write(Path(folder) / f"{model}-{workers}.json")
        points = {case: _point(case, options) for case in cases}
        runs = simulated(Path(folder), points, figures, progress, model_bytes=4, train=TRAIN)
    parameters = {
        "workers": list(options.workers), "seeds": options.seeds, "rounds": options.rounds, "scale": options.scale,
    }  # fmt: skip
    return Report("goat-testbed", parameters, [*_results(runs, options.scale), _learned(options)])


def figures(outcome: SimulationOutcome) -> dict[str, Any]:
    """Figures of a run: seconds of each round and after its last gradient; bytes with headers into the server."""
    ends = [0.0, *(record["end_s"] for record in outcome.rounds)]
    into = sum(link["wire_bytes"] for link in outcome.links if link["target"] == "ps")
    return {
        ROUND: [later - earlier for earlier, later in pairwise(ends)],
        COMMUNICATION: statistics.fmean(record["end_s"] - record["last_begin_s"] for record in outcome.rounds),
        SERVER: into / len(outcome.rounds),
    }


def _point(case: Case, options: Options) -> Point:
    method, names = METHODS[case.method], [worker.name for worker in network(case.model, case.workers, 1).workers]
    late = method.late(names, LATE_SHARE, case.seed)
    slower = GIGA_MULTIPLY_ADDS[case.model] / GIGA_MULTIPLY_ADDS["resnet18"]
    job = {
        "name": f"{case.method}-{case.model}-{case.workers}",
        "planner": method.planner,
        "model": case.model,
        "bytes": model_bytes(case.model) // options.scale,
        "rounds": options.rounds,
        "window": WINDOW,
        "mtu_bytes": 1500,
        "compute": {"kind": "normal", "mean_s": slower * COMPUTING_S, "deviation_s": slower * DEVIATION_S},
        "program": {"policy": SWITCH_POLICIES[spelled(case.method)], "bypass": late, "timeout_s": TIMEOUT_S},
    }
    return {"topology": f"{case.model}-{case.workers}.json", "seed": case.seed, "job": [job]}


def _results(runs: Mapping[Case, dict[str, Any]], scale: int) -> Iterator[Result]:
    points = dict.fromkeys((case.model, case.workers, case.method) for case in runs)
    for model, workers, method in points:
        own = [run for case, run in runs.items() if (case.model, case.workers, case.method) == (model, workers, method)]
        rounds = [statistics.fmean(run[ROUND]) for run in own]
        values = {
            ROUND: rounds,
            COMMUNICATION: [run[COMMUNICATION] for run in own],
            SERVER: [run[SERVER] * scale / 1e6 for run in own],
            SPEED: [workers * BATCH_SIZE / seconds for seconds in rounds],
        }
        for quantity, found in values.items():
            extra = {"model": model, "workers": workers, "method": method, "quantity": quantity}
            name = f"{NAMES[method]}, {model}, {workers} workers, {quantity}"
            yield Result(name, QUANTITIES[quantity], found, extra)


def _learned(options: Options) -> Result:
    """Accuracy after each round of a real training of so many workers."""
    from wiresum.training.learning import learn  # PyTorch, which a list of rows does without

    workers = max(options.workers)
    made = Training(workers, BATCH_SIZE, rounds=options.training_rounds)
    learned = learn(made)
    extra = {"accuracies": list(learned.accuracies), "workers": workers, "quantity": ACCURACY}
    return Result("training on digits", "accuracy at the end", [learned.accuracies[-1]], extra)


def learned(report: Report) -> Learned:
    """The training of a report."""
    extra = next(result.extra for result in report.results if result.extra["quantity"] == ACCURACY)
    return Learned((), extra["accuracies"])


def median(report: Report, model: str, workers: int, method: str, quantity: str) -> float:
    """Over seeds, of one method of `NAMES` and one of `QUANTITIES`."""
    wanted = {"model": model, "workers": workers, "method": method, "quantity": quantity}
    return next(result.median for result in report.results if wanted.items() <= result.extra.items())
