"""`wiresum bench collectives`: collectives through `torch.distributed`, beside Gloo's and the wire limit."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from wiresum.bench.collectives.command import Options
from wiresum.bench.collectives.worker import Task
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.choices import ELEMENT_BYTES, lane_bytes
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict.collectives import Shape, predict_collective
from wiresum.testbed import Testbed
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.model import Topology

PRODUCT = "wiresum"
Limits = dict[str, dict[str, float]]
"""Seconds of each collective that links allow, by case."""


@dataclass(frozen=True)
class Case:
    """A plan on its links.

    Attributes:
        name: of Wiresum's results.
        topology: the links.
        plan: with copies.
        limits: by collective, seconds that the busiest link needs.
    """

    name: str
    topology: Topology
    plan: AggregationPlan
    limits: dict[str, float]


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Sets up the links, runs every collective through every backend in turn, and takes the links down.

    Args:
        options: what to measure.
        progress: takes a line before each case, where there are several.

    Raises:
        TestbedError: a worker failed, or has a wrong result.
    """
    job = Job(copies=True, gradient_bytes=options.size_bytes, lanes=options.lanes)
    shape = shape_of(options, job)
    runs, notes, limits = list[dict[str, Any]](), list[str](), Limits()
    for case in cases(options, job, shape):
        if options.servers:
            shared = ", ".join(f"{name} {100 * share:.3g} %" for name, share in servers_of(case.plan).items())
            progress(f"{case.name}: {shared}")
        limits[case.name] = case.limits
        with Testbed(case.topology, case.plan, mtu_bytes=job.mtu_bytes, loopback=False) as bed:
            measured = run_workers(bed, options, shape.elements)
            notes += [*bed.left_out, *str(measured["report"]).splitlines()]
        named = {PRODUCT: case.name}
        runs += [{**run, "backend": named.get(run["backend"], run["backend"])} for run in measured["runs"]]
    return to_report(options, limits, runs, list(dict.fromkeys(notes)))


def cases(options: Options, job: Job, shape: Shape) -> Iterator[Case]:
    """A switch that sums; or servers, of which one exchanges, and then all."""
    choices = PlanOptions(engine=options.engine)
    if not options.servers:
        links = star(options.workers, options.rate_bps)
        limits = {name: shape.traffic(name).seconds(options.rate_bps) for name in options.collectives}
        yield Case(PRODUCT, links, plan(links, job, choices), limits)
        return
    links = servers(options.workers, options.servers, options.rate_bps)
    size = shape.elements * shape.element_bytes
    for most in dict.fromkeys((1, options.servers)):
        made = plan(links, job.model_copy(update={"copy_servers": most}), choices, "byteps")
        limits = {
            name: predict_collective(links, made, size, name, shape.element_bytes).seconds
            for name in options.collectives
        }
        yield Case(f"{PRODUCT} by {len(servers_of(made))} of {options.servers}", links, made, limits)


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


def to_report(options: Options, limits: Limits, runs: list[dict[str, Any]], notes: list[str]) -> Report:
    """Medians, limits, and the ratios that matter.

    Args:
        options: what was measured.
        limits: of each case, in order.
        runs: each with its collective and its case, or the rival's name.
        notes: for people.
    """
    results = list(_results(options, limits, runs))
    parameters = {
        "workers": options.workers,
        "rate_bps": options.rate_bps,
        "size_bytes": options.size_bytes,
        "dtype": options.dtype,
        "lanes": options.lanes,
        "engine": options.engine,
        "servers": options.servers,
        "topology": f"{'servers' if options.servers else 'star'} in network namespaces, shaped by tbf",
    }
    return Report("collectives", parameters, results, list(_ratios(results, limits)), notes=notes)


def _results(options: Options, limits: Limits, runs: list[dict[str, Any]]) -> Iterator[Result]:
    first = next(iter(limits))
    for collective in options.collectives:
        for backend in (*limits, *options.against):
            own = [run for run in runs if (run["collective"], run["backend"]) == (collective, backend)]
            extra = {
                "collective": collective,
                "backend": backend,
                "dtype": options.dtype,
                "limit_seconds": limits.get(backend, limits[first])[collective],
                **{way: statistics.median(run[way] for run in own) for way in ("bytes_up", "bytes_down")},
            }
            yield Result(f"{collective}: {backend}", "s", [run["seconds"] for run in own], extra)


def _ratios(results: list[Result], limits: Limits) -> Iterator[Ratio]:
    """Each case beside its limit, and every other one beside it."""
    for mine in (result for result in results if result.extra["backend"] in limits):
        collective, name = mine.extra["collective"], mine.extra["backend"]
        yield Ratio(f"{collective}: {name} / limit", mine.median / mine.extra["limit_seconds"])
        for other in results:
            is_later_case = other.extra["backend"] in limits and results.index(other) > results.index(mine)
            if other.extra["collective"] == collective and other is not mine and not is_later_case:
                yield Ratio(f"{collective}: {other.extra['backend']} / {name}", other.median / mine.median)
