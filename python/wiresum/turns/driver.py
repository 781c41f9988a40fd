"""Carries a schedule out: one interval after another, circuits, nodes and gates.

What an interval changes is announced: gates of the jobs that it touches are shut, what they have sent arrives, and
only then light goes. An interval begins when it is due and the jobs that end before it have ended: a job that needs
longer than its turn has the time, and all later turns begin that much later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from wiresum.errors import ScheduleError
from wiresum.gates import EXPIRY_S
from wiresum.gates.listener import Gates
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval, Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.circuits import optical_switches
from wiresum.topology.model import Topology
from wiresum.turns.journal import Journal, Progress
from wiresum.turns.light import Light, Ordered
from wiresum.turns.nodes import Nodes

DRAIN_S = 0.005
"""Seconds that packets have until light goes, beyond those in which ranks still hear of results: what one rank has sent
and others have not brings no result."""
OVERRUN_S = 30.0
"""Seconds that a job may need beyond its last turn, in which everyone behind it waits."""
BACK_S = 0.8 * EXPIRY_S
"""Seconds that ranks have to come back to a driver that was started again: then their gates open by themselves."""
COMING_S = 600.0
"""Seconds that ranks have to come: importing PyTorch takes some, and many ranks of a testbed share few cores."""


@dataclass
class Turn:
    """What was seen of a job. Times are in seconds from the schedule's begin.

    Attributes:
        begin_s: when its gates opened first.
        end_s: when its last rank said goodbye.
        end: `done`; `lost`: a rank ended without a word; `overdue`: it was ended, as it had not ended in time; `dark`:
            it was ended, as a circuit that its plan names has failed; `gone`: its ranks have not come back to a driver
            that was started again.
    """

    begin_s: float
    end_s: float = 0.0
    end: str = ""


@dataclass(frozen=True)
class Step:
    """What was seen of an interval's begin.

    Attributes:
        due_s: when it should have begun.
        begin_s: when its gates opened.
        shut_s: when gates began to be shut.
        order_s: when circuits were ordered, if some changed.
        lit_s: when they had light.
        paused: jobs whose gates were shut meanwhile, though they were in their turn.
        added: circuits that were set up.
        removed: circuits that were taken down.
        failed: circuits that got no light however often they were ordered, with the reason.
    """

    due_s: float
    begin_s: float
    shut_s: float
    order_s: float
    lit_s: float
    paused: list[int] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    failed: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """What happened."""

    turns: dict[int, Turn] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def setups(self) -> int:
        """Circuits that were set up."""
        return sum(step.added for step in self.steps)


class TurnsDriver:
    """Carries out one schedule.

    Args:
        schedule: whose jobs keep their plans.
        topology: that it is for.
        light: its optical switches.
        nodes: its switches and servers.
        gates: of its ranks.
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
        journal: Journal | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._journal = journal
        self._schedule, self._light, self._nodes, self._gates, self._tell = schedule, light, nodes, gates, tell
        self.plans = plans_of(schedule)
        nodes.require(self.plans.values())
        self._network = network = SharedNetwork(topology, [interval.circuits for interval in schedule.intervals])
        circuits = {network.name(one): one for interval in schedule.intervals for one in interval.circuits}
        self._units = {name: {network.links[name].source, network.links[name].target} for name in circuits}
        self._uses = {job: _links(plan) & set(circuits) for job, plan in self.plans.items()}
        self._names = [{network.name(one) for one in interval.circuits} for interval in schedule.intervals]
        self._darkens = max((one.oxc.darkens for one in optical_switches(topology) if one.oxc), default="added")
        self._lit: set[str] = set()
        self._has_ordered = False
        self._failed: dict[str, str] = {}
        self._running: set[int] = set()
        self._ended: set[int] = set()
        self._began_s = 0.0
        self.seen = Seen()

    def run(self) -> Seen:
        """Returns when the last job has ended.

        A circuit that gets no light is ordered no more, and jobs whose plans name it are served no more.

        Raises:
            ScheduleError: ranks do not come.
            CircuitError: an optical switch refuses an order, or does not answer.
            ControlError: a node does not.
        """
        before, late_s = self._journal.read() if self._journal else None, 0.0
        first = self._begin_anew() if before is None else self._go_on(before)
        for index, interval in enumerate(self._schedule.intervals[first:], first):
            due_s = interval.from_s + late_s
            time.sleep(max(0.0, due_s - self._now_s()))
            self._end_all(self._running - set(map(int, interval.plans)))
            late_s += max(0.0, self._now_s() - due_s)
            if self._journal:
                self._journal.write(index, {job: turn.end for job, turn in self.seen.turns.items() if turn.end})
            self._begin(index, interval, due_s)
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
            self._tell(f"job {job} is served no more, as its ranks have not come back to this driver in {BACK_S:g} s")
            self.seen.turns[job] = Turn(0.0, 0.0, "gone")
        interval = self._schedule.intervals[before.interval]
        self._running = self._nodes.keep(self.plans.values(), {int(job) for job in interval.plans} & back)
        self._began_s = time.monotonic() - interval.from_s
        self._tell(f"goes on with interval {before.interval}; jobs {sorted(back)} are back")
        return before.interval

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _await_until(self, moment_s: float) -> None:
        """Returns at a moment, or when no job runs any more."""
        for job in set(self._running):
            self._gates.await_end(job, max(0.0, moment_s - self._now_s()))

    def _begin(self, index: int, interval: Interval, due_s: float) -> None:
        now_lit = self._names[index] - set(self._failed)
        new = {int(job) for job in interval.plans} - self._running - set(self.seen.turns)
        paused = sorted(self._touched(now_lit))
        shut_s = order_s = self._now_s()
        ordered, failed = Ordered(0, 0, 0), dict[str, str]()
        if now_lit != self._lit or not self._has_ordered:
            self._has_ordered = True
            if paused:
                self._gates.shut(paused)
                time.sleep(DRAIN_S)
            order_s = self._now_s()
            wanted = [one for one in interval.circuits if self._network.name(one) in now_lit]
            ordered = self._light.order(wanted, lambda: self._serve(new))
            failed = {self._network.named(fibres): reason for fibres, reason in ordered.failed.items()}
            self._failed |= failed
            self._lit = now_lit - set(failed)
        else:
            self._serve(new)
        lit_s = self._now_s()
        self._running |= new
        for job in sorted(self._running):
            if self._uses[job] <= self._lit:
                self._gates.open(job, interval.rates_bps.get(str(job)))
                self.seen.turns.setdefault(job, Turn(self._now_s()))
            else:
                self._gates.shut([job])
        step = Step(due_s, self._now_s(), shut_s, order_s, lit_s, paused, ordered.added, ordered.removed, failed)
        self.seen.steps.append(step)
        self._tell(_told(step, new))
        self._give_up_the_dark()

    def _give_up_the_dark(self) -> None:
        """Ends jobs whose plans name a circuit that has failed: others may have their places and circuits."""
        for job in sorted(self._running):
            reason = next((self._failed[name] for name in sorted(self._uses[job] & set(self._failed))), None)
            if reason is not None:
                self._tell(f"job {job} is served no more, as a circuit of its plan has no light: {reason}")
                self._nodes.dismiss(self.plans[job])
                # Its nodes refuse it from now on, which its ranks hear when they ask.
                self._gates.open(job, why=reason)
                turn = self.seen.turns.setdefault(job, Turn(self._now_s()))
                turn.end_s, turn.end = self._now_s(), "dark"
                self._running.discard(job)

    def _touched(self, now_lit: set[str]) -> set[int]:
        """Running jobs one of whose circuits is dark before or after a change, or during it."""
        changed = now_lit ^ self._lit
        units = set().union(*(self._units[name] for name in changed))

        def is_touched(name: str) -> bool:
            reached = {"added": name in changed, "units": bool(self._units[name] & units), "all": bool(changed)}
            return reached[self._darkens]

        return {job for job in self._running if any(map(is_touched, self._uses[job]))}

    def _serve(self, jobs: set[int]) -> None:
        """Gives jobs to their nodes, after those that have ended have given their segments back."""
        for job in sorted(self._ended):
            self._nodes.dismiss(self.plans[job])
        self._ended.clear()
        for job in sorted(jobs):
            self._nodes.serve(self.plans[job])

    def _end_all(self, jobs: set[int], patience_s: float | None = OVERRUN_S) -> None:
        """Takes jobs back whose turns are over. What a late one may still send has been waited for by then."""
        for job in sorted(jobs):
            if not self._gates.end(job) and patience_s is not None:
                self._tell(f"job {job} needs longer than its turn; those after it wait")
                self._gates.open(job)
        for job in sorted(jobs):
            has_ended = self._gates.await_end(job, patience_s)
            turn = self.seen.turns[job]
            ended_s = self._gates.ended_s(job) if has_ended else time.monotonic()
            turn.end_s, turn.end = ended_s - self._began_s, self._gates.end(job) or "overdue"
            if not has_ended:
                # Its nodes will refuse it, which its ranks hear when they ask.
                self._tell(f"job {job} has not ended {patience_s:g} s after its last turn, and is served no more")
        self._running -= jobs
        self._ended |= jobs


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


def _links(plan: AggregationPlan) -> set[str]:
    return {link.id for link in plan.fabric.links} if plan.fabric else set()


def _told(step: Step, new: Sequence[int] | set[int]) -> str:
    parts = [f"{step.begin_s:.3f} s (due {step.due_s:.3f} s)"]
    if step.added or step.removed:
        light_ms = 1e3 * (step.lit_s - step.order_s)
        parts.append(f"{step.added} circuits set up, {step.removed} taken down, light after {light_ms:.1f} ms")
    if new:
        parts.append(f"job {', '.join(map(str, sorted(new)))} begins")
    return "; ".join(parts)
