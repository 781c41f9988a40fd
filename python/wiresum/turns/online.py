"""Turns that nobody knows beforehand: a scheduler is asked at each slot, with what is known then.

It hears how much every job has still to send, which circuits are lit and how many ports work. A job that has begun
keeps its plan and its circuits until it ends. So a job has its plan when its first turn comes, and its ranks wait for
it; a circuit that gets no light costs a job that has not begun nothing but time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from wiresum.turns.darkness import dark_s
from wiresum.turns.driver import BACK_S, COMING_S, OVERRUN_S
from wiresum.turns.journal import OnlineJournal, OnlineProgress
from wiresum.turns.light import Light
from wiresum.turns.maker import Chooser, PlanMaker, Segments
from wiresum.turns.nodes import Nodes
from wiresum.turns.plans import between_units, cable_bps, sending_bps, step_of
from wiresum.turns.ports import all_circuits
from wiresum.turns.slot_plans import SlotPlans
from wiresum.turns.stage import Seen, Stage, Turn
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
        known: secrets of jobs whose ranks have some, by number.
    """

    topology: Topology
    workload: Workload
    instance: Mapping[str, Any]
    scheduler: str
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: SwitchEngine = "udp"
    known: Mapping[int, str] = field(default_factory=dict)

    @property
    def trees(self) -> bool:
        """Whether switches of several units may sum a job together."""
        return bool(self.instance.get("trees"))

    def __post_init__(self) -> None:
        if not self.instance.get("slots", True):
            problem = f"`{self.scheduler}` knows no slots, and --online asks at each"
            raise ScheduleError(f"{problem}; leave --online out, or ask another scheduler")
        coflow = next((job.name for job in self.workload.jobs if job.synchrony != "star"), None)
        if coflow is not None:
            raise ScheduleError(f"job {coflow} is a coflow, which no plan sums; leave it out")
        lit = [[circuit] for circuit in all_circuits(self.topology)]
        self.network = SharedNetwork(self.topology, lit, self.engine)
        self.circuits = {self.network.name(one): one for (one,) in lit}
        self.maker = PlanMaker(self.workload, self.network, self.known)
        places = {unit["name"]: min(unit["places"], len(self.workload.jobs)) for unit in self.instance["units"]}
        # A job has one segment at all of its switches, so each of them may have jobs in whose way the others' are.
        most = max((len(self.maker.units(number)) for number in self.maker.jobs), default=1) if self.trees else 1
        self.segments = {unit: most * (count - 1) + 1 for unit, count in places.items() if count}

    @classmethod
    def of(
        cls,
        topology: Topology,
        workload: Workload,
        instance: Mapping[str, Any],
        scheduler: str,
        engine: SwitchEngine = "udp",
        *,
        known: Mapping[int, str] | None = None,
    ) -> Online:
        """A scheduler with the options that turns give it."""
        options = {**step_of(instance), "online": True}
        return cls(topology, workload, instance, scheduler, options, engine, known or {})

    def begin(self) -> _native.OnlineScheduler:
        """The scheduler before the first slot."""
        return _native.OnlineScheduler(json.dumps(self.instance), self.scheduler, json.dumps(dict(self.options)))

    @property
    def secrets(self) -> dict[int, str]:
        """Secrets of all jobs, by number: their ranks have them before they have a plan."""
        return self.maker.secrets

    def ways(self) -> list[AggregationPlan]:
        """A plan of each kind that jobs may have, for nodes that want to know beforehand what carries packets."""
        some = between_units(self.network, list(self.circuits.values()))
        found = []
        for number, job in self.maker.jobs.items():
            kinds = ["switch"] if self._can_be_summed(number) else []
            kinds += ["server"] if job.server is not None else []
            found += [self.plan(number, by, lambda pair: some[pair][0], lambda units: 0) for by in kinds]
        return found

    def _can_be_summed(self, number: int) -> bool:
        """Whether switches may sum a job."""
        units = self.maker.units(number)
        return units <= set(self.segments) and (len(units) == 1 or (self.trees and self.maker.tree(number) is not None))

    def plan(self, number: int, by: str, circuit: Chooser, segment: Segments) -> AggregationPlan:
        """As `PlanMaker.plan`, with the memory of switches."""
        return self.maker.with_memory(self.maker.plan(number, by, circuit, segment), self.segments)


