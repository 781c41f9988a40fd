"""`wiresum bench compression`: the demo's training with gradients of 32, 16 and 8 bits a value, beside Gloo.

Gradients of 16 bits are those of PyTorch's `bf16_compress_hook`, over either backend; those of 8 bits keep what these
leave (`wiresum.torch.eight_bits`). All trainings are of the same model, data and order of batches, in one testbed.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wiresum.bench.compression.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.generators.star import star

SCRIPT = "wiresum.demo.train"
"""Started as users start it: at each worker."""
PRODUCT, RIVAL = "wiresum", "gloo"
WHOLE, HALF, QUARTER = "none", "bf16", "8 bits"
"""The script's hooks."""
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
    trainings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with Testbed(topology, planned, loopback=False) as bed:
        for number in range(options.repeats):
            for backend, hook in CASES:
                name = f"{backend}, {BITS[hook]}"
                progress(f"{name}, run {number + 1} of {options.repeats}")
                trainings[name].append(train(bed, options, backend, hook))
    results = [result for name, runs in trainings.items() for result in to_results(name, runs)]
    one = next(iter(trainings.values()))[0]
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        **{key: one[key] for key in ("steps", "parameters", "data")},
    }
    return Report("compression", parameters, results, list(ratios(results)))


def train(bed: Testbed, options: Options, backend: str, hook: str) -> dict[str, Any]:
    """What rank 0 wrote of a training, and the bytes of the busiest direction of any link."""
    output = Path(bed.folder) / "training.json"
    command = [sys.executable, "-m", SCRIPT, "--backend", backend, "--hook", hook, "--output", str(output)]
    command += ["--epochs", str(options.epochs)]
    command += ["--max-steps", str(options.max_steps)] if options.max_steps else []
    outcome = run_or_fail(bed, command, f"training over {backend}, {BITS[hook]}")
    written: dict[str, Any] = json.loads(output.read_text())
    return written | {"busiest_bytes": max(link.busiest_bytes for link in outcome.traffic.values())}


def to_results(name: str, runs: list[dict[str, Any]]) -> Iterator[Result]:
    """What is measured of one way to train."""
    yield Result(f"{name}: images", "1/s", [run["images_per_second"] for run in runs])
    yield Result(f"{name}: all-reduce of the gradient", "ms", [1e3 * run["all_reduce_seconds"] for run in runs])
    yield Result(f"{name}: final accuracy", "%", [100 * run["accuracy"] for run in runs])
    yield Result(f"{name}: bytes on the busiest link", "MB", [run["busiest_bytes"] / MEGA for run in runs])


def ratios(results: list[Result]) -> Iterator[Ratio]:
    """Speeds over Gloo's with whole gradients, and over Wiresum's with those of 16 bits."""
    median = {result.name: result.median for result in results}
    ours, theirs = f"{PRODUCT}, {BITS[QUARTER]}", f"{RIVAL}, {BITS[WHOLE]}"
    yield Ratio("images: wiresum, 8 bits / gloo, 32 bits", median[f"{ours}: images"] / median[f"{theirs}: images"])
    for other in (f"{PRODUCT}, {BITS[HALF]}", f"{RIVAL}, {BITS[HALF]}", theirs):
        what = "all-reduce of the gradient"
        yield Ratio(f"{what}: {other} / {ours}", median[f"{other}: {what}"] / median[f"{ours}: {what}"])
