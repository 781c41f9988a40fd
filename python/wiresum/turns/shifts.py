"""Time shifts: jobs that share a link send while others compute.

A job that computes between its sums has a timetable's mean rate, and sends faster while it sends. Where such peaks
meet on a link, all who share it have to send more slowly, and every iteration takes longer. If one of them begins a
little later, its sending falls into the others' computing, and all keep their rates.

Jobs that share overfull links are a group. Each in turn gets the shift at which it meets the others least, for some
rounds. A group is shifted only if in the end no link has more than it carries, and each job ends earlier so than if all
sent more slowly. A shifted job begins with an interval of its own, so a schedule says all of it.

Source: Rajasekaran et al., "CASSINI: Network-Aware Job Scheduling in Machine Learning Clusters", NSDI 2024.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval
from wiresum.plan.shared import SharedNetwork
from wiresum.turns.sharing import GRADIENT_PART, capacity_bps, loads_bps, ways_of, within_links
from wiresum.workload.model import WorkloadJob

STEPS = 72
"""Shifts that are tried in an iteration: every 5 degrees of CASSINI's circle."""
ROUNDS = 4
"""Times that each job of a group chooses its shift."""
LOOKAHEAD = 64
"""Iterations of a job that a choice looks at; all of them are looked at before it is made."""
MOST_ITERATIONS = 20_000
"""Iterations of a group, over all of its jobs; larger ones are not shifted."""
GUARD = 0.02
"""Part of an iteration that stays free between the sending of two jobs, as iterations do not last the same."""
NOISE = 1e-9


@dataclass(frozen=True)
class Sender:
    """A job that computes and sends by turns.

    Attributes:
        rates: from when until when each of its workers sends how fast, in seconds and bit/s, in order of time.
        bits: that a worker sends in an iteration.
        iterations: how many there are.
        compute_s: in each of them.
        uses: how often each link carries what a worker sends.
        computes_first: whether it begins by computing; otherwise it has something to send when it begins.
    """

    rates: Sequence[tuple[float, float, float]]
    bits: float
    iterations: int
    compute_s: float
    uses: Mapping[str, int] = field(default_factory=dict)
    computes_first: bool = False

    @property
    def period_s(self) -> float:
        """How long an iteration lasts at its first rate."""
        return self.compute_s + self.bits / self.rates[0][2]

    def bursts(self, shift_s: float, most: int | None = None) -> np.ndarray:
        """Begin, end and bit/s of what it sends, and the guard behind it in seconds, a row for each.

        Args:
            shift_s: seconds by which it begins later.
            most: iterations that are looked at.
        """
        now_s = self.rates[0][0] + shift_s + (self.compute_s if self.computes_first else 0.0)
        found: list[tuple[float, float, float, float]] = []
        for _ in range(min(self.iterations, most or self.iterations)):
            found += self._burst(now_s)
            now_s = found[-1][1] + self.compute_s
        return np.array(found)

    def _burst(self, begin_s: float) -> Iterator[tuple[float, float, float, float]]:
        """One iteration's; who is late keeps the last rate."""
        left = self.bits
        for index, (_, until_s, rate_bps) in enumerate(self.rates):
            is_last = index == len(self.rates) - 1
            if begin_s >= until_s and not is_last:
                continue
            end_s = begin_s + left / rate_bps
            if end_s <= until_s or is_last:
                yield begin_s, end_s, rate_bps, GUARD * self.period_s if self.compute_s else 0.0
                return
            yield begin_s, until_s, rate_bps, 0.0
            left -= (until_s - begin_s) * rate_bps
            begin_s = until_s

    def end_s(self, shift_s: float = 0.0) -> float:
        """When its last byte is sent."""
        return float(self.bursts(shift_s)[-1][1])


