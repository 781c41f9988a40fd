"""`wiresum bench compression`: the demo's training with gradients of 32, 16 and 8 bits a value, beside Gloo.

Gradients of 16 bits are those of PyTorch's `bf16_compress_hook`, over either backend; those of 8 bits keep what these
leave (`wiresum.torch.eight_bits`). All trainings are of the same model, data and order of batches, in one testbed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from wiresum.bench.compression.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.demo import run as demo
from wiresum.demo.outcome import Training
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

PRODUCT, RIVAL = "wiresum", "gloo"
WHOLE, HALF, QUARTER = "none", "bf16", "8 bits"
"""Hooks of `wiresum.demo.train`."""
CASES = ((PRODUCT, WHOLE), (PRODUCT, HALF), (PRODUCT, QUARTER), (RIVAL, WHOLE), (RIVAL, HALF))
BITS = {WHOLE: "32 bits", HALF: "16 bits", QUARTER: "8 bits"}
MEGA = 1e6


def measure(options: Options, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Trains in every way, turn by turn.

    Args:
        options: what to train.
        progress: takes the case that is running.

    Raises:
        TestbedError: the links cannot be made, or a worker failed.
    """
    topology = star(options.workers, options.rate_bps)
    planned = plan(topology, Job(), PlanOptions(engine=options.engine))
    trained = demo.Options(
        options.workers, options.rate_bps, options.epochs, max_steps=options.max_steps, engine=options.engine
    )
    trainings: dict[str, list[Training]] = defaultdict(list)
    with Testbed(topology, planned, loopback=False) as bed:
        for number in range(options.repeats):
            for backend, hook in CASES:
                name = f"{backend}, {BITS[hook]}"
                progress(f"{name}, run {number + 1} of {options.repeats}")
                trainings[name].append(demo.train(bed, backend, trained, lambda *_: None, hook))
    results = [result for name, runs in trainings.items() for result in to_results(name, runs)]
    one = next(iter(trainings.values()))[0]
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        "steps": one.steps,
        "parameters": one.parameters,
        "data": one.data,
    }
    return Report("compression", parameters, results, list(ratios(results)))


def to_results(name: str, runs: list[Training]) -> Iterator[Result]:
    """What is measured of one way to train."""
    yield Result(f"{name}: images", "1/s", [run.images_per_second for run in runs])
    yield Result(f"{name}: all-reduce of the gradient", "ms", [1e3 * run.all_reduce_seconds for run in runs])
    yield Result(f"{name}: final accuracy", "%", [100 * run.accuracy for run in runs])
    busiest = [run.busiest_link_bytes / MEGA for run in runs if run.busiest_link_bytes is not None]
    if busiest:
        yield Result(f"{name}: bytes on the busiest link", "MB", busiest)


def ratios(results: list[Result]) -> Iterator[Ratio]:
    """Speeds over Gloo's with whole gradients, and over Wiresum's with those of 16 bits."""
    median = {result.name: result.median for result in results}
    ours, theirs = f"{PRODUCT}, {BITS[QUARTER]}", f"{RIVAL}, {BITS[WHOLE]}"
    yield Ratio("images: wiresum, 8 bits / gloo, 32 bits", median[f"{ours}: images"] / median[f"{theirs}: images"])
    for other in (f"{PRODUCT}, {BITS[HALF]}", f"{RIVAL}, {BITS[HALF]}", theirs):
        what = "all-reduce of the gradient"
        yield Ratio(f"{what}: {other} / {ours}", median[f"{other}: {what}"] / median[f"{ours}: {what}"])
