"""From a timetable to a schedule of plans: ports for its circuits, links for its workers, segments for its jobs.

A timetable counts: so many circuits between two units, so many places at a switch. A job keeps what it is given here
for as long as it runs, as its workers would have to join again otherwise: its circuits are the oldest ones between its
units, and circuits that go are the youngest. Where a circuit would then have more to carry than it can, `dealing`
says who has which, and which go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import SwitchEngine
from wiresum.plan.schedule import FORMAT, Interval, Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.schedule.model import Interval as Slot
from wiresum.schedule.model import Rate, Timetable
from wiresum.topology.circuits import between, fibres
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.darkness import dark_s, darkened
from wiresum.turns.dealing import Deal, Need, deal
from wiresum.turns.maker import PlanMaker, free_segment
from wiresum.turns.sharing import capacity_bps, links_of
from wiresum.turns.shifts import interleaved
from wiresum.workload.model import Workload, WorkloadJob

GOODPUT = 0.92
"""Part of a cable's rate that carries gradients: packets of 728 values have 3 % of headers, the rest is room for what
comes and goes in a queue."""
SLACK = 1e-6
"""Part of a circuit's rate that rounding explains."""
LEAST_SENDING = 0.1
"""Part of an iteration in which a job sends, at least: one that computes for longer is late anyway, and its links
limit it."""
STEP_SHARE = 0.25
"""Step of `window` as a share of a worker's link: 10 Gbit/s of 40 in the paper."""


def carried(instance: Mapping[str, Any], workload: Workload | None = None) -> dict[str, Any]:
    """An instance whose rates are those of gradients, not of cables: a timetable of it can be kept.

    Cables of hosts and servers are as dark as the circuits that jobs wait for at the start of a slot, which timetables
    count of circuits alone; without slots no job waits for light in its turn. A job that computes between its sums has
    its cable only for the rest of an iteration.

    Args:
        instance: with the rates of cables.
        workload: its jobs, where they may compute between their sums.
    """
    lit = 1 - float(instance["dark_s"]) / float(instance["slot_s"]) if instance.get("slots", True) else 1.0
    shares = {"port_bps": GOODPUT, "host_bps": GOODPUT * lit, "server_bps": GOODPUT * lit}
    rates = {key: share * instance[key] for key, share in shares.items() if key in instance}
    units = [{**unit, "switch_bps": GOODPUT * unit["switch_bps"]} for unit in instance["units"]]
    made = {**instance, **rates, "units": units}
    if workload is None:
        return made
    jobs = [_with_computing(*one, made["host_bps"]) for one in zip(instance["jobs"], workload.jobs, strict=True)]
    return {**made, "jobs": jobs}


def _with_computing(described: Mapping[str, Any], job: WorkloadJob, host_bps: float) -> dict[str, Any]:
    """A job of an instance, at most at the rate that a worker has over whole iterations."""
    if not (job.compute_s and job.bytes):
        return dict(described)
    bits = 8 * job.bytes
    star = {**described["traffic"]["star"], "host_bps": bits / (bits / host_bps + job.compute_s)}
    return {**described, "traffic": {"star": star}}


def step_of(instance: Mapping[str, Any]) -> dict[str, Any]:
    """The option of schedulers that says by what steps of a rate `window` goes."""
    return {"step_bps": STEP_SHARE * float(instance["host_bps"])}


@dataclass(frozen=True)
class Assigned:
    """What a timetable counts, with names.

    Attributes:
        network: numbers nodes and links for all plans.
        intervals: those of the timetable; rates are on the cable, whatever links carry.
    """

    network: SharedNetwork
    intervals: list[Interval]


def assigned(timetable: Timetable, topology: Topology, workload: Workload, engine: SwitchEngine = "udp") -> Assigned:
    """Ports, plans and segments for a timetable.

    Args:
        timetable: of these jobs over this topology.
        topology: with its optical switch, before which nothing is lit.
        workload: the jobs, which the timetable numbers from 1.
        engine: what runs the switches.

    Raises:
        ScheduleError: the timetable is for other jobs, or a job cannot run as it says; the message names it.
    """

    def converted(deals: Mapping[frozenset[str], Deal]) -> tuple[Assigned, dict[frozenset[str], Deal]]:
        network = SharedNetwork(topology, _lit(timetable.intervals, topology, deals), engine)
        conversion = _Conversion(timetable, workload, network, deals)
        return Assigned(network, conversion.intervals()), conversion.better_deals()

    found, deals = converted({})
    return converted(deals)[0] if deals else found


