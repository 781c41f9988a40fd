"""Carries a schedule out, one interval after another.

An interval begins when it is due and the jobs that end before it have ended: a job that needs longer than its turn has
the time, and all later turns begin that much later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from wiresum.errors import ScheduleError
from wiresum.gates import EXPIRY_S
from wiresum.gates.listener import Gates
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.model import Topology
from wiresum.turns.journal import Journal, Progress
from wiresum.turns.light import Light
from wiresum.turns.nodes import Nodes
from wiresum.turns.stage import Seen, Stage, Turn

OVERRUN_S = 30.0
"""Seconds that a job may need beyond its last turn, in which everyone behind it waits."""
BACK_S = 0.8 * EXPIRY_S
"""Seconds that ranks have to come back to a driver that was started again: then their gates open by themselves."""
COMING_S = 600.0
"""Seconds that ranks have to come: importing PyTorch takes some, and many ranks of a testbed share few cores."""


class TurnsDriver(Stage):
    """Carries out one schedule.

    Args:
        schedule: whose jobs keep their plans.
        topology: that it is for.
        light: its optical switches.
        nodes: its switches and servers.
        gates: of its ranks.
        network: of the topology, where circuits that no plan names have addresses, too.
        journal: where it notes how far it is; one of a driver that has died is gone on with.
        tell: takes a line about what happens.

    Raises:
        ScheduleError: a job changes its plan, or a node cannot be asked.
    """

    def __init__(
        self,
        schedule: Schedule,
        topology: Topology,
        light: Light,
        nodes: Nodes,
        gates: Gates,
        *,
        network: SharedNetwork | None = None,
        journal: Journal | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        plans = plans_of(schedule)
        nodes.require(plans.values())
        super().__init__(network or SharedNetwork.of(schedule, topology), light, nodes, gates, tell)
        self._schedule, self._journal = schedule, journal
        for job, plan in plans.items():
            self._know(job, plan)

    def run(self) -> Seen:
        """Returns when the last job has ended.

        A circuit that gets no light is ordered no more, and jobs whose plans name it are served no more.

        Raises:
            ScheduleError: ranks do not come.
            CircuitError: an optical switch refuses an order, or does not answer.
            ControlError: a node does not.
        """
        self._gates.expect(self.plans)
        before, late_s = self._journal.read() if self._journal else None, 0.0
        left = self._journal.lit() if self._journal else []
        self._light.inherit(left)
        first = self._begin_anew() if before is None else self._go_on(before)
        for index, interval in enumerate(self._schedule.intervals[first:], first):
            due_s = interval.from_s + late_s
            self._pass_until(due_s)
            self._end_all(self._running - set(map(int, interval.plans)))
            late_s += max(0.0, self._now_s() - due_s)
            lit = self._light.joined(interval.circuits)
            if self._journal:
                self._journal.write(index, self.seen.ended, [*left, *lit])
            self._begin(interval, due_s)
            left = lit
        last = self._schedule.intervals[-1]
        if last.until_s is not None:
            self._await_until(last.until_s + late_s)
        self._end_all(set(self._running), patience_s=None if last.until_s is None else OVERRUN_S)
        self._serve(set())
        if self._journal:
            self._journal.end()
        return self.seen

    def _begin_anew(self) -> int:
        """Waits for all ranks; returns the first interval."""
        self._nodes.keep(self.plans.values(), set())
        self._gates.await_ranks(_sizes(self.plans), COMING_S)
        self._tell_of_ranks(_sizes(self.plans))
        self._began_s = time.monotonic()
        return 0

    def _go_on(self, before: Progress) -> int:
        """Takes over from a driver that has died, as things are; returns the interval, which begins again.

        Ranks have shut gates as soon as they are back, so circuits may be put in order before anything else happens.
        """
        self.seen.turns |= {int(job): Turn(0.0, 0.0, end) for job, end in before.ended.items()}
        left = {job: plan for job, plan in self.plans.items() if job not in self.seen.turns}
        back = self._gates.await_back(_sizes(left), BACK_S)
        for job in sorted(set(left) - back):
            self._give_up(job, f"not all ranks of job {job} have come back to this driver in {BACK_S:g} s")
            self.seen.turns[job] = Turn(0.0, 0.0, "gone")
        interval = self._schedule.intervals[before.interval]
        gone = set(map(int, before.running)) - set(self.plans)
        self._running = self._nodes.keep(self.plans.values(), {int(job) for job in interval.plans} & back, gone)
        for job in sorted(self._running):
            # The driver before may have put it onto another circuit.
            if self._uses[job] and self._can_move(job):
                self._nodes.readdress(self.plans[job])
        self._began_s = time.monotonic() - interval.from_s
        self._tell(f"goes on with interval {before.interval}; jobs {sorted(back)} are back")
        return before.interval

    def _await_until(self, moment_s: float) -> None:
        """Returns at a moment, or when no job runs any more."""
        for job in set(self._running):
            self._await_late(job, max(0.0, moment_s - self._now_s()))

    def _end_all(self, jobs: set[int], patience_s: float | None = OVERRUN_S) -> None:
        """Takes jobs back whose turns are over. What a late one may still send has been waited for by then."""
        for job in sorted(jobs):
            if not self._gates.end(job) and patience_s is not None:
                self._tell(f"job {job} needs longer than its turn; those after it wait")
                if self._uses[job] <= self._lit:
                    self._gates.open(job)
        for job in sorted(jobs):
            has_ended = self._await_late(job, patience_s)
            if job not in self._running:
                continue
            turn = self.seen.turns[job]
            ended_s = self._gates.ended_s(job) if has_ended else time.monotonic()
            turn.end_s, turn.end = ended_s - self._began_s, self._gates.end(job) or "overdue"
            if not has_ended:
                self._give_up(job, f"job {job} has not ended {patience_s:g} s after its last turn")
        self._ended |= jobs & self._running
        self._running -= jobs


def _sizes(plans: Mapping[int, AggregationPlan]) -> dict[int, int]:
    return {job: len(plan.workers) for job, plan in plans.items()}


def plans_of(schedule: Schedule) -> dict[int, AggregationPlan]:
    """The plan of each job.

    Raises:
        ScheduleError: a job has two.
    """
    found: dict[int, AggregationPlan] = {}
    for index, interval in enumerate(schedule.intervals):
        for number, plan in interval.plans.items():
            known = found.setdefault(int(number), plan)
            if known.digest() != plan.digest():
                problem = f"intervals[{index}].plans.{number}: job {number} changes its plan while it runs"
                raise ScheduleError(f"{problem}, and its workers would have to join again; give it one plan")
    return found


def secrets_of(schedule: Schedule) -> dict[int, str]:
    """The secret of each job, by which its ranks and the driver know each other.

    Raises:
        ScheduleError: a plan has none.
    """
    plans = plans_of(schedule)
    without = next((job for job, plan in plans.items() if not plan.job.secret), None)
    if without is not None:
        raise ScheduleError(f"job {without} has no secret; put the schedule's file SCHEDULE.secret beside it")
    return {job: plan.job.secret or "" for job, plan in plans.items()}
