"""A scheduler in the loop of packets and trains: asked at each slot, it hears what a driver would see then.

A slot's plans depend on what has happened before, so the run of all slots until then is simulated, stopped at their
end, and looked at. Equal beginnings are equal to the last packet, so the turns that are decided so are those of one
run, which may then be simulated as a whole. A run of n slots costs about n / 2 times as much as one that is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wiresum import _native
from wiresum.errors import SimulationError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval
from wiresum.schedule.model import Interval as Slot
from wiresum.sim.turns import TurnsOverCircuits, on_cable
from wiresum.topology.model import Topology
from wiresum.turns.online import UNSENT_BYTES, Online
from wiresum.turns.plans import carried
from wiresum.turns.slot_plans import SlotPlans
from wiresum.workload.model import Workload

ROUNDING = 1e-6
"""Part of a job's bytes that a share may lack and still be all that is left."""
SIGHT = '{"record":"sight"'
"""How the line begins that says what is seen; others are not worth reading."""
Look = Callable[[TurnsOverCircuits, float], Mapping[str, Any]]
"""Simulates turns until a time in seconds, and says what is seen then: `Record::Sight` of `crates/sim`."""


@dataclass(frozen=True)
class Question:
    """Whom to ask about what.

    Attributes:
        topology: with one optical switch.
        workload: the jobs.
        instance: of the two, with the rates of cables.
        scheduler: its name.
        options: of the scheduler.
        fidelity: `packets` or `trains`.
        patience_s: in which jobs that have begun may get nowhere.
    """

    topology: Topology
    workload: Workload
    instance: Mapping[str, Any]
    scheduler: str
    options: Mapping[str, Any]
    fidelity: str
    patience_s: float


def seen(resolved: str) -> dict[str, Any]:
    """What is seen where a run stops.

    Args:
        resolved: of a scenario that says when.

    Raises:
        SimulationError: it came to nothing before.
    """
    sights: list[dict[str, Any]] = []

    def take(line: str) -> None:
        if line.startswith(SIGHT):
            sights.append(json.loads(line))

    _native.simulate(resolved, take)
    return sights[0]


def asked(question: Question, look: Look) -> TurnsOverCircuits:
    """Turns as a scheduler decides them slot by slot.

    Args:
        question: whom to ask about what.
        look: simulates what was decided so far.

    Raises:
        ScheduleError: a job cannot be served.
        SimulationError: jobs get nowhere.
    """
    return _Loop(question).run(look)


class _Loop:
    def __init__(self, question: Question) -> None:
        self._question = question
        rates = carried(question.instance, question.workload)
        self._online = Online(question.topology, question.workload, rates, question.scheduler, dict(question.options))
        self._scheduler = self._online.begin()
        self._slots = SlotPlans(self._online, self._on_cable)
        self._jobs = dict(enumerate(question.workload.jobs, 1))
        self._left = {number: float(job.worker_bytes) for number, job in self._jobs.items()}
        self._circuits: dict[str, int] = {}
        self._ports: dict[str, int] = {}
        self._plans: dict[int, AggregationPlan] = {}
        self._over: set[int] = set()
        self._intervals: list[Interval] = []
        self._moved_s = max(job.arrival_s for job in question.workload.jobs)

    @property
    def _running(self) -> set[int]:
        return set(self._plans) - self._over

    def run(self, look: Look) -> TurnsOverCircuits:
        while len(self._over) < len(self._jobs):
            sight = {"left": self._left, "circuits": self._slots.counted(self._circuits), "ports": self._ports}
            slot = Slot.model_validate_json(self._scheduler.next(json.dumps(sight)))
            self._decide(slot)
            turns = TurnsOverCircuits(self._question.workload, self._online.network, self._plans, self._intervals)
            self._see(look(turns, slot.until_s), turns.circuits)
        return turns

    def _decide(self, slot: Slot) -> None:
        waiting = set(self._jobs) - set(self._plans)
        interval, _ = self._slots.interval(slot, self._running, waiting, set(self._circuits))
        # Jobs that begin come behind those that are there: these have the same numbers in every run.
        self._plans |= {int(job): plan for job, plan in interval.plans.items() if int(job) not in self._plans}
        self._intervals.append(interval)

    def _on_cable(self, job: int, rate_bps: float, waits: bool) -> float:
        rates, left = self._online.instance, self._left[job]
        seconds = float(rates["slot_s"])
        share = rate_bps * seconds / 8
        return on_cable(
            self._jobs[job],
            rate_bps,
            seconds,
            float(rates["dark_s"]) if waits else 0.0,
            self._question.fidelity,
            is_first=job not in self._running,
            is_last=share >= left * (1 - ROUNDING),
        )

    def _see(self, sight: Mapping[str, Any], circuits: list[str]) -> None:
        """Hears how far jobs are, what is lit, and which ports work."""
        for job, results, is_over in zip(self._plans, sight["results"], sight["is_over"], strict=True):
            sent = float(results * self._plans[job].job.payload_bytes)
            left = 0.0 if is_over else max(self._jobs[job].worker_bytes - sent, UNSENT_BYTES)
            self._moved_s = sight["at_s"] if left < self._left[job] else self._moved_s
            self._left[job] = left
            if is_over:
                self._over.add(job)
                self._slots.take_back(job)
        self._circuits = {circuits[index]: index for index in sight["circuits"]}
        names = [unit["name"] for unit in self._online.instance["units"]]
        self._ports = dict(zip(names, sight["ports"], strict=True))
        if sight["at_s"] - self._moved_s > self._question.patience_s:
            waits = ", ".join(self._jobs[job].name for job in sorted(set(self._jobs) - self._over))
            raise SimulationError(
                f"{waits}: nothing has come for {self._question.patience_s:g} s until {sight['at_s']:g} s, as "
                "circuits or ports are missing; let failures end, or raise `patience_s`"
            )
