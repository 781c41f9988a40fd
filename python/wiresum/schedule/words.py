"""A timetable in words: who waits for what, which circuits change, and what is proven."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from wiresum import _native
from wiresum.schedule.model import Interval, Timetable

SUMMARY_LINES = 3
"""The first lines, which say how good the timetable is."""
SHOWN_JOBS = 12
"""Jobs that an interval names; more would hide the circuits."""
Lit = dict[tuple[str, ...], int]
"""Number of circuits between two units, whose names are sorted."""


def words(timetable: Timetable, instance: Mapping[str, Any]) -> Iterator[str]:
    """Line by line."""
    cost = timetable.cost
    yield f"{timetable.scheduler}: {len(cost.jobs)} jobs are complete after {cost.completion_s:.4g} s."
    if timetable.bound_s is not None and timetable.gap is not None:
        what = (
            "complete then, as soon as possible" if timetable.status == "optimal" else f"{timetable.gap:.1%} above that"
        )
        yield f"No schedule is complete before {timetable.bound_s:.4g} s; this one is {what}."
    yield (
        f"{cost.setups} circuits are set up in {cost.reconfigurations} reconfigurations. Switches sum "
        f"{cost.share_summed:.0%} of the bytes, and circuits are used for {cost.light_used:.0%} of the time with light."
    )
    arrivals = {job["id"]: job.get("arrival_s", 0.0) for job in instance["jobs"]}
    waits = sorted(((job.start_s - arrivals[job.job], job) for job in cost.jobs), key=lambda one: -one[0])
    if waits and waits[0][0] > 0:
        seconds, job = waits[0]
        yield f"Job {job.job} waits longest, {seconds:.4g} s, and is then summed by a {job.by}."
    lit = before(instance)
    for interval in timetable.intervals:
        yield _interval(interval, lit)
        lit = lit_in(interval)


def before(instance: Mapping[str, Any]) -> Lit:
    """Circuits before the first interval."""
    problem = json.loads(_native.schedule_problem(json.dumps(instance)))
    names = [unit["name"] for unit in instance["units"]]
    counts = zip(problem["pairs"], problem["before"], strict=True)
    return {tuple(sorted(names[unit] for unit in units)): count for units, count in counts if count}


def lit_in(interval: Interval) -> Lit:
    """Circuits of an interval."""
    return {tuple(sorted(one.between)): one.circuits for one in interval.circuits}


def added(interval: Interval, lit: Lit) -> Lit:
    """Circuits of an interval that are new after those that were lit."""
    now = lit_in(interval).items()
    return {pair: count - lit.get(pair, 0) for pair, count in now if count > lit.get(pair, 0)}


def _interval(interval: Interval, lit: Lit) -> str:
    new = added(interval, lit)
    jobs = {by: sorted({rate.job for rate in interval.rates if rate.by == by}) for by in ("switch", "server")}
    parts = [f"{by}: {_some(names)}" for by, names in jobs.items() if names]
    changes = ", ".join(f"{'-'.join(pair)} x {count}" for pair, count in sorted(new.items()))
    sends = "; ".join(parts) or "nobody sends"
    return f"{interval.from_s:.4g} to {interval.until_s:.4g} s: {sends}" + (f"; new circuits {changes}" if new else "")


def _some(jobs: list[int]) -> str:
    shown = ", ".join(map(str, jobs[:SHOWN_JOBS]))
    return shown + (f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else "")
