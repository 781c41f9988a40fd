"""`wiresum bench collectives`: collectives through `torch.distributed`, beside Gloo's and the wire limit."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from wiresum.bench.collectives.command import Options
from wiresum.bench.collectives.worker import Task
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.choices import ELEMENT_BYTES, lane_bytes
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict.collectives import Shape
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

PRODUCT = "wiresum"


def measure(options: Options) -> Report:
    """Sets up the links, runs every collective through every backend in turn, and takes the links down.

    Raises:
        TestbedError: a worker failed, or has a wrong result.
    """
    job = Job(copies=True, gradient_bytes=options.size_bytes, lanes=options.lanes)
    topology, shape = star(options.workers, options.rate_bps), shape_of(options, job)
    placed = plan(topology, job, PlanOptions(engine=options.engine))
    with Testbed(topology, placed, mtu_bytes=job.mtu_bytes, loopback=False) as bed:
        measured = run_workers(bed, options, shape.elements)
        notes = [*bed.left_out, *str(measured["report"]).splitlines()]
    return to_report(options, shape, measured["runs"], notes)


def shape_of(options: Options, job: Job) -> Shape:
    """The tensor, shortened to what the workers can share evenly.

    Raises:
        TestbedError: nothing is left.
    """
    element_bytes = ELEMENT_BYTES[options.dtype]
    elements = options.size_bytes // element_bytes // options.workers * options.workers
    if not elements:
        raise TestbedError(f"--size: {options.size_bytes} bytes are no {options.dtype} for each worker; give more")
    return Shape(
        elements,
        element_bytes,
        options.workers,
        job.packet_values * LANE_BYTES,
        lane_bytes(options.lanes, element_bytes),
    )


def run_workers(bed: Testbed, options: Options, elements: int) -> dict[str, Any]:
    """Runs one process per worker and returns what rank 0 wrote."""
    backends, collectives = [PRODUCT, *options.against], list(options.collectives)
    output = str(bed.folder / "collectives.json")
    task = Task(backends, collectives, options.dtype, elements, options.repeats, options.warmups, output)
    return view(bed, task)


def to_report(options: Options, shape: Shape, runs: list[dict[str, Any]], notes: list[str]) -> Report:
    """Medians, limits, and the ratios that matter."""
    results = list(_results(options, shape, runs))
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        "size_bytes": options.size_bytes,
        "dtype": options.dtype,
        "lanes": options.lanes,
        "engine": options.engine,
        "topology": "star in network namespaces, shaped by tbf",
    }
    return Report("collectives", parameters, results, list(_ratios(results)), notes=notes)


def _results(options: Options, shape: Shape, runs: list[dict[str, Any]]) -> Iterator[Result]:
    for collective in options.collectives:
        for backend in (PRODUCT, *options.against):
            own = [run for run in runs if (run["collective"], run["backend"]) == (collective, backend)]
            extra = {
                "collective": collective,
                "backend": backend,
                "dtype": options.dtype,
                "limit_seconds": shape.traffic(collective).seconds(options.rate_bps),
                **{way: statistics.median(run[way] for run in own) for way in ("bytes_up", "bytes_down")},
            }
            yield Result(f"{collective}: {backend}", "s", [run["seconds"] for run in own], extra)


def _ratios(results: list[Result]) -> Iterator[Ratio]:
    ours = {result.extra["collective"]: result for result in results if result.extra["backend"] == PRODUCT}
    for collective, mine in ours.items():
        yield Ratio(f"{collective}: {PRODUCT} / limit", mine.median / mine.extra["limit_seconds"])
        for rival in results:
            if rival.extra["collective"] == collective and rival is not mine:
                yield Ratio(f"{collective}: {rival.extra['backend']} / {PRODUCT}", rival.median / mine.median)
