"""`wiresum bench sparse-training`: whole trainings of sparse models on shaped links, beside rivals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec

from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.sparse.worker import rival
from wiresum.bench.sparse_training.command import Options
from wiresum.bench.sparse_training.models import CASES
from wiresum.bench.sparse_training.worker import PRODUCT, PUSH_PULL, Task
from wiresum.bench.workers import view
from wiresum.errors import NotWorthwhileError, TestbedError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import place_rows, plan
from wiresum.planners.tiers.instance import SparseInstance, servers_of
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.sparse.hot import hot_map
from wiresum.sparse.trace import Trace
from wiresum.testbed import Testbed
from wiresum.testbed.tables import SparseJob, daemons
from wiresum.topology.generators.star import star
from wiresum.torch.sparse import job_tables

COUNTED_ROUNDS = 2
"""As many as the planner counts elsewhere."""
TOLERANCE = 2e-3
"""Largest difference of losses after equal steps, of the first one: sums are rounded in other orders."""
WARMUPS = 2
"""Steps before those that are measured."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Training:
    """One model, trained by one method.

    Attributes:
        model: its name.
        method: `wiresum`, or a rival.
        losses: after each step, over all workers' samples.
        seconds: of each step, at rank 0.
        samples: of all workers in a step.
    """

    model: str
    method: str
    losses: list[float]
    seconds: list[float]
    samples: int

    @property
    def rates(self) -> list[float]:
        """Samples per second of each measured step."""
        return [self.samples / taken for taken in self.seconds[WARMUPS:]]


def measure(options: Options, progress: Progress = lambda what: None) -> Report:
    """Trains every model by every method, and compares losses and speeds.

    Args:
        options: what to train.
        progress: is told what is trained.

    Raises:
        TestbedError: a worker or server failed, or losses differ after equal steps.
    """
    trainings: list[Training] = []
    notes: list[str] = []
    for model in options.models:
        trained, said = train(model, options, progress)
        trainings += trained
        notes += said
    return _report(options, trainings, notes)


def train(model: str, options: Options, progress: Progress) -> tuple[list[Training], list[str]]:
    """One model by all methods, and what is to be said about the runs; errors as for `measure`."""
    case = CASES[model]
    batch = options.batch or case.batch
    trace = case.trace(options.scale, batch)
    tables = job_tables(case.make(trace), case.optimizer, case.settings, initial=case.initial)
    hot = hot_rows(trace, options)
    topology = star(options.workers, options.rate_bps, servers=options.servers)
    made = plan(topology, Job(mtu_bytes=options.mtu_bytes), PlanOptions(engine=options.engine))
    with Testbed(topology, made, mtu_bytes=options.mtu_bytes, loopback=options.loopback) as bed, ExitStack() as stack:
        served = daemons(bed, SparseJob(tables, hot), options.mtu_bytes)
        stack.enter_context(served)
        if PUSH_PULL in options.against:
            stack.enter_context(served.beside(rival, options.servers, PUSH_PULL))
        methods = [PRODUCT, *options.against]
        output = str(bed.folder / "training.json")
        task = Task(methods, model, options.scale, batch, options.steps, str(served.job_file), output)
        views = view(bed, task, f"{model} by {', '.join(methods)}", progress)
        notes = [f"{model}: {what}" for what in bed.left_out]
    samples = batch * options.workers
    trainings = [Training(model, name, one["losses"], one["seconds"], samples) for name, one in views.items()]
    _check_losses(trainings)
    return trainings, notes


def hot_rows(trace: Trace, options: Options) -> str | None:
    """The hot map that the planner `tiers` asks for on these links; None where it advises against sums."""
    topology = star(options.workers, options.rate_bps, servers=options.servers)
    network = SparseNetwork(topology, servers_of(topology))
    counts = Counts.of(trace, options.workers, COUNTED_ROUNDS)
    try:
        part = place_rows(SparseInstance(network, trace.tables.tables, counts), "tiers")
    except NotWorthwhileError:
        return None
    hot = part.replicated_rows + part.summed_rows
    return hot_map(trace, part.replicated_rows, part.summed_rows) if hot else None


def _check_losses(trainings: Sequence[Training]) -> None:
    """After equal steps every method has the same loss, but for the order in which float32 are added.

    Raises:
        TestbedError: they differ by more.
    """
    first = trainings[0]
    for other in trainings[1:]:
        worst = max(abs(one - two) for one, two in zip(first.losses, other.losses, strict=True))
        if not worst <= TOLERANCE * first.losses[0]:
            raise TestbedError(
                f"{first.model}: losses of {first.method} and {other.method} differ by {worst:.3g} after equal steps"
            )


def _report(options: Options, trainings: Sequence[Training], notes: Sequence[str]) -> Report:
    results = [
        Result(
            f"{one.model}, {one.method}",
            "samples/s",
            one.rates,
            {
                "model": one.model,
                "method": one.method,
                "losses": one.losses,
                "at_seconds": list(itertools.accumulate(one.seconds)),
            },
        )
        for one in trainings
    ]
    median = {(one.model, one.method): result.median for one, result in zip(trainings, results, strict=True)}
    ratios = [
        Ratio(f"{model}: {PRODUCT} / {rival}", median[model, PRODUCT] / median[model, rival])
        for model in options.models
        for rival in options.against
    ]
    parameters = {
        "models": list(options.models),
        "workers": options.workers,
        "servers": options.servers,
        "rate_bps": options.rate_bps,
        "steps": options.steps,
        "scale": options.scale,
        "batch": options.batch,
        "engine": options.engine,
        "mtu_bytes": options.mtu_bytes,
    }
    where = "is installed, but nothing here trains with it" if find_spec("torchrec") else "is not installed"
    torchrec = f"TorchRec was not compared: it {where} (on CPUs: torchrun and its own DistributedModelParallel)"
    return Report("sparse-training", parameters, results, ratios, notes=[*notes, torchrec])
