"""A schedule in words: who sends when, over what, and whom a job waits for."""

from __future__ import annotations

from collections.abc import Iterator

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval, Schedule

MEGABIT = 1e6


def explain(schedule: Schedule) -> str:
    """A line for each job, in the order in which they begin, and one for each change of circuits.

    A job waits for those that had, right before it began, a port of its circuits or its place at a switch.
    """
    lines = [f"{len(schedule.intervals)} intervals, {len(_jobs(schedule))} jobs"]
    for index, interval in enumerate(schedule.intervals):
        before = schedule.intervals[index - 1] if index else None
        lines += _changes(interval, before)
        lines += [_begin(schedule, index, job) for job in sorted(interval.plans, key=int) if _is_new(job, before)]
    return "\n".join(lines)


def _jobs(schedule: Schedule) -> set[str]:
    return {job for interval in schedule.intervals for job in interval.plans}


def _is_new(job: str, before: Interval | None) -> bool:
    return before is None or job not in before.plans


def _changes(interval: Interval, before: Interval | None) -> Iterator[str]:
    now, then = (
        {" – ".join(sorted(one.links)) for one in of.circuits} if of is not None else set() for of in (interval, before)
    )
    for verb, circuits in (("goes", then - now), ("is set up", now - then)):
        for circuit in sorted(circuits):
            yield f"{interval.from_s:g} s: the circuit {circuit} {verb}"


def _begin(schedule: Schedule, index: int, job: str) -> str:
    interval, last = schedule.intervals[index], index
    while last + 1 < len(schedule.intervals) and job in schedule.intervals[last + 1].plans:
        last += 1
    until_s, plan = schedule.intervals[last].until_s, interval.plans[job]
    end = "its end" if until_s is None else f"{until_s:g} s"
    rate_bps = interval.rates_bps.get(job)
    rate = "" if rate_bps is None else f", each worker at {rate_bps / MEGABIT:.3g} Mbit/s at most"
    told = f"{interval.from_s:g} s: job {job} begins ({plan.planner}), {len(plan.workers)} workers, until {end}{rate}"
    waits = _waits(schedule, index, plan) if index else []
    return told + (f"; it has waited for job {', '.join(waits)}" if waits else "")


def _waits(schedule: Schedule, index: int, plan: AggregationPlan) -> list[str]:
    """Jobs of the interval before that had what this one takes, and have it no more."""
    before, now = schedule.intervals[index - 1], schedule.intervals[index]
    gone = {job: other for job, other in before.plans.items() if job not in now.plans}
    taken = _takes(plan)
    return sorted((job for job, other in gone.items() if taken & _takes(other)), key=int)


def _takes(plan: AggregationPlan) -> set[tuple[str, str]]:
    """What nobody else can have at the same time: places at switches, and ports of optical switches."""
    places = {(str(place.node), str(place.base)) for stream in plan.streams for place in stream.places if place.slots}
    links = plan.fabric.links if plan.fabric else []
    names = [(switch, ports) for switch, dot, ports in (link.id.rpartition(".") for link in links) if dot]
    return places | {(switch, port) for switch, ports in names for port in ports.split("-")}
