"""`wiresum bench isolation`: what a flood at one host costs another host's job at the same server.

Method. Two hosts, each behind a link of its own, and one server. Host 0 is every child of job A and keeps a window of
packets in flight; host 1 floods the server: as the one child of a greedy job B, with and without a quota; with
malformed packets; with packets of an incarnation that is not running; with hellos of a stranger. The figure is what A
sums per second, alone and beside each flood, turn by turn.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from wiresum.bench.isolation.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.service_bed import ServiceBed, finish
from wiresum.plan.choices import Engine

A, B = 1, 2
WINDOW, GREEDY_WINDOW = 16, 32
CHILDREN = 4
HEAD_START_S = 0.3
"""A flood begins before the job that it is to disturb, and ends after it."""
FLOODS = ("alone", "greedy job", "greedy job, quota", "malformed", "foreign", "hellos")


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures every engine beside every flood.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        SupportError: no namespaces, or no XDP.
    """
    results: list[Result] = []
    with ServiceBed(2, options.rate_bps, xdp="xdp" in options.engines) as bed:
        for engine in bed.each(options.engines):
            results += measure_engine(bed, engine, options, progress)
    parameters = {
        "rate_bps": options.rate_bps, "quota_bps": options.quota_bps, "seconds": options.seconds, "runs": options.runs,
    }  # fmt: skip
    return Report("isolation", parameters, results, ratios(results))


def measure_engine(bed: ServiceBed, engine: Engine, options: Options, progress: Callable[[str], None]) -> list[Result]:
    """Every flood beside one engine, turn by turn."""
    cases: dict[str, list[float]] = {flood: [] for flood in FLOODS}
    dropped = dict.fromkeys(FLOODS, 0)
    for run in range(options.runs):
        for flood in FLOODS:
            progress(f"{engine}, {flood}, run {run + 1} of {options.runs}")
            summed, over = measure_one(bed, engine, flood, options)
            cases[flood].append(summed)
            dropped[flood] += over
    return [
        Result(f"{engine}: beside {flood}" if flood != "alone" else f"{engine}: alone", "sums/s", runs,
               {"engine": engine, "flood": flood, "over_quota": dropped[flood]})
        for flood, runs in cases.items()
    ]  # fmt: skip


def measure_one(bed: ServiceBed, engine: Engine, flood: str, options: Options) -> tuple[float, int]:
    """Sums per second of job A beside one flood, and what was dropped as over quota meanwhile."""
    a, b = bed.job(A, 0, CHILDREN, engine), bed.job(B, 1, 1, engine)
    bed.serve(a)
    bed.serve(b, options.quota_bps / 8 if flood.endswith("quota") else None)
    before = over_quota(bed)
    seconds = options.seconds + 2 * HEAD_START_S
    tasks: dict[str, dict[str, Any]] = {
        name: {"kind": "job", "plan": b.to_json(), "window": GREEDY_WINDOW, "seconds": seconds}
        for name in ("greedy job", "greedy job, quota")
    }
    strangers = ("malformed", "short", "foreign", "hellos")
    tasks |= {name: {"kind": name, "job": A, "seconds": seconds} for name in strangers}
    other = bed.begin(1, tasks[flood]) if flood != "alone" else None
    job = bed.begin(0, {"kind": "job", "plan": a.to_json(), "window": WINDOW, "seconds": options.seconds})
    served = finish(job, options.seconds)
    if other:
        finish(other, seconds)
    return served["results"] / CHILDREN / served["seconds"], over_quota(bed) - before


def over_quota(bed: ServiceBed) -> int:
    """Packets that the daemon has dropped as over quota."""
    return int(bed.daemon.ask("status")["verdicts"]["over_quota"])


def ratios(results: list[Result]) -> list[Ratio]:
    """What is left of the job beside each flood, by engine."""
    alone = {r.extra["engine"]: statistics.median(r.runs) for r in results if r.extra["flood"] == "alone"}
    disturbed = [r for r in results if r.extra["flood"] != "alone"]
    return [Ratio(f"{r.name} / alone", r.median / alone[r.extra["engine"]]) for r in disturbed]
