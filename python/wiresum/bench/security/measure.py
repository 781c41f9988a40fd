"""`wiresum bench security`: what proofs of keys cost, and what a job keeps beside those who have none.

Method. Two hosts around one server, as for `wiresum bench isolation`. *Joins*: all workers of a job, at one host, say
hello at once; the figure is the time until the last is welcome, threads and sockets included. *Floods*: the other host
sends hellos without a proof, junk, and packets under a key that is not the job's, beside a job that keeps a window of
packets in flight; the figure is what the job sums per second, alone and beside each flood, turn by turn. Over TCP the
job's workers sum as they do in training, and the flood calls again whenever the node hangs up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wiresum.bench.isolation import command as isolation_command
from wiresum.bench.isolation import measure as isolation
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.security.command import Options
from wiresum.bench.service_bed import ServiceBed, finish
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine
from wiresum.plan.incarnation import next_incarnation

FLOODS = ("alone", "hellos", "short", "malformed", "foreign")
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
    return float(finish(bed.begin(0, of_job("joins", plan), LOAD), JOIN_S)["seconds"])


def of_job(kind: str, plan: AggregationPlan, **more: float) -> dict[str, Any]:
    """What a host is told that has all workers of a job."""
    incarnation = next_incarnation()
    return {"kind": kind, "plan": plan.to_json(), "workers": len(plan.workers), "incarnation": incarnation, **more}


def beside_floods(bed: ServiceBed, engine: Engine, options: Options, progress: Callable[[str], None]) -> list[Result]:
    """What a job sums alone and beside each flood, turn by turn."""
    told = isolation_command.Options(engines=(engine,), seconds=options.seconds)
    sums: dict[str, list[float]] = {flood: [] for flood in FLOODS}
    for run in range(options.runs):
        for flood in FLOODS:
            progress(f"{engine}, {flood}, run {run + 1} of {options.runs}")
            if engine == "tcp":
                sums[flood].append(over_tcp(bed, flood, options.seconds))
            else:
                sums[flood].append(isolation.measure_one(bed, engine, flood, told)[0])
    return [
        Result(f"{engine}: {flood}" if flood == "alone" else f"{engine}: beside {flood}", "sums/s", runs,
               {"engine": engine, "flood": flood})
        for flood, runs in sums.items()
    ]  # fmt: skip


def over_tcp(bed: ServiceBed, flood: str, seconds: float) -> float:
    """Sums per second of a job over TCP, beside a flood or alone."""
    plan = bed.job(isolation.A, 0, isolation.CHILDREN, "tcp")
    bed.serve(plan)
    longer = seconds + 2 * isolation.HEAD_START_S
    task = {"kind": "flood", "flood": flood, "job": isolation.A, "seconds": longer}
    other = bed.begin(1, task, LOAD) if flood != "alone" else None
    served = finish(bed.begin(0, of_job("sums", plan, seconds=seconds), LOAD), JOIN_S + seconds)
    if other:
        finish(other, longer)
    return float(served["results"]) / float(served["seconds"])


def ratios(results: list[Result]) -> list[Ratio]:
    """What is left of the job beside each flood, by engine."""
    return isolation.ratios([result for result in results if "flood" in result.extra])
