"""Schedules that follow failures: what runs goes on, what has not begun takes other ports, or waits, or is given up.

Nobody is asked who decided the schedule: as with plans, as little as possible moves. A job that has not begun and lost
a circuit takes another one between the same two units, at its time if ports, memory and links are free then, else as
soon as they are. Everyone else keeps plan and time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise

from wiresum.errors import ScheduleError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.fabric import FabricLink
from wiresum.plan.members import NodeChild
from wiresum.plan.schedule import FORMAT, Interval, Schedule
from wiresum.plan.shared import SharedNetwork, numbers
from wiresum.topology.circuits import optical_switches
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.detours import link_of, over
from wiresum.turns.ports import all_circuits
from wiresum.turns.sharing import capacity_bps, links_of, loads_bps

INSTANT_S = 1e-9
"""Times that are closer are one."""
SLACK = 1e-6
"""Relative slack of a link's rate, for sums of many rates."""
MOST_NAMED = 3
"""Names of what is gone that a sentence has room for."""


@dataclass(frozen=True)
class Part:
    """A time in which a job sends, and how fast each worker may."""

    from_s: float
    until_s: float
    rate_bps: float | None


@dataclass(frozen=True)
class Run:
    """A job while it has turns.

    Attributes:
        job: its number.
        plan: how it is summed.
        parts: its turns, in order of time.
    """

    job: int
    plan: AggregationPlan
    parts: Sequence[Part]

    @property
    def begin_s(self) -> float:
        """Begin of its first turn."""
        return self.parts[0].from_s

    @property
    def end_s(self) -> float:
        """End of its last turn."""
        return self.parts[-1].until_s

    @property
    def links(self) -> set[str]:
        """Ids of all links and circuits that it uses."""
        return links_of(self.plan)

    def later(self, seconds: float) -> Run:
        """The same turns, so much later."""
        parts = [Part(part.from_s + seconds, part.until_s + seconds, part.rate_bps) for part in self.parts]
        return replace(self, parts=parts)

    def over(self, links: Mapping[str, FabricLink]) -> Run:
        """The same turns over other links."""
        return replace(self, plan=over(self.plan, links))

    def rate_bps(self, at_s: float) -> float:
        """What each worker may send at a time; nothing where the job has no turn, or sends as it can."""
        return next((part.rate_bps or 0.0 for part in self.parts if part.from_s <= at_s < part.until_s), 0.0)


@dataclass(frozen=True)
class ScheduleAdjustment:
    """An adjusted schedule.

    Attributes:
        schedule: from now on; its times count from now.
        reasons: what has changed, for each job, and why.
        given_up: jobs that are in it no more though they have not ended.
    """

    schedule: Schedule
    reasons: Sequence[str] = ()
    given_up: Sequence[int] = ()


def adjust_schedule(schedule: Schedule, topology: Topology, at_s: float = 0.0) -> ScheduleAdjustment:
    """The rest of a schedule after ports, fibres or nodes have failed.

    Args:
        schedule: so far.
        topology: as it is now, without what has failed.
        at_s: how far the schedule is, in seconds from its begin.

    Raises:
        ScheduleError: it is over, or none of its jobs can go on.
    """
    return _Adjusting(schedule, topology, at_s).adjusted()


