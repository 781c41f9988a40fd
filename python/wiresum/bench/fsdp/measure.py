"""`wiresum bench fsdp`: the same training through every backend, with and without `overlap`, turn by turn."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wiresum.bench.fsdp.command import Options
from wiresum.bench.fsdp.worker import Task
from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.choices import FLOAT32_BYTES, lane_bytes
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict.collectives import Shape, Traffic
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.generators.star import star

PRODUCT = "wiresum"
WAYS = {False: "unmodified", True: "overlap"}


def measure(options: Options) -> Report:
    """Sets up the links, trains every way in turn, and takes the links down.

    Raises:
        TestbedError: a worker failed, or losses differ.
    """
    job = Job(copies=True, gradient_bytes=options.size_bytes, lanes=options.lanes)
    topology, width = star(options.workers, options.rate_bps), width_of(options)
    placed = plan(topology, job, PlanOptions(engine=options.engine))
    with Testbed(topology, placed, mtu_bytes=job.mtu_bytes, loopback=False) as bed:
        measured = run_workers(bed, options, width)
        notes = [*bed.left_out, *measured["notes"], *str(measured["report"]).splitlines()]
    payload_bytes = job.packet_values * LANE_BYTES
    block = Shape(width**2, FLOAT32_BYTES, options.workers, payload_bytes, lane_bytes(options.lanes))
    return to_report(options, block, measured["runs"], notes)


def width_of(options: Options) -> int:
    """Side of a block's square of weights, which the workers share evenly.

    Raises:
        TestbedError: nothing is left.
    """
    width = math.isqrt(options.size_bytes // FLOAT32_BYTES // options.blocks) // options.workers * options.workers
    if not width:
        raise TestbedError(
            f"--size: {options.size_bytes} bytes in {options.blocks} blocks are no row for each worker; give more"
        )
    return width


def step_traffic(block: Shape, blocks: int) -> Traffic:
    """What a step moves on a link: parameters for the forward and the backward pass, and gradients."""
    gathered, scattered = block.traffic("all_gather"), block.traffic("reduce_scatter")
    return sum([gathered, gathered, scattered] * blocks, Traffic(0, 0))


def run_workers(bed: Testbed, options: Options, width: int) -> dict[str, Any]:
    """Runs one process per worker and returns what rank 0 wrote."""
    output = Path(bed.folder) / "fsdp.json"
    backends = [PRODUCT, *options.against]
    task = Task(
        backends, options.ways, options.blocks, width, options.steps, options.repeats, options.warmups, str(output)
    )
    run_or_fail(bed, [sys.executable, "-m", "wiresum.bench.fsdp.worker", task.to_json()], "the benchmark")
    content: dict[str, Any] = json.loads(output.read_text())
    return content


def to_report(options: Options, block: Shape, runs: list[dict[str, Any]], notes: list[str]) -> Report:
    """Medians, the limit, and the ratios that matter."""
    limit_s = step_traffic(block, options.blocks).seconds(options.rate_bps)
    results = list(_results(options, limit_s, runs))
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        "model_bytes": options.blocks * block.elements * FLOAT32_BYTES,
        "blocks": options.blocks,
        "steps": options.steps,
        "lanes": options.lanes,
        "engine": options.engine,
        "topology": "star in network namespaces, shaped by tbf",
    }
    return Report("fsdp", parameters, results, list(_ratios(results)), notes=notes)


def _results(options: Options, limit_s: float, runs: list[dict[str, Any]]) -> Iterator[Result]:
    """Seconds and bytes of a step."""
    for overlapped in options.ways:
        for backend in (PRODUCT, *options.against):
            own = [run for run in runs if (run["overlapped"], run["backend"]) == (overlapped, backend)]
            seconds = [run["seconds"] / options.steps for run in own]
            extra = {
                "collective": "fsdp",
                "overlapped": overlapped,
                "backend": backend,
                "dtype": "float32",
                "steps_per_second": 1 / statistics.median(seconds),
                "limit_seconds": limit_s,
                **{
                    way: statistics.median(run[way] for run in own) / options.steps
                    for way in ("bytes_up", "bytes_down")
                },
            }
            yield Result(f"{WAYS[overlapped]}: {backend}", "s", seconds, extra)


def _ratios(results: list[Result]) -> Iterator[Ratio]:
    """Ratios of the seconds that a step takes."""
    medians = {(result.extra["overlapped"], result.extra["backend"]): result.median for result in results}
    for (overlapped, backend), median in medians.items():
        ours = medians[overlapped, PRODUCT]
        if backend == PRODUCT:
            yield Ratio(f"{WAYS[overlapped]}: {PRODUCT} / limit", ours / results[0].extra["limit_seconds"])
        else:
            yield Ratio(f"{WAYS[overlapped]}: {backend} / {PRODUCT}", median / ours)
        if overlapped and (False, backend) in medians:
            yield Ratio(f"{backend}: unmodified / overlap", medians[False, backend] / median)