def as_schedule(timetable: Timetable, topology: Topology, workload: Workload, engine: SwitchEngine = "udp") -> Schedule:
    """The schedule that a timetable describes: in the same intervals, but where jobs that compute are shifted.

    Arguments and errors are those of `assigned`.
    """
    found = assigned(timetable, topology, workload, engine)
    intervals = interleaved(found.intervals, dict(enumerate(workload.jobs, 1)), found.network)
    return Schedule.model_validate({"format": FORMAT, "intervals": intervals})


def _lit(intervals: Sequence[Slot], topology: Topology, deals: Mapping[frozenset[str], Deal]) -> list[list[Circuit]]:
    """Circuits of each interval, the oldest first; the youngest go first, except where a deal says others."""
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    lit: list[list[Circuit]] = [[]]
    for index, interval in enumerate(intervals):
        positions: Counter[frozenset[str]] = Counter()
        stay = []
        for circuit in lit[-1]:
            pair = frozenset(unit[link] for link in circuit.links)
            if pair not in deals or deals[pair].stays(index, positions[pair]):
                stay.append(circuit)
            positions[pair] += 1
        wanted = {frozenset(one.between): one.circuits for one in interval.circuits}
        lit.append(between(topology, wanted, stay))
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
    def __init__(
        self,
        timetable: Timetable,
        workload: Workload,
        network: SharedNetwork,
        deals: Mapping[frozenset[str], Deal],
    ) -> None:
        self._slots = timetable.intervals
        self._network, self._deals = network, deals
        self._maker = PlanMaker(workload, network)
        self._runs = self._find_runs()
        self._rates = self._find_rates()
        self._circuit_load: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * len(self._slots))
        self._needs: defaultdict[frozenset[str], list[Need]] = defaultdict(list)
        self._pairs = [between_units(network, circuits) for circuits in network.lit]
        lit = [set[str](), *(set(map(network.name, circuits)) for circuits in network.lit)]
        self._dark = [darkened(network, before, now) for before, now in pairwise(lit)]
        self._segments: dict[int, dict[str, int]] = {}

    def intervals(self) -> list[Interval]:
        plans = {job: self._plan(job, run) for job, run in self._runs.items()}
        memory = self._memory()
        plans = {job: self._maker.with_memory(plan, memory) for job, plan in plans.items()}
        return [
            Interval(
                from_s=slot.from_s,
                until_s=slot.until_s,
                circuits=list(self._network.lit[index]),
                plans={str(job): plans[job] for job, run in self._runs.items() if run.first <= index <= run.last},
                rates_bps=self._rates_bps(index, plans),
            )
            for index, slot in enumerate(self._slots)
        ]

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

    def _find_rates(self) -> dict[int, dict[int, float]]:
        """bit/s of each job's workers, by interval."""
        found: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for index, slot in enumerate(self._slots):
            for rate in slot.rates:
                found[rate.job][index] = rate.rate_bps
        return found

    def _plan(self, number: int, run: _Run) -> AggregationPlan:
        return self._maker.plan(
            number,
            run.by,
            lambda pair: self._circuit(number, run, pair),
            lambda units: self._segment(number, run, units),
        )

    def better_deals(self) -> dict[frozenset[str], Deal]:
        """Deals for pairs of units where a circuit has more to carry than it can, as far as some were found."""
        found = {pair: self._better_deal(pair) for pair in self._needs if pair not in self._deals}
        return {pair: deal for pair, deal in found.items() if deal is not None}

    def _better_deal(self, pair: frozenset[str]) -> Deal | None:
        counts = [len(circuits.get(pair, [])) for circuits in self._pairs]
        links = {link for circuits in self._pairs for link in circuits.get(pair, [])}
        bps = min(capacity_bps(self._network, link) for link in links)
        # Some timetables leave no room for headers.
        fullest = max(
            sum(need.bps.get(i, 0.0) for need in self._needs[pair]) / max(count, 1) for i, count in enumerate(counts)
        )
        most_bps = (1 + SLACK) * (GOODPUT * bps if fullest <= (1 + SLACK) * GOODPUT * bps else bps)
        if all(load <= most_bps for link in links for load in self._circuit_load[link]):
            return None
        return deal(counts, self._needs[pair], most_bps)

    def _circuit(self, number: int, run: _Run, pair: frozenset[str]) -> str:
        """What the pair's deal says, or the least loaded circuit that is there as long as the job runs.

        The youngest of equals leaves older ones to jobs that run for longer.
        """
        needs = self._needs[pair]
        needs.append(Need(run.first, run.last, self._rates[number]))
        if pair in self._deals:
            position = self._deals[pair].lit[run.first].index(self._deals[pair].chosen[len(needs) - 1])
            return self._pairs[run.first][pair][position]
        least = min(len(self._pairs[index].get(pair, [])) for index in range(run.first, run.last + 1))
        if not least:
            raise ScheduleError(f"job {number} has no circuit between {' and '.join(sorted(pair))} in one of its slots")
        rates = self._rates[number]

        def peak_bps(link: str) -> float:
            load = self._circuit_load[link]
            return max(load[index] + bps for index, bps in rates.items())

        chosen = min(reversed(self._pairs[run.first][pair][:least]), key=peak_bps)
        for index, bps in rates.items():
            self._circuit_load[chosen][index] += bps
        return chosen

    def _segment(self, number: int, run: _Run, units: Collection[str]) -> int:
        """The first segment of some switches that no job has at the same time."""
        meeting = [there for other, there in self._segments.items() if self._runs[other].meets(run)]
        segment = free_segment(units, meeting)
        self._segments[number] = dict.fromkeys(units, segment)
        return segment

    def _memory(self) -> dict[str, int]:
        """Segments of every switch that sums: as many as are ever in use."""
        found: Counter[str] = Counter()
        for unit, segment in (one for there in self._segments.values() for one in there.items()):
            found[unit] = max(found[unit], segment + 1)
        return dict(found)

    def _rates_bps(self, index: int, plans: Mapping[int, AggregationPlan]) -> dict[str, float]:
        return {str(rate.job): self._cable_bps(index, rate, plans[rate.job]) for rate in self._slots[index].rates}

    def _cable_bps(self, index: int, rate: Rate, plan: AggregationPlan) -> float:
        slot = self._slots[index]
        waits = self._runs[rate.job].first == index and bool(self._dark[index] & links_of(plan))
        waits_s = dark_s(self._network.topology) if waits else 0.0
        return cable_bps(sending_bps(self._maker.jobs[rate.job], rate.rate_bps), slot.until_s - slot.from_s, waits_s)


def between_units(network: SharedNetwork, circuits: Sequence[Circuit]) -> dict[frozenset[str], list[str]]:
    """Links by the two units that they join."""
    found: dict[frozenset[str], list[str]] = defaultdict(list)
    for circuit in circuits:
        link = network.links[network.name(circuit)]
        found[frozenset((link.source, link.target))].append(link.id)
    return found


def cable_bps(rate_bps: float, seconds: float, waits_s: float, goodput: float = GOODPUT) -> float:
    """A rate of gradients over a whole interval as one on the cable while there is light.

    Args:
        rate_bps: the average of the interval.
        seconds: of the interval.
        waits_s: seconds of darkness at its begin.
        goodput: part of a cable's rate that carries gradients.
    """
    return max(1.0, rate_bps * seconds / max(seconds - waits_s, seconds / 2) / goodput)


def sending_bps(job: WorkloadJob, mean_bps: float) -> float:
    """The rate at which a job sends that computes between its sums, so that it has the mean rate over both.

    Args:
        job: whose bytes and computing are one iteration's.
        mean_bps: of its gradients.
    """
    computing = job.compute_s * mean_bps / (8 * job.bytes) if job.bytes else 0.0
    return mean_bps / max(1 - computing, LEAST_SENDING)
