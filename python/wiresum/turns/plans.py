"""From a timetable to a schedule of plans: ports for its circuits, links for its workers, segments for its jobs.

A timetable counts: so many circuits between two units, so many places at a switch. A job keeps what it is given here
for as long as it runs, as its workers would have to join again otherwise: its circuits are the oldest ones between its
units, and circuits that go are the youngest.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import FORMAT as PLAN_FORMAT
from wiresum.plan.aggregation_plan import (
    AggregationPlan,
    PlanJob,
    PlanLeg,
    PlanPlace,
    PlanStream,
    PlanWorker,
)
from wiresum.plan.choices import DEFAULT_WINDOW, SwitchEngine, SwitchPolicy
from wiresum.plan.fabric import MAX_SWITCHED_VALUES, FabricMemory, PlanFabric
from wiresum.plan.members import WorkerChild
from wiresum.plan.schedule import FORMAT, Interval, Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.schedule.model import Interval as Slot
from wiresum.schedule.model import Timetable
from wiresum.topology.circuits import between, optical_switches
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.sites import Unit, units_of

GOODPUT = 0.92
"""Part of a cable's rate that carries gradients: packets of 728 values have 3 % of headers, the rest is room for what
comes and goes in a queue."""
POLICY: SwitchPolicy = "segment"
"""Its segments are given to jobs at run time (P4INC-AOI §VI-B)."""
CODEC = "fixed:1e6"
EXPONENT_WINDOW = 32
TIMEOUT_S = 0.2
SEGMENT_SLOTS = DEFAULT_WINDOW + EXPONENT_WINDOW
"""Slots of a place: a job's windows. All places of a switch have the same size, so any job may have any of them."""
STEP_SHARE = 0.25
"""Of a worker's link: the step of `window`, 10 Gbit/s of 40 in the paper."""


