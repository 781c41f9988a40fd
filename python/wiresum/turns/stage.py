"""One interval after another: circuits are ordered, jobs given to nodes and taken back, gates opened and shut.

What an interval changes is announced: gates of the jobs that it touches are shut, what they have sent arrives, and
only then light goes. Who decides what comes next is another's matter: a schedule (`driver`), or a scheduler that is
asked (`online`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from wiresum.errors import ScheduleError
from wiresum.gates.listener import Gates
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval
from wiresum.plan.shared import SharedNetwork
from wiresum.turns.darkness import darkened
from wiresum.turns.detours import Detours, Ways
from wiresum.turns.light import Light, Ordered
from wiresum.turns.nodes import Nodes
from wiresum.turns.ports import Ports
from wiresum.turns.sharing import within_links

DRAIN_S = 0.005
"""Seconds that packets have until light goes, beyond those in which ranks still hear of results: what one rank has sent
and others have not brings no result."""
LOOK_S = 1.0
"""Seconds between two looks whether what should be lit still is."""
STILL_S = 3.0
"""Seconds without a result after which the circuits of a job are looked at: it computes, or has no light."""
ALARMED_S = 1.0
"""The same where the device says that one of its circuits has failed; an alarm alone stops no job that has results."""
MOST_RESTORED = 10
"""Times that circuits are ordered again which someone has changed: devices forget now and then, two schedules at one
device change each other's circuits for ever."""


