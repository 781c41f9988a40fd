"""A small optical network and its jobs."""

from wiresum.plan.choices import DEFAULT_MTU_BYTES
from wiresum.schedule import WITHOUT_SLOTS, schedule
from wiresum.topology.generators.optical import optical
from wiresum.turns.plans import as_schedule, carried
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload

SLOT_S = 0.5
NOTES_BYTES = 20_000
"""Hellos and their answers, which a busy machine repeats."""
RATE_BPS = 50e6
DARK_S = 0.02


def network(units=3, hosts=2, ports=1, places=1, servers=1, **more):
    return optical(units, hosts, servers, ports=ports, rate_bps=RATE_BPS, places=places, dark_s=DARK_S, **more)


def star(name, workers, server, size, *, iterations=1, arrival_s=0.0):
    return {
        "name": name,
        "workers": workers,
        "server": server,
        "bytes": size,
        "iterations": iterations,
        "arrival_s": arrival_s,
    }


def workload(*jobs):
    return Workload.model_validate({"name": "jobs", "jobs": list(jobs)})


def three_jobs(size=800_000):
    """One in a rack, and two over the only port of u1, so that they need it in turns: all are complete first if `first`
    goes first, as `second` comes a slot later."""
    return workload(
        star("local", {"u0": 2}, "u0", size),
        star("first", {"u0": 1, "u1": 1}, "u1", size),
        star("second", {"u1": 1, "u2": 1}, "u2", size, arrival_s=SLOT_S),
    )


def tree_jobs(size=600_000):
    """One in a rack, one in three and two in two; with `trees` switches sum them all."""
    return workload(
        star("local", {"u0": 2}, "u0", size),
        star("three", {"u0": 2, "u1": 2, "u2": 1}, "u1", size),
        star("two", {"u1": 1, "u3": 1}, "u3", size // 2),
        star("late", {"u2": 1, "u3": 1}, "u3", size, arrival_s=0.3),
    )


def timetable_of(topology, jobs, scheduler="turns", *, trees=False, **options):
    rules = {"trees": trees, "slots": scheduler != WITHOUT_SLOTS}
    return schedule(carried(instance(topology, jobs, SLOT_S, **rules), jobs), scheduler, **options)


def turns_of(topology, jobs, scheduler="turns", **options):
    return as_schedule(timetable_of(topology, jobs, scheduler, **options), topology, jobs)


def assert_carried(fibres, sums):
    """Fibres carried what was promised, and beside it notes and what ranks sent again, each with another result."""
    again = sum(said["repetitions"] for of_job in sums.values() for said in of_job)
    for promised, seen in fibres.values():
        for one, other in zip(promised, seen, strict=True):
            assert one <= other <= one + NOTES_BYTES + 2 * again * DEFAULT_MTU_BYTES