def carried(instance: Mapping[str, Any]) -> dict[str, Any]:
    """An instance whose rates are those of gradients, not of cables: a timetable of it can be kept."""
    rates = {key: GOODPUT * instance[key] for key in ("port_bps", "host_bps", "server_bps") if key in instance}
    units = [{**unit, "switch_bps": GOODPUT * unit["switch_bps"]} for unit in instance["units"]]
    return {**instance, **rates, "units": units}


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
        self._jobs = dict(enumerate(workload.jobs, 1))
        self._units = {unit.name: unit for unit in units_of(network.topology)}
        self._runs = self._find_runs()
        self._hosts: Counter[str] = Counter()
        self._circuit_load: Counter[str] = Counter()
        self._pairs = [self._between_units(circuits) for circuits in network.lit]
        self._segments: dict[int, tuple[str, int]] = {}

    def schedule(self) -> Schedule:
        plans = {job: self._plan(job, run) for job, run in self._runs.items()}
        memory = self._memory()
        plans = {job: self._with_memory(plan, memory) for job, plan in plans.items()}
        intervals = [
            Interval(
                from_s=slot.from_s,
                until_s=slot.until_s,
                circuits=list(self._network.lit[index]),
                plans={str(job): plans[job] for job, run in self._runs.items() if run.first <= index <= run.last},
                rates_bps={str(rate.job): self._cable_bps(index, rate.job, rate.rate_bps) for rate in slot.rates},
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
                if rate.job not in self._jobs:
                    raise ScheduleError(
                        f"job {rate.job} of the timetable is not in the workload; give its own workload"
                    )
                known = found.get(rate.job)
                found[rate.job] = _Run(known.first if known else index, index, rate.by)
        missing = sorted(set(self._jobs) - set(found))
        if missing:
            raise ScheduleError(f"job {missing[0]} is not in the timetable; give the workload that it was made of")
        return dict(sorted(found.items(), key=lambda one: (one[1].first, one[0])))

    def _between_units(self, circuits: Sequence[Circuit]) -> dict[frozenset[str], list[str]]:
        found: dict[frozenset[str], list[str]] = defaultdict(list)
        for circuit in circuits:
            link = self._network.links[self._network.name(circuit)]
            found[frozenset((link.source, link.target))].append(link.id)
        return found

    def _plan(self, number: int, run: _Run) -> AggregationPlan:
        job = self._jobs[number]
        hosts = [host for location, workers in job.workers.items() for host in self._take_hosts(job, location, workers)]
        unit = {host: self._unit_of(host).name for host in hosts}
        top = self._top(job, run, unit)
        ways = {host: self._way(number, run, host, unit[host], top) for host in hosts}
        ranks = {host: rank for rank, host in enumerate(hosts)}
        links = list(dict.fromkeys(link for way in ways.values() for link in way))
        ends = {end for link in links for end in (self._network.links[link].source, self._network.links[link].target)}
        place = self._place(number, run, top)
        streams = [
            self._stream(0, place, ways, ranks, top),
            self._stream(1, place, ways, ranks, top),
        ]
        return AggregationPlan.build(
            format=PLAN_FORMAT,
            planner=f"turns: {job.name}, summed by a {run.by}",
            job=PlanJob(
                id=number, secret=secrets.token_hex(8), values_per_packet=MAX_SWITCHED_VALUES, codec=CODEC
            ).model_dump(),
            nodes=[node.model_dump() for node in self._network.nodes(ends - set(hosts))],
            workers=[PlanWorker(rank=rank, name=host).model_dump() for host, rank in ranks.items()],
            streams=[stream.model_dump() for stream in streams],
            fabric=PlanFabric(
                timeout_s=TIMEOUT_S,
                links=[self._network.link(link, ranks, number) for link in links],
                memory=[] if place is None else [FabricMemory(node=self._network.number(top), slots=place.base_end)],
            ).model_dump(),
        )

    def _unit_of(self, host: str) -> Unit:
        return next(unit for unit in self._units.values() if host in {*unit.hosts, *unit.servers})

    def _take_hosts(self, job: WorkloadJob, location: str, workers: int) -> list[str]:
        """Hosts for a job's workers at a location, those with the fewest workers of other jobs first."""
        there = list(self._units[location].hosts) if location in self._units else [location]
        if workers > len(there):
            problem = f"job {job.name}: {workers} workers at {location}, which has {len(there)} hosts"
            raise ScheduleError(f"{problem}; a host has one worker of a job, so give it more hosts")
        chosen = sorted(there, key=self._hosts.__getitem__)[:workers]
        self._hosts.update(chosen)
        return chosen

    def _top(self, job: WorkloadJob, run: _Run, unit: Mapping[str, str]) -> str:
        """The node that has the sums."""
        if run.by == "switch":
            return next(iter(unit.values()))
        if job.server is None or (job.server in self._units and not self._units[job.server].servers):
            raise ScheduleError(f"job {job.name} is summed by a server and its workload names none; name one")
        if job.server not in self._units:
            return job.server
        server = min(self._units[job.server].servers, key=self._hosts.__getitem__)
        self._hosts[server] += 1
        return server

    def _way(self, number: int, run: _Run, host: str, unit: str, top: str) -> list[str]:
        """Links from a worker to where its values are summed."""
        first = self._cable(host)
        if top == unit:
            return [first]
        home = self._unit_of(top).name
        between_units = [] if home == unit else [self._circuit(number, run, frozenset((unit, home)))]
        return [first, *between_units, self._cable(top)]

    def _cable(self, host: str) -> str:
        return next(link.id for link in self._network.links.values() if host in (link.source, link.target))

    def _circuit(self, number: int, run: _Run, pair: frozenset[str]) -> str:
        """The least used of those between two units that are there as long as the job runs."""
        least = min(len(self._pairs[index].get(pair, [])) for index in range(run.first, run.last + 1))
        if not least:
            raise ScheduleError(f"job {number} has no circuit between {' and '.join(sorted(pair))} in one of its slots")
        chosen = min(self._pairs[run.first][pair][:least], key=self._circuit_load.__getitem__)
        self._circuit_load[chosen] += 1
        return chosen

    def _place(self, number: int, run: _Run, top: str) -> _Segment | None:
        """The first segment of the switch that no job has at the same time."""
        if run.by == "server":
            return None
        taken = {
            segment for other, (unit, segment) in self._segments.items() if unit == top and self._runs[other].meets(run)
        }
        segment = next(index for index in count() if index not in taken)
        self._segments[number] = (top, segment)
        return _Segment(segment * SEGMENT_SLOTS)

    def _stream(
        self, number: int, place: _Segment | None, ways: Mapping[str, list[str]], ranks: Mapping[str, int], top: str
    ) -> PlanStream:
        is_check = number == 0
        node = self._network.number(top)
        there = PlanPlace(node=node) if place is None else place.part(node, is_check)
        legs = [PlanLeg(child=WorkerChild(worker=ranks[host]), parent=node, links=way) for host, way in ways.items()]
        return PlanStream(
            id=number,
            name="exponents" if is_check else "values",
            role="exponents" if is_check else "values",
            share=0.0 if is_check else 1.0,
            policy=POLICY,
            window=EXPONENT_WINDOW if is_check else DEFAULT_WINDOW,
            places=[there],
            legs=legs,
        )

    def _memory(self) -> dict[int, int]:
        """Slots of every switch that sums: those of all of its places, as many as are ever in use."""
        found: Counter[str] = Counter()
        for unit, segment in self._segments.values():
            found[unit] = max(found[unit], (segment + 1) * SEGMENT_SLOTS)
        return {self._network.number(unit): slots for unit, slots in found.items()}

    def _with_memory(self, plan: AggregationPlan, memory: Mapping[int, int]) -> AggregationPlan:
        assert plan.fabric is not None, "it was made with one"
        own = [FabricMemory(node=one.node, slots=memory[one.node]) for one in plan.fabric.memory]
        return plan.model_copy(update={"fabric": plan.fabric.model_copy(update={"memory": own})})

    def _cable_bps(self, index: int, number: int, rate_bps: float) -> float:
        """A rate of gradients over a whole interval as one on the cable while there is light."""
        slot = self._slots[index]
        seconds = slot.until_s - slot.from_s
        before = set(map(self._network.name, self._network.lit[index - 1])) if index else set()
        now = {self._network.name(circuit) for circuit in self._network.lit[index]}
        run = self._runs[number]
        waits = run.by == "server" and run.first == index and bool(now - before)
        dark_s = self._dark_s() if waits else 0.0
        return max(1.0, rate_bps * seconds / max(seconds - dark_s, seconds / 2) / GOODPUT)

    def _dark_s(self) -> float:
        switches = optical_switches(self._network.topology)
        return max((one.oxc.dark_s + one.oxc.settle_s for one in switches if one.oxc), default=0.0)


@dataclass(frozen=True)
class _Segment:
    """Slots of a job at a switch: those of the exponents, then those of the values."""

    base: int

    @property
    def base_end(self) -> int:
        return self.base + SEGMENT_SLOTS

    def part(self, node: int, is_check: bool) -> PlanPlace:
        slots = EXPONENT_WINDOW if is_check else DEFAULT_WINDOW
        return PlanPlace(node=node, base=self.base + (0 if is_check else EXPONENT_WINDOW), slots=slots)