class OnlineDriver(Stage):
    """Asks a scheduler slot by slot, and does as it says.

    Args:
        online: whom to ask, about which jobs.
        light: the optical switches.
        nodes: switches and servers.
        gates: of ranks, which wait for their plans.
        journal: where it notes how far it is; one of a driver that has died is gone on with.
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
        journal: OnlineJournal | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        nodes.require(online.ways())
        super().__init__(online.network, light, nodes, gates, tell)
        self._online, self._slots = online, SlotPlans(online, self._cable_bps, self._ports)
        self._slot_s = float(online.instance["slot_s"])
        self._dark_s = dark_s(online.topology)
        self._jobs = online.maker.jobs
        self._left = {number: float(job.worker_bytes) for number, job in self._jobs.items()}
        self._due_s: dict[int, float] = {}
        self._scheduler = online.begin()
        self._journal, self._sights = journal, list[dict[str, Any]]()
        self.intervals: list[Interval] = []

    def run(self) -> Seen:
        """Returns when the last job has ended.

        Raises:
            ScheduleError: ranks do not come, or the scheduler has no answer.
            CircuitError: an optical switch refuses an order, or does not answer.
            ControlError: a node does not do as it is asked.
        """
        before = self._journal.read() if self._journal else None
        due_s = self._begin_anew() if before is None else self._go_on(before)
        while True:
            time.sleep(max(0.0, due_s - LEAD_S - self._now_s()))
            self._look()
            if self._is_over():
                break
            self._sights.append(self._sight())
            slot = Slot.model_validate_json(self._scheduler.next(json.dumps(self._sights[-1])))
            interval = self._interval(slot)
            self._note()
            time.sleep(max(0.0, due_s - self._now_s()))
            self._begin(interval, due_s)
            self.intervals.append(interval)
            self._keep_light()
            # An order that took long has its time later: half a slot is there to send at least.
            due_s = max(due_s + self._slot_s, self._now_s() + self._slot_s / 2)
        self._serve(set())
        if self._journal:
            self._journal.end()
        return self.seen

    def _can_move(self, job: int) -> bool:
        """A job that has not begun has another plan instead."""
        return job in self.seen.turns and super()._can_move(job)

    def _move(self, job: int, instead: Mapping[str, str]) -> None:
        super()._move(job, instead)
        self._slots.plans[job] = self.plans[job]

    def _sizes(self) -> dict[int, int]:
        """Ranks of each job."""
        return {number: len(hosts) for number, hosts in self._online.maker.hosts.items()}

    def _begin_anew(self) -> float:
        """Waits for all ranks; returns when the first slot is due."""
        self._nodes.keep(self._online.ways(), set())
        self._gates.await_askers(self._sizes(), COMING_S)
        self._tell_of_ranks(self._sizes())
        self._began_s = time.monotonic()
        return 0.0

    def _note(self) -> None:
        if self._journal:
            ended = self.seen.ended
            self._journal.write(
                self._sights,
                {job: plan for job, plan in self.plans.items() if job not in ended},
                self._slots.segments,
                lit=sorted(self._lit),
                failed=self._slots.ports.failed(),
                ended=ended,
            )

    def _go_on(self, before: OnlineProgress) -> float:
        """Takes over from a driver that has died, as things are; returns when the next slot is due.

        The scheduler hears again what it was told. Jobs whose nodes serve them keep their plans: their ranks come back
        with shut gates, or ask for a plan that they have not got.
        """
        self._sights = before.sights
        for sight in self._sights:
            self._scheduler.next(json.dumps(sight))
        for fibres in before.failed:
            self._slots.ports.fail(fibres)
        self._lit = set(before.lit)
        for name, end in before.ended.items():
            self.seen.turns[int(name)], self._left[int(name)] = Turn(0.0, 0.0, end), 0.0
        plans = {int(job): plan for job, plan in before.plans.items()}
        known = [*plans.values(), *self._online.ways()]
        served = self._nodes.keep({plan.job.id: plan for plan in reversed(known)}.values(), set(plans))
        back = self._gates.await_back({job: size for job, size in self._sizes().items() if job in served}, BACK_S)
        for job in sorted(served):
            self._know(job, plans[job])
            self._slots.plans[job] = plans[job]
            self._slots.segments |= {job: before.segments[str(job)]} if str(job) in before.segments else {}
            self.seen.turns[job] = Turn(0.0)
        self._running = set(served)
        due_s = len(self._sights) * self._slot_s
        self._began_s = time.monotonic() - due_s
        for job in sorted(served - back):
            self._give_up(job, f"not all ranks of job {job} have come back to this driver in {BACK_S:g} s")
            self._leave(job, "gone")
        self._hand_out(back)
        self._tell(f"goes on with slot {len(self._sights)}; jobs {sorted(back)} are back")
        return due_s

    def _leave(self, job: int, end: str) -> None:
        self._over(job, end)
        self._take_back(job)

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
            left = float(self._jobs[job].worker_bytes - results[job] * self.plans[job].job.payload_bytes)
            self._left[job] = max(left, UNSENT_BYTES)
            since_s = self._due_s.setdefault(job, self._now_s()) if left <= 0 else self._now_s()
            if self._now_s() - since_s > OVERRUN_S:
                self._give_up(job, f"job {job} has not ended {OVERRUN_S:g} s after its last byte")
                self._leave(job, "overdue")

    def _take_back(self, job: int) -> None:
        self._left[job] = 0.0
        self._running.discard(job)
        self._ended.add(job)
        self._slots.take_back(job)

    def _sight(self) -> dict[str, Any]:
        ports = self._slots.ports.working()
        return {"left": self._left, "circuits": self._slots.counted(self._lit), "ports": ports}

    def _interval(self, slot: Slot) -> Interval:
        """The scheduler's slot with ports and plans: jobs that begin get theirs."""
        waiting = set(self._jobs) - self._running - set(self.seen.turns)
        interval, refused = self._slots.interval(slot, self._running, waiting, self._lit)
        for job, reason in refused.items():
            self._tell(f"job {job} is not served: {reason}")
            self._over(job, "dark")
            self._gates.refuse(job, reason)
            self._left[job] = 0.0
        for name, plan in interval.plans.items():
            self._know(int(name), plan)
        return interval

    def _cable_bps(self, job: int, rate_bps: float, waits: bool) -> float:
        return cable_bps(sending_bps(self._jobs[job], rate_bps), self._slot_s, self._dark_s if waits else 0.0)

    def _drop(self, job: int, reason: str) -> None:
        """A job that has not begun waits for other circuits; others cannot change theirs."""
        if job in self.seen.turns:
            super()._drop(job, reason)
            self._left[job] = 0.0
        else:
            self._tell(f"job {job} waits for another circuit: {reason}")
            del self.plans[job], self._uses[job], self._ways[job]
        self._slots.take_back(job)
