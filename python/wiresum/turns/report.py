"""What was promised beside what was seen: set-ups, times of jobs, bytes on fibres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.schedule import Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.predict.link_bytes import link_bytes
from wiresum.schedule.model import Timetable
from wiresum.testbed.traffic import LinkTraffic
from wiresum.topology.circuits import fibres
from wiresum.topology.model import Topology
from wiresum.turns.driver import plans_of
from wiresum.turns.stage import Seen
from wiresum.workload.model import Workload

NAME_WIDTH = 26
"""Letters of the longest scheduler's and protocol's names that are usual together."""


@dataclass(frozen=True)
class JobTimes:
    """Promised and seen times of one job, in seconds from the start.

    Attributes:
        job: its name.
        by: what sums it.
        arrival_s: when it comes.
        promised_s: begin and end.
        seen_s: begin and end.
        end: how it ended.
    """

    job: str
    by: str
    arrival_s: float
    promised_s: tuple[float, float]
    seen_s: tuple[float, float]
    end: str

    @property
    def is_kept(self) -> bool:
        """Whether it has ended by itself, when it should have or before."""
        return self.end == "done" and self.seen_s[1] <= self.promised_s[1]


@dataclass(frozen=True)
class Comparison:
    """What a scheduler has promised, and what came of it.

    Attributes:
        scheduler: who.
        driver: protocol by which optical switches were ordered.
        setups: promised and seen.
        completion_s: promised and seen.
        jobs: in the workload's order.
        fibres: bytes on each fibre, to the optical switch and from there: promised, and seen.
        pauses_s: of running jobs, from the order to shut their gates to their opening.
        late_s: how long after they were due intervals began.
    """

    scheduler: str
    driver: str
    setups: tuple[int, int]
    completion_s: tuple[float, float]
    jobs: list[JobTimes]
    fibres: dict[str, tuple[tuple[int, int], tuple[int, int]]]
    pauses_s: list[float]
    late_s: list[float]

    @property
    def name(self) -> str:
        """Who has decided, and by which protocol circuits were ordered."""
        return f"{self.scheduler}, {self.driver}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "scheduler": self.scheduler,
            "driver": self.driver,
            "setups": _both(self.setups),
            "completion_s": _both(self.completion_s),
            "jobs": [
                {
                    "job": job.job,
                    "by": job.by,
                    "arrival_s": job.arrival_s,
                    "begin_s": _both((job.promised_s[0], job.seen_s[0])),
                    "end_s": _both((job.promised_s[1], job.seen_s[1])),
                    "end": job.end,
                }
                for job in self.jobs
            ],
            "fibres": {name: _both(values) for name, values in self.fibres.items()},
            "pauses_s": self.pauses_s,
            "late_s": self.late_s,
        }


@dataclass(frozen=True)
class Promise:
    """What a run is held against.

    Attributes:
        topology: with its optical switch.
        workload: the jobs.
        timetable: what was promised.
        schedule: made of it.
        driver: protocol by which optical switches are ordered.
    """

    topology: Topology
    workload: Workload
    timetable: Timetable
    schedule: Schedule
    driver: str = "emulated"


def compare(promise: Promise, seen: Seen, traffic: Mapping[str, LinkTraffic]) -> Comparison:
    """Holds a run against its timetable.

    Args:
        promise: what was to happen.
        seen: by the driver.
        traffic: of each link during the run.
    """
    timetable, workload = promise.timetable, promise.workload
    costs = {cost.job: cost for cost in timetable.cost.jobs}
    times = []
    for number, job in enumerate(workload.jobs, 1):
        cost, turn = costs[number], seen.turns[number]
        promised, found = (cost.start_s, cost.end_s), (turn.begin_s, turn.end_s)
        times.append(JobTimes(job.name, cost.by, job.arrival_s, promised, found, turn.end))
    promised_bytes = fibre_bytes(promise.schedule, promise.topology, workload)
    found_bytes = {name: (traffic[name].forward.bytes, traffic[name].backward.bytes) for name in promised_bytes}
    return Comparison(
        scheduler=timetable.scheduler,
        driver=promise.driver,
        setups=(timetable.cost.setups, seen.setups),
        completion_s=(timetable.cost.completion_s, max(job.seen_s[1] for job in times)),
        jobs=times,
        fibres={name: (promised_bytes[name], found_bytes[name]) for name in promised_bytes},
        pauses_s=[step.begin_s - step.shut_s for step in seen.steps if step.paused],
        late_s=[step.begin_s - step.due_s for step in seen.steps],
    )


def fibre_bytes(schedule: Schedule, topology: Topology, workload: Workload) -> dict[str, tuple[int, int]]:
    """Bytes that a schedule's jobs put on each fibre, to the optical switch and from there, if nothing is lost.

    A job's bytes are taken to be one all-reduce of float32 in each iteration. Counted as Linux does, headers included.
    """
    network = SharedNetwork.of(schedule, topology)
    ends = {network.name(one): one.links for interval in schedule.intervals for one in interval.circuits}
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    total: dict[str, list[int]] = {fibre: [0, 0] for fibre in unit}
    jobs = dict(enumerate(workload.jobs, 1))
    for number, plan in plans_of(schedule).items():
        job = jobs[number]
        for link, counts in link_bytes(plan, -(-(job.bytes or 0) // LANE_BYTES)).items():
            for fibre in ends.get(link, ()):
                # A link's first end is its source: what leaves there enters the optical switch by the source's fibre.
                out, back = counts if unit[fibre] == network.links[link].source else counts[::-1]
                total[fibre][0] += out * job.iterations
                total[fibre][1] += back * job.iterations
    return {fibre: (out, back) for fibre, (out, back) in total.items()}


def words(comparison: Comparison) -> list[str]:
    """Lines for people."""
    promised, found = comparison.completion_s
    setups = comparison.setups
    lines = [
        f"{comparison.name}: complete after {found:.2f} s, promised {promised:.2f} s; "
        f"{setups[1]} set-ups, promised {setups[0]}"
    ]
    for job in comparison.jobs:
        end = "" if job.is_kept else f", {_late(job)}"
        lines.append(
            f"  {job.job}, by {job.by}: {job.seen_s[0]:.2f} to {job.seen_s[1]:.2f} s, "
            f"promised {job.promised_s[0]:.2f} to {job.promised_s[1]:.2f} s{end}"
        )
    out = [sum(values) for values in zip(*(_flat(values) for values in comparison.fibres.values()), strict=True)]
    if out:
        lines.append(f"  fibres carried {out[1]} bytes, promised {out[0]}")
    return lines


def table(comparisons: Sequence[Comparison]) -> list[str]:
    """One line for each run, if there are several."""
    if len(comparisons) < 2:  # noqa: PLR2004 - one needs no table
        return []
    lines = [
        f"{'scheduler, driver':{NAME_WIDTH}} {'complete':>9} {'promised':>9} {'set-ups':>8} {'mean time of a job':>19}"
    ]
    for one in comparisons:
        mean_s = sum(job.seen_s[1] - job.arrival_s for job in one.jobs) / len(one.jobs)
        complete, promised = one.completion_s[1], one.completion_s[0]
        lines.append(f"{one.name:{NAME_WIDTH}} {complete:7.2f} s {promised:7.2f} s {one.setups[1]:8} {mean_s:17.2f} s")
    return lines


def _late(job: JobTimes) -> str:
    return f"{job.seen_s[1] - job.promised_s[1]:.2f} s late" if job.end == "done" else job.end


def _flat(values: tuple[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
    return sum(values[0]), sum(values[1])


def _both(values: tuple[Any, Any]) -> dict[str, Any]:
    return {"promised": values[0], "seen": values[1]}
