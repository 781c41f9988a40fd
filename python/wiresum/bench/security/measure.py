"""`wiresum bench security`: what proofs of keys cost, and what a job keeps beside those who have none.

Method. Two hosts around one server, as for `wiresum bench isolation`. *Joins*: all workers of a job, at one host, say
hello at once; the figure is the time until the last is welcome, threads and sockets included. *Floods*: the other host
sends hellos without a proof, junk, and packets under a key that is not the job's, beside a job that keeps a window of
packets in flight; the figure is what the job sums per second, alone and beside each flood, turn by turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wiresum.bench.isolation import command as isolation_command
from wiresum.bench.isolation import measure as isolation
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.security.command import Options
from wiresum.bench.service_bed import ServiceBed, finish
from wiresum.plan.choices import Engine

FLOODS = ("alone", "hellos", "malformed", "foreign")
LOAD = "wiresum.bench.security.load"
JOIN_S = 30.0
"""Seconds that a join may take, threads and the start of Python included."""


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures joins, and a job beside floods, on every engine.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        SupportError: no namespaces, or no XDP.
    """
    results: list[Result] = []
    with ServiceBed(2, options.rate_bps, xdp="xdp" in options.engines) as bed:
        for engine in bed.each(options.engines):
            progress(f"{engine}: {options.workers} workers join, {options.runs} times")
            joins = [join(bed, engine, options.workers) for _ in range(options.runs)]
            results.append(Result(f"{engine}: {options.workers} workers join", "s", joins, {"engine": engine}))
            results += beside_floods(bed, engine, options, progress)
    parameters = {
        "rate_bps": options.rate_bps, "workers": options.workers, "seconds": options.seconds, "runs": options.runs,
    }  # fmt: skip
    return Report("security", parameters, results, ratios(results))


def join(bed: ServiceBed, engine: Engine, workers: int) -> float:
    """Seconds until all workers of a job are welcome."""
    plan = bed.job(isolation.A, 0, workers, engine)
    bed.serve(plan)
    task = {"plan": plan.to_json(), "workers": workers, "incarnation": time.time_ns() // 1000}
    return float(finish(bed.begin(0, task, LOAD), JOIN_S)["seconds"])


def beside_floods(bed: ServiceBed, engine: Engine, options: Options, progress: Callable[[str], None]) -> list[Result]:
    """What a job sums alone and beside each flood, turn by turn."""
    told = isolation_command.Options(engines=(engine,), seconds=options.seconds)
    sums: dict[str, list[float]] = {flood: [] for flood in FLOODS}
    for run in range(options.runs):
        for flood in FLOODS:
            progress(f"{engine}, {flood}, run {run + 1} of {options.runs}")
            sums[flood].append(isolation.measure_one(bed, engine, flood, told)[0])
    return [
        Result(f"{engine}: {flood}" if flood == "alone" else f"{engine}: beside {flood}", "sums/s", runs,
               {"engine": engine, "flood": flood})
        for flood, runs in sums.items()
    ]  # fmt: skip


def ratios(results: list[Result]) -> list[Ratio]:
    """What is left of the job beside each flood, by engine."""
    return isolation.ratios([result for result in results if "flood" in result.extra])
