"""From a timetable to a schedule of plans: ports for its circuits, links for its workers, segments for its jobs.

A timetable counts: so many circuits between two units, so many places at a switch. A job keeps what it is given here
for as long as it runs, as its workers would have to join again otherwise: its circuits are the oldest ones between its
units, and circuits that go are the youngest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import SwitchEngine
from wiresum.plan.schedule import FORMAT, Interval, Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.schedule.model import Interval as Slot
from wiresum.schedule.model import Rate, Timetable
from wiresum.topology.circuits import between, optical_switches
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.maker import PlanMaker
from wiresum.workload.model import Workload, WorkloadJob

GOODPUT = 0.92
"""Part of a cable's rate that carries gradients: packets of 728 values have 3 % of headers, the rest is room for what
comes and goes in a queue."""
LEAST_SENDING = 0.1
"""Part of an iteration in which a job sends, at least: one that computes for longer is late anyway, and its links
limit it."""
STEP_SHARE = 0.25
"""Step of `window` as a share of a worker's link: 10 Gbit/s of 40 in the paper."""


def carried(instance: Mapping[str, Any]) -> dict[str, Any]:
    """An instance whose rates are those of gradients, not of cables: a timetable of it can be kept."""
    rates = {key: GOODPUT * instance[key] for key in ("port_bps", "host_bps", "server_bps") if key in instance}
    units = [{**unit, "switch_bps": GOODPUT * unit["switch_bps"]} for unit in instance["units"]]
    return {**instance, **rates, "units": units}


def step_of(instance: Mapping[str, Any]) -> dict[str, Any]:
    """The option of schedulers that says by what steps of a rate `window` goes."""
    return {"step_bps": STEP_SHARE * float(instance["host_bps"])}


def as_schedule(timetable: Timetable, topology: Topology, workload: Workload, engine: SwitchEngine = "udp") -> Schedule:
    """The schedule that a timetable describes, in the same intervals.

    Args:
        timetable: of these jobs over this topology.
        topology: with its optical switch, before which nothing is lit.
        workload: the jobs, which the timetable numbers from 1.
        engine: what runs the switches.

    Raises:
        ScheduleError: the timetable is for other jobs, or a job cannot run as it says; the message names it.
    """
    lit = _lit(timetable.intervals, topology)
    network = SharedNetwork(topology, list(lit), engine)
    return _Conversion(timetable, workload, network).schedule()


def _lit(intervals: Sequence[Slot], topology: Topology) -> list[list[Circuit]]:
    """Circuits of each interval, the oldest first."""
    lit: list[list[Circuit]] = [[]]
    for interval in intervals:
        wanted = {frozenset(one.between): one.circuits for one in interval.circuits}
        lit.append(between(topology, wanted, lit[-1]))
    return lit[1:]


@dataclass(frozen=True)
class _Run:
    """A job while it sends.

    Attributes:
        first: its first interval.
        last: its last interval.
        by: what sums it.
    """

    first: int
    last: int
    by: str

    def meets(self, other: _Run) -> bool:
        return self.first <= other.last and other.first <= self.last


