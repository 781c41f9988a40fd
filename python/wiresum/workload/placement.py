"""Places of servers, or of whole jobs, such that circuits carry little, and no unit's ports far more than others'."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from random import Random
from typing import Any, Literal

from wiresum.errors import WorkloadError
from wiresum.schedule.ask import schedule
from wiresum.topology.circuits import fibres
from wiresum.topology.model import Topology
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload
from wiresum.workload.sites import Placer, unit_of_location, units_of

What = Literal["servers", "all"]
MOST_PASSES = 20
"""Looks at every job: each one makes the sum of squares less, and few are needed."""
NO_PORT = 1e-9
"""Ports of a unit without any, in loads: whatever else is better."""
LESS = 1 - 1e-9
"""A change that gains less than rounding is none."""


def placed(
    topology: Topology,
    workload: Workload,
    slot_s: float,
    what: What = "servers",
    scheduler: str = "turns",
    **options: Any,
) -> Workload:
    """The workload with other places where these let its jobs be complete earlier, or with fewer set-ups, or at all.

    Servers go where the squares of the ports' loads are least in sum, one after another until nothing changes. With
    `all`, workers first go into as few units as possible, the largest jobs first, where the fewest workers are.

    Args:
        topology: with one optical switch.
        workload: its jobs; coflows, and jobs that have no server, keep their places.
        slot_s: seconds after which circuits may change.
        what: the servers alone, or all.
        scheduler: who schedules it.
        options: what the scheduler is told.

    Raises:
        WorkloadError: workload and topology do not fit.
        ScheduleError: a job cannot be served.
    """
    moved = with_servers(topology, with_workers(topology, workload) if what == "all" else workload)

    def worth(jobs: Workload) -> tuple[float, int]:
        cost = schedule(instance(topology, jobs, slot_s), scheduler, bound=False, **options).cost
        return cost.completion_s, cost.setups

    after = worth(moved)
    try:
        return moved if after < worth(workload) else workload
    except WorkloadError:
        return moved


def with_workers(topology: Topology, workload: Workload) -> Workload:
    """Workers of each star in as few units as possible, and its server with most of them."""
    placer = Placer(units_of(topology), Random(0))
    jobs = list(workload.jobs)
    stars = [index for index, job in enumerate(jobs) if job.synchrony == "star" and job.server is not None]
    for index in sorted(stars, key=lambda index: (-jobs[index].total_bytes, index)):
        workers = placer.workers(jobs[index].worker_count)
        jobs[index] = jobs[index].model_copy(update={"workers": workers, "via": {}})
    return workload.model_copy(update={"jobs": jobs})


class _Servers:
    """Where servers are, and what each unit's ports carry each way, in bytes a port: sums go back to workers."""

    def __init__(self, topology: Topology, workload: Workload) -> None:
        found = units_of(topology)
        names = unit_of_location(found)
        self._ports = Counter(fibre.unit for fibre in fibres(topology))
        self._homes = [unit.name for unit in found if unit.servers]
        self._loads: defaultdict[str, float] = defaultdict(float)
        self._workers: dict[int, Counter[str]] = {}
        self._bytes = [job.total_bytes / job.worker_count for job in workload.jobs]
        self.unit: dict[int, str] = {}
        for index, job in enumerate(workload.jobs):
            if job.synchrony == "star" and job.server is not None:
                self._workers[index] = Counter()
                for location, count in job.workers.items():
                    self._workers[index][names[location]] += count
                self._put(index, names[job.server])

    def move(self, index: int) -> bool:
        """Puts a server where the squares of the loads are least in sum; whether that is elsewhere."""
        here = self.unit[index]
        self._add(index, here, -1)
        costs = {home: self._squares_with(index, home) for home in {here: 0, **dict.fromkeys(self._homes)}}
        best = min(costs, key=lambda home: (costs[home], home != here))
        self._put(index, best if costs[best] < costs[here] * LESS else here)
        return self.unit[index] != here

    def _squares_with(self, index: int, home: str) -> float:
        """What matters of the sum: that of the units of the job, and of all that could have its server."""
        if len(set(self._workers[index]) - {home}) > self._ports[home]:
            return math.inf
        self._add(index, home, 1)
        units = {*self._workers[index], *self._homes}
        cost = sum(self._loads[unit] ** 2 for unit in units)
        self._add(index, home, -1)
        return cost

    def _put(self, index: int, home: str) -> None:
        self.unit[index] = home
        self._add(index, home, 1)

    def _add(self, index: int, home: str, sign: int) -> None:
        for unit, workers in self._workers[index].items():
            if unit != home:
                crossing = sign * workers * self._bytes[index]
                for end in (unit, home):
                    self._loads[end] += crossing / max(self._ports[end], NO_PORT)


def with_servers(topology: Topology, workload: Workload) -> Workload:
    """Servers where the squares of the ports' loads are least in sum, one after another, the largest jobs first."""
    servers = _Servers(topology, workload)
    before = dict(servers.unit)
    order = sorted(before, key=lambda index: (-workload.jobs[index].total_bytes, index))
    for _ in range(MOST_PASSES):
        if not sum(servers.move(index) for index in order):
            break
    moved = {index: unit for index, unit in servers.unit.items() if unit != before[index]}
    jobs = [
        job.model_copy(update={"server": moved[index], "via": {}}) if index in moved else job
        for index, job in enumerate(workload.jobs)
    ]
    return workload.model_copy(update={"jobs": jobs})
