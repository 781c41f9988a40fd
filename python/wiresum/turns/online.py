"""Turns that nobody knows beforehand: a scheduler is asked at each slot, with what is known then.

It hears how much every job has still to send, which circuits are lit and how many ports work. A job that has begun
keeps its plan and its circuits until it ends. So a job has its plan when its first turn comes, and its ranks wait for
it; a circuit that gets no light costs a job that has not begun nothing but time.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from wiresum import _native
from wiresum.errors import ScheduleError
from wiresum.gates.listener import Gates
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import SwitchEngine
from wiresum.plan.schedule import FORMAT, Interval, Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.schedule.model import Interval as Slot
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.driver import COMING_S, OVERRUN_S
from wiresum.turns.light import Light
from wiresum.turns.maker import PlanMaker
from wiresum.turns.nodes import Nodes
from wiresum.turns.plans import between_units, cable_bps, dark_s, sending_bps, step_of
from wiresum.turns.ports import Pair, Ports, all_circuits
from wiresum.turns.stage import Seen, Stage
from wiresum.workload.model import Workload

LEAD_S = 0.03
"""Seconds before a slot in which ranks are asked and the scheduler decides: some milliseconds, on a busy machine."""
UNSENT_BYTES = 2944.0
"""That a job is taken to have left which should be done and has not said goodbye: a packet."""


@dataclass
class Online:
    """A scheduler and its jobs.

    Attributes:
        topology: with one optical switch.
        workload: the jobs, none of which the scheduler knows before its arrival.
        instance: of the two, as gradients go (`plans.carried`).
        scheduler: its name.
        options: of the scheduler.
        engine: what runs the switches.
    """

    topology: Topology
    workload: Workload
    instance: Mapping[str, Any]
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: SwitchEngine = "udp"

    def __post_init__(self) -> None:
        coflow = next((job.name for job in self.workload.jobs if job.synchrony != "star"), None)
        if coflow is not None:
            raise ScheduleError(f"job {coflow} is a coflow, which no plan sums; leave it out")
        lit = [[circuit] for circuit in all_circuits(self.topology)]
        self.network = SharedNetwork(self.topology, lit, self.engine)
        self.circuits = {self.network.name(one): one for (one,) in lit}
        self.maker = PlanMaker(self.workload, self.network)
        places = {unit["name"]: min(unit["places"], len(self.workload.jobs)) for unit in self.instance["units"]}
        self.segments = {unit: most for unit, most in places.items() if most}

    @classmethod
    def of(
        cls,
        topology: Topology,
        workload: Workload,
        instance: Mapping[str, Any],
        scheduler: str,
        engine: SwitchEngine = "udp",
    ) -> Online:
        """A scheduler with the options that turns give it."""
        return cls(topology, workload, instance, scheduler, {**step_of(instance), "online": True}, engine)

    def ways(self) -> list[AggregationPlan]:
        """A plan of each kind that jobs may have, for nodes that want to know beforehand what carries packets."""
        some = between_units(self.network, list(self.circuits.values()))
        found = []
        for number, job in self.maker.jobs.items():
            units = {self.maker.unit_of(host) for host in self.maker.hosts[number]}
            kinds = ["switch"] if len(units) == 1 and units <= set(self.segments) else []
            kinds += ["server"] if job.server is not None else []
            found += [self.plan(number, by, lambda pair: some[pair][0], lambda unit: 0) for by in kinds]
        return found

    def plan(
        self, number: int, by: str, circuit: Callable[[Pair], str], segment: Callable[[str], int]
    ) -> AggregationPlan:
        """As `PlanMaker.plan`, with the memory of switches."""
        return self.maker.with_memory(self.maker.plan(number, by, circuit, segment), self.segments)


class OnlineDriver(Stage):
    """Asks a scheduler slot by slot, and does as it says.

    Args:
        online: whom to ask, about which jobs.
        light: the optical switches.
        nodes: switches and servers.
        gates: of ranks, which wait for their plans.
        tell: takes a line about what happens.

    Raises:
        ScheduleError: a node cannot be asked.
    """

    def __init__(
        self,
        online: Online,
        light: Light,
        nodes: Nodes,
        gates: Gates,
        *,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        nodes.require(online.ways())
        super().__init__(online.network, light, nodes, gates, tell)
        self._online, self._ports = online, Ports(online.topology)
        self._slot_s = float(online.instance["slot_s"])
        self._dark_s = dark_s(online.topology)
        self._jobs = online.maker.jobs
        self._left = {number: float((job.bytes or 0) * job.iterations) for number, job in self._jobs.items()}
        self._due_s: dict[int, float] = {}
        self._segment: dict[int, tuple[str, int]] = {}
        self._load: Counter[str] = Counter()
        self._scheduler = _native.OnlineScheduler(
            json.dumps(online.instance), online.scheduler, json.dumps(dict(online.options))
        )
        self.intervals: list[Interval] = []

    def run(self) -> Seen:
        """Returns when the last job has ended.

        Raises:
            ScheduleError: ranks do not come, or the scheduler has no answer.
            CircuitError: an optical switch refuses an order, or does not answer.
            ControlError: a node does not do as it is asked.
        """
        self._gates.await_askers({number: len(hosts) for number, hosts in self._online.maker.hosts.items()}, COMING_S)
        self._began_s, due_s = time.monotonic(), 0.0
        while True:
            time.sleep(max(0.0, due_s - LEAD_S - self._now_s()))
            self._look()
            if self._is_over():
                break
            slot = Slot.model_validate_json(self._scheduler.next(json.dumps(self._sight())))
            interval = self._interval(slot)
            time.sleep(max(0.0, due_s - self._now_s()))
            self._begin(interval, due_s)
            for name in self.seen.steps[-1].failed:
                self._ports.fail(self._online.circuits[name].links)
            self.intervals.append(interval)
            # An order that took long has its time later: half a slot is there to send at least.
            due_s = max(due_s + self._slot_s, self._now_s() + self._slot_s / 2)
        self._serve(set())
        return self.seen

    def schedule(self) -> Schedule:
        """What was carried out, as a schedule."""
        return Schedule.model_validate({"format": FORMAT, "intervals": self.intervals})

    def _is_over(self) -> bool:
        return len(self.seen.turns) == len(self._jobs) and not self._running

    def _look(self) -> None:
        """Hears from ranks how far they are, and takes jobs back that have ended."""
        results = self._gates.results(self._running)
        for job in sorted(self._running):
            if self._gates.end(job):
                turn = self.seen.turns[job]
                turn.end_s, turn.end = self._gates.ended_s(job) - self._began_s, self._gates.end(job)
                self._take_back(job)
                continue
            total = float((self._jobs[job].bytes or 0) * self._jobs[job].iterations)
            left = total - results[job] * self.plans[job].job.payload_bytes
            self._left[job] = max(left, UNSENT_BYTES)
            since_s = self._due_s.setdefault(job, self._now_s()) if left <= 0 else self._now_s()
            if self._now_s() - since_s > OVERRUN_S:
                self._tell(f"job {job} has not ended {OVERRUN_S:g} s after its last byte, and is served no more")
                self._over(job, "overdue")
                self._take_back(job)

    def _take_back(self, job: int) -> None:
        self._left[job] = 0.0
        self._running.discard(job)
        self._ended.add(job)
        self._segment.pop(job, None)

    def _sight(self) -> dict[str, Any]:
        lit = Counter(self._ports.pair(self._online.circuits[name]) for name in self._lit)
        circuits = [{"between": sorted(pair), "circuits": number} for pair, number in lit.items()]
        return {"left": self._left, "circuits": circuits, "ports": self._ports.working()}

    def _interval(self, slot: Slot) -> Interval:
        """The scheduler's slot with ports and plans: jobs that begin get theirs."""
        wanted = {frozenset(one.between): one.circuits for one in slot.circuits}
        held = sorted({name for job in self._running for name in self._uses[job]})
        here = [self._online.circuits[name] for name in sorted(self._lit)]
        chosen = self._ports.choose(wanted, [self._online.circuits[name] for name in held], here)
        rates = {rate.job: rate.rate_bps for rate in slot.rates}
        self._load = Counter()
        for job in self._running:
            self._use(self._uses[job], rates.get(job, 0.0))
        by_pair = between_units(self._network, chosen)
        begins = [rate for rate in slot.rates if rate.job not in self._running and rate.job not in self.seen.turns]
        for rate in begins:
            if self._can_begin(rate.job, rate.by, by_pair):
                self._plan(rate.job, rate.by, rate.rate_bps, by_pair)
        serving = self._running | {rate.job for rate in begins if rate.job in self.plans}
        return Interval(
            from_s=slot.from_s,
            until_s=slot.until_s,
            circuits=chosen,
            plans={str(job): self.plans[job] for job in sorted(serving)},
            rates_bps={str(job): self._cable_bps(job, rates[job], chosen) for job in sorted(serving & set(rates))},
        )

    def _pairs(self, job: int, by: str) -> set[Pair]:
        """Pairs of units between which a job needs circuits."""
        server = self._jobs[job].server
        if by == "switch" or server is None:
            return set()
        units = {self._online.maker.unit_of(host) for host in self._online.maker.hosts[job]}
        known = {unit["name"] for unit in self._online.instance["units"]}
        home = server if server in known else self._online.maker.unit_of(server)
        return {frozenset((unit, home)) for unit in units - {home}}

    def _can_begin(self, job: int, by: str, by_pair: Mapping[Pair, list[str]]) -> bool:
        pairs = self._pairs(job, by)
        lost = next((pair for pair in pairs if not self._ports.could_join(pair)), None)
        if lost is not None:
            reason = f"no port that works is left between {' and '.join(sorted(lost))}"
            self._tell(f"job {job} is not served: {reason}")
            self._over(job, "dark")
            self._gates.refuse(job)
            self._left[job] = 0.0
        return lost is None and all(by_pair.get(pair) for pair in pairs)

    def _plan(self, job: int, by: str, rate_bps: float, by_pair: Mapping[Pair, list[str]]) -> None:
        most_bps = float(self._online.instance["port_bps"])

        def circuit(pair: Pair) -> str:
            """The fullest that has room, so that others stay free; else the emptiest."""
            fits = [name for name in by_pair[pair] if self._load[name] + rate_bps <= most_bps * (1 + 1e-9)]
            chosen = max(fits, key=self._load.__getitem__) if fits else min(by_pair[pair], key=self._load.__getitem__)
            self._load[chosen] += int(rate_bps)
            return chosen

        def segment(unit: str) -> int:
            taken = {number for there, number in self._segment.values() if there == unit}
            number = next(number for number in count() if number not in taken)
            self._segment[job] = (unit, number)
            return number

        self._know(job, self._online.plan(job, by, circuit, segment))

    def _use(self, names: set[str], rate_bps: float) -> None:
        for name in names:
            self._load[name] += int(rate_bps)

    def _cable_bps(self, job: int, rate_bps: float, chosen: list[Circuit]) -> float:
        now = {self._network.name(one) for one in chosen}
        waits = bool(self._uses[job] and now - self._lit and job not in self._running)
        return cable_bps(sending_bps(self._jobs[job], rate_bps), self._slot_s, self._dark_s if waits else 0.0)

    def _drop(self, job: int, reason: str) -> None:
        """A job that has not begun waits for other circuits; others cannot change theirs."""
        if job in self.seen.turns:
            super()._drop(job, reason)
            self._left[job] = 0.0
        else:
            self._tell(f"job {job} waits for another circuit: {reason}")
            del self.plans[job], self._uses[job]
        self._segment.pop(job, None)