def interleave(
    senders: Mapping[int, Sender], capacities_bps: Mapping[str, float], ends_s: Mapping[int, float]
) -> dict[int, float]:
    """Seconds by which each of some jobs begins later, so that no link has more than it carries.

    Args:
        senders: by job; those that do not compute stay where they are.
        capacities_bps: of the links that they share.
        ends_s: when each of them ends without shifts, at rates that fit.

    Returns:
        A shift for each job; empty if there are none with which all fit and each ends earlier.
    """
    if sum(sender.iterations for sender in senders.values()) > MOST_ITERATIONS:
        return {}
    order = sorted(senders, key=lambda job: (senders[job].compute_s > 0, senders[job].rates[0][0], job))
    shifts: dict[int, float] = {}
    for _ in range(ROUNDS):
        before = dict(shifts)
        for job in order:
            others = {other: senders[other].bursts(shift_s, LOOKAHEAD) for other, shift_s in shifts.items()}
            others.pop(job, None)
            shifts[job] = _least(job, senders, others, capacities_bps)
        if shifts == before:
            break
    bursts = {job: senders[job].bursts(shift_s) for job, shift_s in shifts.items()}
    if any(excess(bursts, senders, link, bps) > 0 for link, bps in capacities_bps.items()):
        return {}
    are_earlier = all(senders[job].end_s(shift_s) < ends_s[job] for job, shift_s in shifts.items())
    return shifts if are_earlier else {}


def _least(
    job: int, senders: Mapping[int, Sender], others: Mapping[int, np.ndarray], capacities_bps: Mapping[str, float]
) -> float:
    """The shift at which a job meets the others least; the shortest of several."""
    sender = senders[job]
    if not sender.compute_s:
        return 0.0
    # It has to begin with its first interval.
    room_s = sender.rates[0][1] - sender.rates[0][0]
    shifts = [step * sender.period_s / STEPS for step in range(STEPS) if step * sender.period_s / STEPS < room_s]
    links = [link for link in capacities_bps if link in sender.uses]

    def meets(shift_s: float) -> float:
        bursts = {**others, job: sender.bursts(shift_s, LOOKAHEAD)}
        return sum(excess(bursts, senders, link, capacities_bps[link]) for link in links)

    return min(shifts, key=lambda shift_s: (round(meets(shift_s)), shift_s))


def excess(bursts: Mapping[int, np.ndarray], senders: Mapping[int, Sender], link: str, capacity_bps: float) -> float:
    """Bits on a link beyond what it carries, with a guard after each burst."""
    there = [job for job in bursts if senders[job].uses.get(link)]
    if not there:
        return 0.0
    begins = np.concatenate([bursts[job][:, 0] for job in there])
    ends = np.concatenate([bursts[job][:, 1] + bursts[job][:, 3] for job in there])
    rates = np.concatenate([bursts[job][:, 2] * senders[job].uses[link] for job in there])
    times, changes = np.concatenate([begins, ends]), np.concatenate([rates, -rates])
    order = np.lexsort((changes, times))
    loads = np.cumsum(changes[order])[:-1]
    over = np.maximum(loads - capacity_bps * (1 + NOISE), 0.0)
    return float(np.sum(over * np.diff(times[order])))


@dataclass(frozen=True)
class _Group:
    """Jobs that meet on overfull links.

    Attributes:
        jobs: their numbers.
        links: those links.
    """

    jobs: frozenset[int]
    links: frozenset[str]

    def meets(self, other: _Group) -> bool:
        return bool(self.jobs & other.jobs)

    def joined(self, other: _Group) -> _Group:
        return _Group(self.jobs | other.jobs, self.links | other.links)