class _Adjusting:
    def __init__(self, schedule: Schedule, topology: Topology, at_s: float) -> None:
        self._schedule, self._topology, self._at_s = schedule, topology, at_s
        self._switches = {switch.name: switch for switch in optical_switches(topology)}
        unnamed = next((one.name for one in self._switches.values() if not (one.oxc and one.oxc.ports)), None)
        if unnamed is not None:
            problem = f"optical switch {unnamed} names no ports, so those after a fibre that is gone have new numbers"
            raise ScheduleError(f"{problem}; list its `ports` in the topology")
        there = {link.id for link in topology.links}
        self._alive = [
            [circuit for circuit in interval.circuits if there.issuperset(circuit.links)]
            for interval in schedule.intervals
        ]
        alive = {frozenset(circuit.links) for circuits in self._alive for circuit in circuits}
        spare = [[circuit] for circuit in all_circuits(topology) if frozenset(circuit.links) not in alive]
        self._known = numbers(schedule)
        self._network = SharedNetwork(topology, [*self._alive, *spare], known=self._known)
        self._circuits = {self._network.name(one): one for circuits in (*self._alive, *spare) for one in circuits}
        self._kept: list[Run] = []
        self._reasons: list[str] = []
        self._given_up: list[int] = []

    def adjusted(self) -> ScheduleAdjustment:
        runs = _runs(self._schedule, self._at_s)
        if not runs:
            raise ScheduleError(f"no job has a turn after {self._at_s:g} s; the schedule is over")
        moving = [run for run in runs if self._lost(run)]
        self._kept = [run for run in runs if run not in moving]
        for run in sorted(moving, key=lambda run: (run.begin_s, run.job)):
            self._move(run)
        if not self._kept:
            raise ScheduleError(f"no job can go on: {'; '.join(self._reasons)}; schedule them again")
        schedule = Schedule.model_validate({"format": FORMAT, "intervals": list(self._intervals())})
        return ScheduleAdjustment(schedule, self._reasons, self._given_up)

    def _lost(self, run: Run) -> list[str]:
        """What a job's plan names and is there no more."""
        nodes = {node.name for node in self._topology.nodes}
        names = [*(node.name for node in run.plan.nodes), *(worker.name for worker in run.plan.workers)]
        lost = [name for name in names if name not in nodes]
        return lost + sorted(run.links - set(self._network.links))

    def _move(self, run: Run) -> None:
        lost = self._lost(run)
        dead = [name for name in lost if not self._is_circuit(name)]
        if run.begin_s < self._at_s - INSTANT_S:
            return self._give_up(run, lost, "it has begun, so its ranks cannot take another plan")
        if dead:
            return self._give_up(run, dead, "its plan names them; schedule it again where it has workers and a server")
        for begin_s in self._begins(run):
            moved = self._rewired(run.later(begin_s - run.begin_s), lost)
            if moved is not None:
                self._kept.append(moved)
                return self._tell_moved(run, moved, lost)
        return self._give_up(run, lost, "between its units there are too few ports that work")

    def _is_circuit(self, name: str) -> bool:
        return name.rpartition(".")[0] in self._switches

    def _give_up(self, run: Run, lost: Sequence[str], why: str) -> None:
        self._given_up.append(run.job)
        self._reasons.append(f"job {run.job} is served no more: {_gone(lost)}, and {why}")

    def _tell_moved(self, run: Run, moved: Run, lost: Sequence[str]) -> None:
        new = ", ".join(sorted(moved.links - run.links))
        late_s = moved.begin_s - run.begin_s
        when = f"{late_s:.3g} s later, at {moved.begin_s - self._at_s:.3g} s from now" if late_s else "at its time"
        self._reasons.append(f"job {run.job} takes {new} as {_gone(lost)}, {when}")
        for name in sorted(moved.links - run.links - set(self._known)):
            ends = " and ".join(f"{node} {address}" for node, address in self._network.addresses(name).items())
            self._reasons.append(f"{name} is in no plan so far: give {ends} as addresses on it")

    def _begins(self, run: Run) -> list[float]:
        """When a job may begin: at its time, or when another one ends after it."""
        ends = {other.end_s for other in self._kept if run.begin_s < other.end_s < math.inf}
        return [run.begin_s, *sorted(ends)]

    def _rewired(self, run: Run, lost: Sequence[str]) -> Run | None:
        """The job over other circuits than those that are gone; None if something that it takes is not free."""
        links: dict[str, FabricLink] = {}
        for name in lost:
            ends, taken = _ends(run.plan, name), run.links | {link.id for link in links.values()}
            spare = [other for other in self._circuits if self._network.ends(other) == ends and other not in taken]
            # Circuits of the schedule have addresses at their ends, others need some.
            tried = [
                {**links, name: link_of(self._network, run.plan, o, o)}
                for o in sorted(spare, key=lambda o: o not in self._known)
            ]
            links = next((over for over in tried if self._is_free(run.over(over))), {})
            if not links:
                return None
        return run.over(links)

    def _is_free(self, run: Run) -> bool:
        """Whether nobody has its ports or its memory at the same time, and no link gets more than it carries."""
        meeting = [other for other in self._kept if other.begin_s < run.end_s and run.begin_s < other.end_s]
        circuits = run.links & set(self._circuits)
        if len(self._fibres(circuits)) < 2 * len(circuits) or any(self._collides(run, other) for other in meeting):
            return False
        starts = {part.from_s for one in (run, *meeting) for part in one.parts if part.from_s < run.end_s}
        return all(self._carries([run, *meeting], max(at_s, run.begin_s)) for at_s in starts)

    def _collides(self, run: Run, other: Run) -> bool:
        own, others = (self._fibres(one.links - (run.links & other.links)) for one in (run, other))
        return not own.isdisjoint(others) or not _memory(run.plan).isdisjoint(_memory(other.plan))

    def _fibres(self, links: AbstractSet[str]) -> set[str]:
        return {fibre for name in links & set(self._circuits) for fibre in self._circuits[name].links}

    def _carries(self, runs: Sequence[Run], at_s: float) -> bool:
        load = loads_bps({run.job: run.rate_bps(at_s) for run in runs}, {run.job: run.plan for run in runs})
        # Links that are gone are replaced one after another.
        there = load.keys() & self._network.links.keys()
        return all(load[link] <= capacity_bps(self._network, link) * (1 + SLACK) for link in there)

    def _intervals(self) -> Iterator[Interval]:
        """The schedule again, from what each job has; circuits that nobody uses stay where their ports are free."""
        times = {part.from_s for run in self._kept for part in run.parts}
        times |= {part.until_s for run in self._kept for part in run.parts}
        times |= {interval.from_s for interval in self._schedule.intervals if interval.from_s < max(times)}
        for from_s, until_s in pairwise(sorted({max(time_s, self._at_s) for time_s in times})):
            here = [run for run in self._kept if run.begin_s <= from_s < run.end_s]
            circuits = self._lit(from_s, here)
            if here or circuits:
                rates = {str(run.job): run.rate_bps(from_s) for run in here}
                yield Interval(
                    from_s=from_s - self._at_s,
                    until_s=None if until_s == math.inf else until_s - self._at_s,
                    circuits=circuits,
                    plans={str(run.job): run.plan for run in here},
                    rates_bps={job: rate_bps for job, rate_bps in rates.items() if rate_bps},
                )

    def _lit(self, at_s: float, here: Sequence[Run]) -> list[Circuit]:
        """Circuits that jobs use, and those of the schedule so far whose ports are free beside them."""
        used = sorted({name for run in here for name in run.links & set(self._circuits)})
        lit = {name: self._circuits[name] for name in used}
        for index, interval in enumerate(self._schedule.intervals):
            if interval.from_s <= at_s < interval.end_s:
                for circuit in self._alive[index]:
                    taken = {link for one in lit.values() for link in one.links}
                    if taken.isdisjoint(circuit.links):
                        lit[self._network.name(circuit)] = circuit
        return list(lit.values())


