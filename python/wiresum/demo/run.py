"""Runs the training script over a summing network and over Gloo on the same links, and compares them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.bench.limit import StarTraffic
from wiresum.demo.outcome import DemoOutcome, Training
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.generators.star import star

BACKENDS = ("wiresum", "gloo")

Progress = Callable[[str, int, int, float], None]
"""Takes backend, step, steps and loss."""


@dataclass(frozen=True)
class Options:
    """What to train, on which links.

    Attributes:
        workers: hosts around one summing switch.
        rate_bps: of each link, each way.
        epochs: passes over the data.
        batch_size: images per worker and step.
        max_steps: stops earlier; None: never.
        data_dir: CIFAR-10/100 in its original files; None: the digits of scikit-learn.
        engine: what sums.
        loopback: never use namespaces (True), only them (False), or whatever this process may (None).
    """

    workers: int = 4
    rate_bps: float = 250e6
    epochs: int = 5
    batch_size: int = 32
    max_steps: int | None = None
    data_dir: Path | None = None
    engine: Engine = "xdp"
    loopback: bool | None = None


def compare(options: Options, progress: Progress) -> DemoOutcome:
    """Trains once per backend.

    Raises:
        TestbedError: the links cannot be made, or a worker failed.
    """
    topology = star(options.workers, options.rate_bps)
    job = Job()
    planned = plan(topology, job, PlanOptions(engine=options.engine))
    with Testbed(topology, planned, loopback=options.loopback) as bed:
        trainings = [train(bed, backend, options, progress) for backend in BACKENDS]
        shaped, left_out = not bed.why_loopback, bed.left_out
    traffic = StarTraffic(trainings[0].parameters, options.workers, 4 * job.packet_values, 4)
    rate = f"{options.rate_bps / 1e6:g} Mbit/s links in network namespaces, summed by {options.engine.upper()}"
    how = rate if shaped else "loopback, unshaped, summed in user space: " + "; ".join(left_out)
    return DemoOutcome(
        trainings,
        options.rate_bps if shaped else None,
        traffic.seconds(options.rate_bps) if shaped else None,
        how,
    )


def train(bed: Testbed, backend: str, options: Options, progress: Progress) -> Training:
    """Runs the training script at every worker and reads what rank 0 wrote."""
    output = Path(bed.folder) / f"{backend}.json"

    def show(line: str) -> None:
        if line.startswith("{"):
            step = json.loads(line)
            progress(backend, step["step"], step["steps"], step["loss"])

    outcome = run_or_fail(bed, command(backend, options, output), f"training over {backend}", show)
    results: dict[str, Any] = json.loads(output.read_text())
    busiest = max((link.busiest_bytes for link in outcome.traffic.values()), default=None)
    return Training(busiest_link_bytes=busiest, **results)


def command(backend: str, options: Options, output: Path) -> list[str]:
    """The training script's command line."""
    line = [sys.executable, "-m", "wiresum.demo.train", "--backend", backend, "--output", str(output)]
    line += ["--epochs", str(options.epochs), "--batch-size", str(options.batch_size)]
    line += ["--max-steps", str(options.max_steps)] if options.max_steps else []
    return line + (["--data-dir", str(options.data_dir.resolve())] if options.data_dir else [])
