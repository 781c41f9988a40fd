"""Ports and plans for what a scheduler says of a slot: jobs that begin get theirs, those that have begun keep them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Interval
from wiresum.schedule.model import Interval as Slot
from wiresum.schedule.model import Rate
from wiresum.topology.optical import Circuit
from wiresum.turns.darkness import darkened
from wiresum.turns.maker import free_segment
from wiresum.turns.plans import between_units
from wiresum.turns.ports import Pair, Ports
from wiresum.turns.sharing import within_links

if TYPE_CHECKING:
    from wiresum.turns.online import Online

NOISE = 1e-9
"""Relative excess of a circuit's load that rounding explains."""
OnCable = Callable[[int, float, bool], float]
"""A job, its mean rate in a slot, and whether it waits for light there: how fast each of its workers sends, in bit/s on
the cable."""


class SlotPlans:
    """Ports and plans, slot by slot; the same for live runs and simulated ones.

    Args:
        online: whom to ask, about which jobs.
        on_cable: how fast who sends that a scheduler gives a mean rate.
        ports: of the topology, where some may have failed.

    Attributes:
        ports: of the topology, with what has failed there.
        plans: of jobs that have begun, or begin in the slot that was decided last.
        segments: of the memory of each unit, by job.
    """

    def __init__(self, online: Online, on_cable: OnCable, ports: Ports | None = None) -> None:
        self._online, self._on_cable = online, on_cable
        self._network, self._jobs = online.network, online.maker.jobs
        self.ports = ports or Ports(online.topology)
        self.plans: dict[int, AggregationPlan] = {}
        self.segments: dict[int, dict[str, int]] = {}
        self._load: Counter[str] = Counter()

    def take_back(self, job: int) -> None:
        """A job gives its segment back; its plan is known until another one is made."""
        self.segments.pop(job, None)

    def counted(self, lit: Iterable[str]) -> list[dict[str, Any]]:
        """How many circuits of these names there are between two units, as schedulers are told."""
        pairs = Counter(self.ports.pair(self._online.circuits[name]) for name in lit)
        return [{"between": sorted(pair), "circuits": number} for pair, number in pairs.items()]

    def interval(
        self, slot: Slot, running: Collection[int], waiting: Collection[int], lit: AbstractSet[str]
    ) -> tuple[Interval, dict[int, str]]:
        """The scheduler's slot with ports and plans.

        Args:
            slot: what it says.
            running: jobs that have begun, and keep their circuits.
            waiting: jobs that may begin.
            lit: names of circuits that are lit.

        Returns:
            The slot, and why jobs are never served that the scheduler lets begin.
        """
        chosen = self._choose(slot, running, lit)
        rates = {rate.job: rate.rate_bps for rate in slot.rates}
        self._load = Counter()
        for job in running:
            self._use(job, rates.get(job, 0.0))
        by_pair = between_units(self._network, chosen)
        begins = [rate for rate in slot.rates if rate.job in waiting]
        refused = {rate.job: reason for rate in begins if (reason := self._lost(rate))}
        serving = set(running)
        for rate in begins:
            if rate.job not in refused and all(by_pair.get(pair) for pair in self._pairs(rate)):
                self._plan(rate, by_pair)
                serving.add(rate.job)
        dark = darkened(self._network, lit, {self._network.name(one) for one in chosen})
        on_cable = {
            job: self._on_cable(job, rates[job], job not in running and bool(self._circuits(job) & dark))
            for job in sorted(serving & set(rates))
        }
        interval = Interval(
            from_s=slot.from_s,
            until_s=slot.until_s,
            circuits=chosen,
            plans={str(job): self.plans[job] for job in sorted(serving)},
            rates_bps=within_links(on_cable, self.plans, self._network),
        )
        return interval, refused

    def _choose(self, slot: Slot, running: Collection[int], lit: AbstractSet[str]) -> list[Circuit]:
        """Circuits with ports: those of jobs that have begun stay, then those that are lit."""
        known = self._online.circuits
        wanted = {frozenset(one.between): one.circuits for one in slot.circuits}
        held = sorted({name for job in running for name in self._circuits(job)})
        return self.ports.choose(wanted, [known[name] for name in held], [known[name] for name in sorted(lit)])

    def _circuits(self, job: int) -> set[str]:
        """Circuits that a job's plan names."""
        return set(self._network.ways(self.plans[job]).values())

    def _pairs(self, rate: Rate) -> set[Pair]:
        """Pairs of units between which a job needs circuits."""
        maker = self._online.maker
        if rate.by == "switch":
            return set(map(frozenset, maker.tree(rate.job) or []))
        server = self._jobs[rate.job].server
        if server is None:
            return set()
        known = {unit["name"] for unit in self._online.instance["units"]}
        home = server if server in known else maker.unit_of(server)
        return {frozenset((unit, home)) for unit in maker.units(rate.job) - {home}}

    def _lost(self, rate: Rate) -> str:
        """Why a job can never begin; empty if it can."""
        lost = next((pair for pair in self._pairs(rate) if not self.ports.could_join(pair)), None)
        return f"no port that works is left between {' and '.join(sorted(lost))}" if lost else ""

    def _plan(self, rate: Rate, by_pair: Mapping[Pair, list[str]]) -> None:
        most_bps = float(self._online.instance["port_bps"]) * (1 + NOISE)

        def circuit(pair: Pair) -> str:
            """The fullest that has room, so that others stay free; else the emptiest."""
            fits = [name for name in by_pair[pair] if self._load[name] + rate.rate_bps <= most_bps]
            chosen = max(fits, key=self._load.__getitem__) if fits else min(by_pair[pair], key=self._load.__getitem__)
            self._load[chosen] += int(rate.rate_bps)
            return chosen

        def segment(units: Collection[str]) -> int:
            number = free_segment(units, self.segments.values())
            self.segments[rate.job] = dict.fromkeys(units, number)
            return number

        self.plans[rate.job] = self._online.plan(rate.job, rate.by, circuit, segment)

    def _use(self, job: int, rate_bps: float) -> None:
        for name in self._circuits(job):
            self._load[name] += int(rate_bps)