@dataclass
class Turn:
    """What was seen of a job. Times are in seconds from the schedule's begin.

    Attributes:
        begin_s: when its gates opened first.
        end_s: when its last rank said goodbye.
        end: `done`; `lost`: a rank ended without a word; `overdue`: it was ended, as it had not ended in time; `dark`:
            it was ended, or has gone on without the network, as a circuit that its plan names has failed; `gone`: its
            ranks have not come back to a driver that was started again.
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


@dataclass(frozen=True)
class Move:
    """A job that went over to a circuit that is left.

    Attributes:
        at_s: when, in seconds from the schedule's begin.
        job: its number.
        circuit: that has failed, or whose ports others needed.
        instead: the other one.
    """

    at_s: float
    job: int
    circuit: str
    instead: str


@dataclass
class Seen:
    """What happened."""

    turns: dict[int, Turn] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    mending: int = 0
    """Circuits that were set up in place of those that have failed."""

    @property
    def ended(self) -> dict[int, str]:
        """Jobs that have ended, and how."""
        return {job: turn.end for job, turn in self.turns.items() if turn.end}

    @property
    def setups(self) -> int:
        """Circuits that were set up."""
        return sum(step.added for step in self.steps) + self.mending


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
        self._circuits = {network.name(one): one for circuits in network.lit for one in circuits}
        self.plans: dict[int, AggregationPlan] = {}
        self._ports = Ports(network.topology)
        self._detours = Detours(network, self._ports)
        self._ways: dict[int, Ways] = {}
        self._uses: dict[int, set[str]] = {}
        self._moved: set[int] = set()
        self._displaced: set[str] = set()
        self._waiting: set[int] = set()
        self._now = Interval(from_s=0.0, plans={})
        self._lit: set[str] = set()
        self._has_ordered = False
        self._restored = 0
        self._failed: dict[str, str] = {}
        self._running: set[int] = set()
        self._ended: set[int] = set()
        self._began_s = 0.0
        self._results: dict[int, tuple[int, float]] = {}
        self.seen = Seen()

    def _know(self, job: int, plan: AggregationPlan) -> None:
        """From now on the job has this plan."""
        self.plans[job] = plan
        self._ways[job] = self._network.ways(plan)
        self._uses[job] = set(self._ways[job].values())

    def _tell_of_ranks(self, sizes: Mapping[int, int]) -> None:
        """Tells that all are there, before time counts: whoever prints may have to import first what prints."""
        self._tell(f"{sum(sizes.values())} ranks of {len(sizes)} jobs are there")

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _begin(self, interval: Interval, due_s: float) -> None:
        self._now = interval
        now_lit = self._wanted(interval)
        dark = darkened(self._network, self._lit, now_lit)
        new = {int(job) for job in interval.plans} - self._running - set(self.seen.turns)
        paused = sorted(job for job in self._running if self._uses[job] & dark)
        shut_s = order_s = self._now_s()
        ordered, failed, ready = Ordered(0, 0, 0), dict[str, str](), set[int]()
        if now_lit != self._lit or not self._has_ordered:
            self._has_ordered = True
            if paused:
                self._gates.shut(paused)
                time.sleep(DRAIN_S)
            order_s = self._now_s()
            wanted = [self._circuits[name] for name in sorted(now_lit)]
            ordered = self._light.order(wanted, lambda: ready.update(self._let_in(new, interval, dark)))
            failed = self._note_failed(ordered)
            self._lit = now_lit - set(failed)
        else:
            ready.update(self._let_in(new, interval, dark))
        lit_s = self._now_s()
        self._mend()
        self._open(self._running - ready, interval)
        step = Step(due_s, self._now_s(), shut_s, order_s, lit_s, paused, ordered.added, ordered.removed, failed)
        self.seen.steps.append(step)
        self._tell(_told(step, new))

    def _let_in(self, new: set[int], interval: Interval, dark: AbstractSet[str]) -> set[int]:
        """Gives new jobs to their nodes, and opens gates of those jobs, which it returns, that wait for no light."""
        self._serve(new)
        self._running |= new
        ready = {job for job in self._running if self._uses[job] <= self._lit - dark}
        self._open(ready, interval)
        return ready

    def _open(self, jobs: Iterable[int], interval: Interval) -> None:
        """Opens gates of jobs whose circuits are lit, those of new ones first; others stay shut."""
        for job in sorted(jobs, key=lambda job: (job in self.seen.turns, job)):
            if not self._uses[job] <= self._lit:
                self._gates.shut([job])
                continue
            if job not in self.seen.turns:
                self._hand_out([job])
                self.seen.turns[job] = Turn(self._now_s())
            self._gates.open(job, self._rates(interval).get(str(job)))

    def _rates(self, interval: Interval) -> dict[str, float]:
        """Rates of an interval; who shares a circuit since another one has failed sends less."""
        plans = {int(job): plan for job, plan in interval.plans.items()}
        if self._moved.isdisjoint(plans):
            return interval.rates_bps
        here = {job: self._detours.renamed(plan, self._ways[job]) for job, plan in plans.items() if job in self._ways}
        rates = {job: interval.rates_bps[str(job)] for job in here if str(job) in interval.rates_bps}
        return within_links(rates, here, self._network)

    def _wanted(self, interval: Interval) -> set[str]:
        """Circuits of an interval, without what has failed and what jobs that have moved need the ports of."""
        named = {self._network.name(one) for one in interval.circuits} - set(self._failed)
        moved = set().union(*(self._uses[job] for job in self._running & self._moved)) - set(self._failed)
        wanted = self._detours.beside(named, moved) | moved
        self._displaced = named - wanted
        return wanted

    def _note_failed(self, ordered: Ordered) -> dict[str, str]:
        failed = {self._network.named(fibres): reason for fibres, reason in ordered.failed.items()}
        self._failed |= failed
        self._detours.fail(failed)
        return failed

    def _mend(self) -> None:
        """Jobs that lack a circuit which has failed take one that is left, or wait; who can have none is dropped."""
        while moves := self._moves():
            names = {name for ways in moves.values() for name in ways.values()}
            self._light_too(names)
            for job, ways in moves.items():
                if set(ways.values()) <= self._lit:
                    self._move(job, ways)
            self._open(self._running, self._now)
        self._drop_the_dark()

    def _moves(self) -> dict[int, dict[str, str]]:
        """For jobs that lack circuits, those that they can have in their place now."""
        found: dict[int, dict[str, str]] = {}
        lacking = {job: self._uses[job] & (set(self._failed) | self._displaced) for job in sorted(self._running)}
        held = set().union(
            *(self._uses[job] for job, names in lacking.items() if not names and not self._gates.end(job))
        )
        for job, names in lacking.items():
            if names and self._can_move(job):
                instead = self._detours.find(names, held | (self._uses[job] - names), self._lit)
                if instead:
                    found[job] = instead
                    held |= (self._uses[job] - names) | set(instead.values())
        return found

    def _can_move(self, job: int) -> bool:
        """Whether a job's nodes can take another circuit while it runs; switches in the kernel cannot."""
        return all(node.engine == "udp" for node in self.plans[job].nodes)

    def _light_too(self, names: AbstractSet[str]) -> None:
        """Lights circuits beside those that are lit, whose ports they do not need."""
        wanted = self._detours.beside(self._lit, names) | names
        if wanted == self._lit:
            return
        dark = darkened(self._network, self._lit, wanted)
        self._gates.shut(sorted(job for job in self._running if self._uses[job] & dark))
        time.sleep(DRAIN_S)
        ordered = self._light.order([self._circuits[name] for name in sorted(wanted)])
        self.seen.mending += ordered.added
        self._lit = wanted - set(self._note_failed(ordered))

    def _move(self, job: int, instead: Mapping[str, str]) -> None:
        """Puts a job onto other circuits, which are lit; its ranks notice no more than a pause."""
        before = self._ways[job]
        ways = {link: instead.get(name, name) for link, name in before.items()}
        self._know(job, self._detours.readdressed(self.plans[job], ways))
        self._nodes.readdress(self.plans[job])
        self._moved.add(job)
        self._waiting.discard(job)
        for name, other in sorted(instead.items()):
            why = self._failed.get(name, "a job that has begun needs its ports")
            self._tell(f"job {job} goes over to circuit {other} in place of {name}: {why}")
            self.seen.moves.append(Move(self._now_s(), job, name, other))

    def _keep_light(self) -> None:
        """Orders what should be lit again, where someone or something has changed it, or a job waits in vain.

        A circuit that gets no light any more has failed, and jobs whose plans name it are dropped.
        """
        known = self._circuits
        wanted = [known[name] for name in sorted(self._lit)]
        look = self._light.look(wanted)
        is_changed = self._has_ordered and not look.has_all
        failing = {name for name in self._lit if frozenset(known[name].links) in look.failed}
        doubtful = [known[name] for name in sorted(self._doubtful(failing))]
        if not is_changed and not doubtful:
            if self._waiting:
                self._mend()
            return
        if is_changed and self._restored == MOST_RESTORED:
            names = ", ".join(sorted({one.switch for one in known.values()}))
            problem = f"someone else has changed circuits of {names} {MOST_RESTORED} times, as another schedule does"
            raise ScheduleError(f"{problem} that is carried out at the same device; end one of the two")
        again = self._light.order(wanted, doubtful=doubtful)
        failed = self._note_failed(again)
        if is_changed:
            self._restored += 1
            end = f"all but {len(failed)} are lit again" if failed else "what was ordered is lit again"
            self._tell(f"{again.added} circuits had gone and {again.removed} had come; {end}")
        self._lose(failed)

    def _doubtful(self, failing: AbstractSet[str]) -> set[str]:
        """Circuits of jobs that have had no result for a while, which is shorter where a device calls one failed."""
        now_s, found = self._now_s(), set[str]()
        for job, results in self._gates.results(self._running).items():
            before, since_s = self._results.get(job, (-1, now_s))
            still_s = ALARMED_S if self._uses[job] & failing else STILL_S
            if results != before or now_s - since_s >= still_s:
                found |= self._uses[job] & self._lit if results == before else set()
                self._results[job] = (results, now_s)
        return found

    def _lose(self, failed: Mapping[str, str]) -> None:
        """Circuits have failed for good, for these reasons."""
        self._lit -= set(failed)
        self._mend()

    def _pass_until(self, moment_s: float) -> None:
        """Sleeps, and looks after the light now and then."""
        while self._now_s() + LOOK_S < moment_s:
            time.sleep(LOOK_S / 2)
            self._keep_light()
        time.sleep(max(0.0, moment_s - self._now_s()))

    def _await_late(self, job: int, patience_s: float | None) -> bool:
        """Whether a job that is late ends in time, or is dropped; its circuits may have gone dark by themselves."""
        end_s = math.inf if patience_s is None else time.monotonic() + patience_s
        while not self._gates.await_end(job, min(LOOK_S, max(0.0, end_s - time.monotonic()))):
            if job not in self._running:
                return True
            if time.monotonic() >= end_s:
                return False
            self._keep_light()
        return True

    def _drop_the_dark(self) -> None:
        """Jobs whose plans name a circuit that has failed cannot go on: others may have their places and circuits."""
        for job in sorted(self._running):
            failed = sorted(self._uses[job] & set(self._failed))
            lost = next((name for name in failed if not self._can_move(job) or not self._detours.left(name)), None)
            if lost is not None:
                self._nodes.dismiss(self.plans[job])
                self._running.discard(job)
                self._waiting.discard(job)
                self._drop(job, f"circuit {lost}: {self._failed[lost]}")
            elif (failed or self._uses[job] & self._displaced) and job not in self._waiting:
                self._waiting.add(job)
                self._gates.shut([job])
                lacking = ", ".join(failed or sorted(self._uses[job] & self._displaced))
                self._tell(f"job {job} waits until ports are free for a circuit in place of {lacking}")

    def _drop(self, job: int, reason: str) -> None:
        """A job without light is served no more; it goes on without the network if all of its ranks can."""
        why = f"job {job} is served no more, as a circuit of its plan has no light: {reason}"
        can = self._gates.can_leave(job, len(self.plans[job].workers))
        remedy = "" if can else "; with WIRESUM_FALLBACK=gloo at all of its ranks it goes on over Gloo"
        self._tell(why)
        self._gates.stop(job, why + remedy, elsewhere=can)
        self._over(job, "dark")

    def _give_up(self, job: int, why: str) -> None:
        """A job that its driver has waited for in vain is served no more."""
        told = f"{why}, and it is served no more"
        self._tell(told)
        self._gates.stop(job, told)

    def _over(self, job: int, end: str) -> None:
        """A job has ended otherwise than by its goodbye."""
        turn = self.seen.turns.setdefault(job, Turn(self._now_s()))
        turn.end_s, turn.end = self._now_s(), end

    def _hand_out(self, jobs: Iterable[int]) -> None:
        """Gives ranks their plans that have none, and know the secret."""
        for job in sorted(jobs):
            self._gates.hand_out(job, self.plans[job].without_secret().to_json())

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