class _Conversion:
    def __init__(self, timetable: Timetable, workload: Workload, network: SharedNetwork) -> None:
        self._slots = timetable.intervals
        self._network = network
        self._maker = PlanMaker(workload, network)
        self._runs = self._find_runs()
        self._circuit_load: Counter[str] = Counter()
        self._pairs = [between_units(network, circuits) for circuits in network.lit]
        self._segments: dict[int, tuple[str, int]] = {}

    def schedule(self) -> Schedule:
        plans = {job: self._plan(job, run) for job, run in self._runs.items()}
        memory = self._memory()
        plans = {job: self._maker.with_memory(plan, memory) for job, plan in plans.items()}
        intervals = [
            Interval(
                from_s=slot.from_s,
                until_s=slot.until_s,
                circuits=list(self._network.lit[index]),
                plans={str(job): plans[job] for job, run in self._runs.items() if run.first <= index <= run.last},
                rates_bps={str(rate.job): self._cable_bps(index, rate) for rate in slot.rates},
            )
            for index, slot in enumerate(self._slots)
        ]
        return Schedule.model_validate({"format": FORMAT, "intervals": intervals})

    def _find_runs(self) -> dict[int, _Run]:
        found: dict[int, _Run] = {}
        for index, slot in enumerate(self._slots):
            for rate in slot.rates:
                if rate.flow is not None:
                    raise ScheduleError(f"job {rate.job} is a coflow, which no plan sums; leave it out")
                if rate.job not in self._maker.jobs:
                    raise ScheduleError(
                        f"job {rate.job} of the timetable is not in the workload; give its own workload"
                    )
                known = found.get(rate.job)
                found[rate.job] = _Run(known.first if known else index, index, rate.by)
        missing = sorted(set(self._maker.jobs) - set(found))
        if missing:
            raise ScheduleError(f"job {missing[0]} is not in the timetable; give the workload that it was made of")
        return dict(sorted(found.items(), key=lambda one: (one[1].first, one[0])))

    def _plan(self, number: int, run: _Run) -> AggregationPlan:
        return self._maker.plan(
            number, run.by, lambda pair: self._circuit(number, run, pair), lambda unit: self._segment(number, run, unit)
        )

    def _circuit(self, number: int, run: _Run, pair: frozenset[str]) -> str:
        """The least used of those between two units that are there as long as the job runs."""
        least = min(len(self._pairs[index].get(pair, [])) for index in range(run.first, run.last + 1))
        if not least:
            raise ScheduleError(f"job {number} has no circuit between {' and '.join(sorted(pair))} in one of its slots")
        chosen = min(self._pairs[run.first][pair][:least], key=self._circuit_load.__getitem__)
        self._circuit_load[chosen] += 1
        return chosen

    def _segment(self, number: int, run: _Run, unit: str) -> int:
        """The first segment of the switch that no job has at the same time."""
        taken = {
            segment
            for other, (there, segment) in self._segments.items()
            if there == unit and self._runs[other].meets(run)
        }
        segment = next(index for index in count() if index not in taken)
        self._segments[number] = (unit, segment)
        return segment

    def _memory(self) -> dict[str, int]:
        """Segments of every switch that sums: as many as are ever in use."""
        found: Counter[str] = Counter()
        for unit, segment in self._segments.values():
            found[unit] = max(found[unit], segment + 1)
        return dict(found)

    def _cable_bps(self, index: int, rate: Rate) -> float:
        slot, run = self._slots[index], self._runs[rate.job]
        before = set(map(self._network.name, self._network.lit[index - 1])) if index else set()
        now = {self._network.name(circuit) for circuit in self._network.lit[index]}
        waits = run.by == "server" and run.first == index and bool(now - before)
        waits_s = dark_s(self._network.topology) if waits else 0.0
        return cable_bps(sending_bps(self._maker.jobs[rate.job], rate.rate_bps), slot.until_s - slot.from_s, waits_s)


def between_units(network: SharedNetwork, circuits: Sequence[Circuit]) -> dict[frozenset[str], list[str]]:
    """Links by the two units that they join."""
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for circuit in circuits:
        link = network.links[network.name(circuit)]
        found[frozenset((link.source, link.target))].append(link.id)
    return found


def cable_bps(rate_bps: float, seconds: float, waits_s: float) -> float:
    """A rate of gradients over a whole interval as one on the cable while there is light.

    Args:
        rate_bps: the average of the interval.
        seconds: of the interval.
        waits_s: seconds of darkness at its begin.
    """
    return max(1.0, rate_bps * seconds / max(seconds - waits_s, seconds / 2) / GOODPUT)


def sending_bps(job: WorkloadJob, mean_bps: float) -> float:
    """The rate at which a job sends that computes between its sums, so that it has the mean rate over both.

    Args:
        job: whose bytes and computing are one iteration's.
        mean_bps: of its gradients.
    """
    computing = job.compute_s * mean_bps / (8 * job.bytes) if job.bytes else 0.0
    return mean_bps / max(1 - computing, LEAST_SENDING)


def dark_s(topology: Topology) -> float:
    """Seconds from an order to traffic."""
    return max((one.oxc.dark_s + one.oxc.settle_s for one in optical_switches(topology) if one.oxc), default=0.0)
