"""One interval after another: circuits are ordered, jobs given to nodes and taken back, gates opened and shut.

What an interval changes is announced: gates of the jobs that it touches are shut, what they have sent arrives, and
only then light goes. Who decides what comes next is another's matter: a schedule (`driver`), or a scheduler that is
asked (`online`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wiresum.gates.listener import Gates
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.circuits import optical_switches
from wiresum.turns.light import Light, Ordered
from wiresum.turns.nodes import Nodes

DRAIN_S = 0.005
"""Seconds that packets have until light goes, beyond those in which ranks still hear of results: what one rank has sent
and others have not brings no result."""


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


class Stage:
    """Where jobs have their turns.

    Args:
        network: of all plans, with every circuit that is ever lit.
        light: its optical switches.
        nodes: its switches and servers.
        gates: of the jobs' ranks.
        tell: takes a line about what happens.
    """

    def __init__(
        self, network: SharedNetwork, light: Light, nodes: Nodes, gates: Gates, tell: Callable[[str], None]
    ) -> None:
        self._network, self._light, self._nodes, self._gates, self._tell = network, light, nodes, gates, tell
        self._circuits = {network.name(one) for circuits in network.lit for one in circuits}
        self._units = {name: {network.links[name].source, network.links[name].target} for name in self._circuits}
        switches = optical_switches(network.topology)
        self._darkens = max((one.oxc.darkens for one in switches if one.oxc), default="added")
        self.plans: dict[int, AggregationPlan] = {}
        self._uses: dict[int, set[str]] = {}
        self._lit: set[str] = set()
        self._has_ordered = False
        self._failed: dict[str, str] = {}
        self._running: set[int] = set()
        self._ended: set[int] = set()
        self._began_s = 0.0
        self.seen = Seen()

    def _know(self, job: int, plan: AggregationPlan) -> None:
        """From now on the job has this plan."""
        self.plans[job] = plan
        self._uses[job] = {link.id for link in plan.fabric.links} & self._circuits if plan.fabric else set()

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _begin(self, interval: Interval, due_s: float) -> None:
        now_lit = {self._network.name(one) for one in interval.circuits} - set(self._failed)
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
        self._drop_the_dark()
        self._hand_out(new & self._running)
        for job in sorted(self._running):
            if self._uses[job] <= self._lit:
                self._gates.open(job, interval.rates_bps.get(str(job)))
                self.seen.turns.setdefault(job, Turn(self._now_s()))
            else:
                self._gates.shut([job])
        step = Step(due_s, self._now_s(), shut_s, order_s, lit_s, paused, ordered.added, ordered.removed, failed)
        self.seen.steps.append(step)
        self._tell(_told(step, new))

    def _drop_the_dark(self) -> None:
        """Jobs whose plans name a circuit that has failed cannot go on: others may have their places and circuits."""
        for job in sorted(self._running):
            reason = next((self._failed[name] for name in sorted(self._uses[job] & set(self._failed))), None)
            if reason is not None:
                self._nodes.dismiss(self.plans[job])
                self._running.discard(job)
                self._drop(job, reason)

    def _drop(self, job: int, reason: str) -> None:
        """A job without light is served no more."""
        self._tell(f"job {job} is served no more, as a circuit of its plan has no light: {reason}")
        # Its nodes refuse it from now on, which its ranks hear when they ask.
        self._gates.open(job, why=reason)
        self._over(job, "dark")

    def _over(self, job: int, end: str) -> None:
        """A job has ended otherwise than by its goodbye."""
        turn = self.seen.turns.setdefault(job, Turn(self._now_s()))
        turn.end_s, turn.end = self._now_s(), end

    def _hand_out(self, jobs: Iterable[int]) -> None:
        """Gives ranks their plans that have none."""
        for job in sorted(jobs):
            self._gates.hand_out(job, self.plans[job].to_json())

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


def _told(step: Step, new: Sequence[int] | set[int]) -> str:
    parts = [f"{step.begin_s:.3f} s (due {step.due_s:.3f} s)"]
    if step.added or step.removed:
        light_ms = 1e3 * (step.lit_s - step.order_s)
        parts.append(f"{step.added} circuits set up, {step.removed} taken down, light after {light_ms:.1f} ms")
    if new:
        parts.append(f"job {', '.join(map(str, sorted(new)))} begins")
    return "; ".join(parts)
