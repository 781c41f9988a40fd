"""`wiresum bench coexistence`: what aggregation and a host's other traffic cost each other.

Method. One host and one server, with one link between them. The host is every child of a job, which sends contributions
at a rate or, at full load, as its window allows; besides, it has either one TCP flow to the server that takes what it
gets, or small TCP requests one after the other. All of it shares the link, the port with the XDP program, and the
machine's cores. The figures are the flow's throughput and the requests' latency without a job and at each of its
loads, and what the job sums with and without the flow.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable

from wiresum.bench.coexistence.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.service_bed import ServiceBed, finish
from wiresum.plan.choices import Engine

CHILDREN = 4
WINDOW = 16
"""Positions in flight at full load."""
HEAD_START_S = 0.3
"""A job begins before the traffic beside it is measured, and ends after it."""
MODULE = "wiresum.bench.coexistence.load"
TRAFFIC = ("bulk", "requests")
NO_JOB, FULL = "no job", "full load"


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures every engine at every load.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        SupportError: no namespaces, or no XDP.
    """
    results: list[Result] = []
    with ServiceBed(2, options.rate_bps, xdp="xdp" in options.engines) as bed:
        server = bed.serve_tcp()
        for engine in bed.each(options.engines):
            results += measure_engine(bed, engine, options, progress)
        server.end()
    parameters = {
        "rate_bps": options.rate_bps, "loads": options.loads, "seconds": options.seconds, "runs": options.runs,
    }  # fmt: skip
    return Report("coexistence", parameters, results, ratios(results))


def measure_engine(bed: ServiceBed, engine: Engine, options: Options, progress: Callable[[str], None]) -> list[Result]:
    """Every case of one engine, turn by turn."""
    cases: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    loads: dict[str, float | None] = {f"{load:.0f}/s": load for load in options.loads} | {FULL: None}
    for run in range(options.runs):
        progress(f"{engine}, run {run + 1} of {options.runs}")
        for kind in TRAFFIC:
            for figure, unit, value in measure_traffic(bed, kind, options.seconds):
                cases[figure, unit, NO_JOB].append(value)
        for name, load in loads.items():
            cases["job alone", "sums/s", name].append(measure_job(bed, engine, load, options.seconds, None)[0][2])
            for kind in TRAFFIC:
                for figure, unit, value in measure_job(bed, engine, load, options.seconds, kind):
                    cases[figure, unit, name].append(value)
    return [
        Result(f"{engine}: {figure}, {load}", unit, values, {"engine": engine, "figure": figure, "load": load})
        for (figure, unit, load), values in cases.items()
    ]


def measure_traffic(bed: ServiceBed, kind: str, seconds: float) -> list[tuple[str, str, float]]:
    """Figure, unit and value of what one kind of TCP traffic gets."""
    measured = finish(bed.begin(0, {"kind": kind, "seconds": seconds}, MODULE), seconds)
    if kind == "bulk":
        return [("TCP flow", "bit/s", measured["bits_per_second"])]
    hundredths = statistics.quantiles(measured["round_trips_s"], n=100)
    return [("TCP request p50", "s", hundredths[49]), ("TCP request p99", "s", hundredths[98])]


def measure_job(
    bed: ServiceBed, engine: Engine, load: float | None, seconds: float, kind: str | None
) -> list[tuple[str, str, float]]:
    """What the job sums, and what the traffic beside it gets, if there is some."""
    job = bed.job(1, 0, CHILDREN, engine)
    bed.serve(job)
    lasting = seconds + 2 * HEAD_START_S
    task = {"kind": "job", "plan": job.to_json(), "window": WINDOW, "rate": load, "seconds": lasting}
    running = bed.begin(0, task)
    figures = measure_traffic(bed, kind, seconds) if kind else []
    served = finish(running, lasting)
    sums = served["results"] / CHILDREN / served["seconds"]
    return [(f"job beside {kind}", "sums/s", sums), *figures]


def ratios(results: list[Result]) -> list[Ratio]:
    """What is left of traffic beside a job, and of a job beside traffic."""
    median = {(r.extra["engine"], r.extra["figure"], r.extra["load"]): r.median for r in results}
    found = []
    for (engine, figure, load), value in median.items():
        base = (engine, figure, NO_JOB) if figure.startswith("TCP") else (engine, "job alone", load)
        if base in median and base != (engine, figure, load):
            reference = "without a job" if figure.startswith("TCP") else "alone"
            found.append(Ratio(f"{engine}: {figure}, {load} / {reference}", value / median[base]))
    return found