class _Shifting:
    def __init__(
        self, intervals: Sequence[Interval], jobs: Mapping[int, WorkloadJob], network: SharedNetwork, *, first: bool
    ) -> None:
        self._intervals, self._jobs, self._network, self._first = intervals, jobs, network, first
        self.plans: dict[int, AggregationPlan] = {
            int(job): plan for one in intervals for job, plan in one.plans.items()
        }
        self._told = [{int(job): bps for job, bps in one.rates_bps.items()} for one in intervals]
        self._peaks = [{job: self._peak_bps(job, bps) for job, bps in rates.items()} for rates in self._told]

    def _peak_bps(self, job: int, told_bps: float) -> float:
        """Who is interleaved may always send as fast as ever, also in an interval for which little is left."""
        most_bps = max(rates[job] for rates in self._told if job in rates)
        uses = ways_of(self.plans[job]).items()
        own_bps = min(capacity_bps(self._network, link) / workers for link, workers in uses)
        return min(most_bps if self._jobs[job].compute_s else told_bps, own_bps)

    def find(self) -> tuple[dict[int, float], set[str]]:
        """A shift for each job of a group that is interleaved, and the links of these groups."""
        shifts: dict[int, float] = {}
        links: set[str] = set()
        for group in self._groups():
            senders = {job: self._sender(job, self._peaks) for job in sorted(group.jobs)}
            capacities = {link: capacity_bps(self._network, link) for link in sorted(group.links)}
            found = interleave(senders, capacities, {job: self._slow_end_s(job) for job in senders})
            shifts |= found
            links |= group.links if found else set()
        return shifts, links

    def rates(self, index: int, jobs: Collection[int]) -> dict[int, float]:
        """bit/s of each worker in an interval, with the peaks of some jobs, and what was told of others."""
        told, peaks = self._told[index], self._peaks[index]
        return {job: peaks[job] if job in jobs else bps for job, bps in told.items()}

    def _groups(self) -> list[_Group]:
        groups: list[_Group] = []
        for rates in self._peaks:
            for link, load_bps in loads_bps(rates, self.plans).items():
                users = frozenset(job for job in rates if ways_of(self.plans[job])[link])
                is_overfull = load_bps > capacity_bps(self._network, link) * (1 + NOISE)
                if len(users) > 1 and is_overfull and any(self._jobs[job].compute_s for job in users):
                    new = _Group(users, frozenset([link]))
                    for other in [group for group in groups if group.meets(new)]:
                        groups.remove(other)
                        new = new.joined(other)
                    groups.append(new)
        return groups

    def _sender(self, job: int, rates: Sequence[Mapping[int, float]]) -> Sender:
        described = self._jobs[job]
        turns = [(one, of_all[job]) for one, of_all in zip(self._intervals, rates, strict=True) if job in of_all]
        return Sender(
            rates=[(one.from_s, one.end_s, bps) for one, bps in turns],
            bits=8 * (described.bytes or 0) / GRADIENT_PART,
            iterations=described.iterations,
            compute_s=described.compute_s,
            uses=ways_of(self.plans[job]),
            computes_first=self._first,
        )

    def _slow_end_s(self, job: int) -> float:
        """When a job ends if all who share a link send so slowly that it carries them."""
        slow = [within_links(rates, self.plans, self._network) for rates in self._told]
        return self._sender(job, [{int(name): bps for name, bps in rates.items()} for rates in slow]).end_s()


def interleaved(
    intervals: Sequence[Interval],
    jobs: Mapping[int, WorkloadJob],
    network: SharedNetwork,
    *,
    computes_first: bool = False,
) -> list[Interval]:
    """Intervals with rates that their links carry, and with shifts where these help.

    Args:
        intervals: whose rates are a timetable's, on the cable, whatever links carry.
        jobs: by number.
        network: which has the links' rates.
        computes_first: whether a job begins by computing; live it has something to send when it begins.

    Returns:
        The same intervals; one with which shifted jobs begin is cut into several.
    """
    shifting = _Shifting(intervals, jobs, network, first=computes_first)
    shifts, links = shifting.find()
    begun: set[int] = set()
    made: list[Interval] = []
    for index, one in enumerate(intervals):
        here = {int(job) for job in one.plans}
        begin_s = {job: one.from_s + shifts.get(job, 0.0) for job in here - begun}
        begun |= here
        begins_s = sorted({one.from_s, *begin_s.values()})
        for from_s, until_s in zip(begins_s, [*begins_s[1:], one.until_s], strict=True):
            there = {job for job in here if begin_s.get(job, from_s) <= from_s}
            rates = {job: bps for job, bps in shifting.rates(index, shifts).items() if job in there}
            made.append(
                one.model_copy(
                    update={
                        "from_s": from_s,
                        "until_s": until_s,
                        "plans": {job: plan for job, plan in one.plans.items() if int(job) in there},
                        "rates_bps": within_links(rates, shifting.plans, network, links),
                    }
                )
            )
    return made


def unshifted(intervals: Sequence[Interval], network: SharedNetwork) -> list[Interval]:
    """The same intervals, with rates that their links carry if all jobs send at once."""

    def rates(one: Interval) -> dict[str, float]:
        plans = {int(job): plan for job, plan in one.plans.items()}
        return within_links({int(job): bps for job, bps in one.rates_bps.items()}, plans, network)

    return [one.model_copy(update={"rates_bps": rates(one)}) for one in intervals]