def _runs(schedule: Schedule, at_s: float) -> list[Run]:
    """Jobs that have turns after a time, with all of their turns."""
    parts: defaultdict[int, list[Part]] = defaultdict(list)
    plans: dict[int, AggregationPlan] = {}
    for interval in schedule.intervals:
        for name, plan in interval.plans.items():
            plans[int(name)] = plan
            parts[int(name)].append(Part(interval.from_s, interval.end_s, interval.rates_bps.get(name)))
    found = [Run(job, plan, parts[job]) for job, plan in plans.items()]
    return [run for run in found if run.end_s > at_s + INSTANT_S]


def _ends(plan: AggregationPlan, name: str) -> set[str]:
    """Names of the nodes that a link of a plan joins."""
    names = {node.id: node.name for node in plan.nodes}
    assert plan.fabric is not None, "only plans of switches name links"
    ends = next(link.ends for link in plan.fabric.links if link.id == name)
    return {names[end.at.node] for end in ends if isinstance(end.at, NodeChild)}


def _memory(plan: AggregationPlan) -> set[tuple[int, int]]:
    """Slots that a plan has at switches."""
    places = [place for stream in plan.streams for place in stream.places]
    return {(place.node, place.base + slot) for place in places for slot in range(place.slots or 0)}


def _gone(lost: Sequence[str]) -> str:
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    return f"{', '.join(lost[:MOST_NAMED])}{more} {'is' if len(lost) == 1 else 'are'} gone"
