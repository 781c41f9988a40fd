"""Relays: what is little between two units goes over a third one, instead of a circuit of its own.

A circuit between two units takes a port of each for at least a slot, however little crosses it. Where a third unit has
circuits to both, with room, its switch passes it on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wiresum.schedule.ask import schedule
from wiresum.schedule.model import Timetable
from wiresum.topology.model import Topology
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload

LITTLE = 0.5
"""Part of what a circuit carries in a slot; more between two units is worth a circuit."""
BITS = 8

Relay = tuple[int, str, str]
"""Number of a job, a unit with workers of it, and the unit over which they send."""


def relayed(
    topology: Topology, workload: Workload, slot_s: float, scheduler: str = "turns", **options: Any
) -> Workload:
    """The workload with relays where they let its jobs be complete earlier, or with fewer set-ups; as it is otherwise.

    Which demands are little is read from a timetable without relays. All of them are relayed, or half of them, the
    least first, and so on; the best timetable decides.

    Args:
        topology: with one optical switch.
        workload: its jobs; those with relays keep them.
        slot_s: seconds after which circuits may change.
        scheduler: who schedules it.
        options: what the scheduler is told.

    Raises:
        WorkloadError: workload and topology do not fit.
        ScheduleError: a job cannot be served.
    """

    def ask(jobs: Workload) -> Timetable:
        return schedule(instance(topology, jobs, slot_s), scheduler, bound=False, **options)

    document = instance(topology, workload, slot_s)
    direct = ask(workload)
    by_server = {job.job for job in direct.cost.jobs if job.by == "server"}
    found = proposals(document, by_server)
    best, least = workload, _worth(direct)
    while found:
        tried = _with(workload, found)
        if (worth := _worth(ask(tried))) < least:
            best, least = tried, worth
        found = found[: len(found) // 2]
    return best


def _worth(timetable: Timetable) -> tuple[float, int]:
    return timetable.cost.completion_s, timetable.cost.setups


def _with(workload: Workload, relays: Sequence[Relay]) -> Workload:
    jobs = list(workload.jobs)
    for number, unit, relay in relays:
        job = jobs[number - 1]
        jobs[number - 1] = job.model_copy(update={"via": {**job.via, unit: relay}})
    return workload.model_copy(update={"jobs": jobs})


@dataclass
class _Pair:
    """What two units have for each other, in slots of a circuit, by the unit that sends."""

    load: dict[str, float]
    senders: list[tuple[int, str]]
    is_relayed: bool = False
    carries_others: bool = False

    @property
    def filled(self) -> float:
        return max(self.load.values())

    @property
    def room(self) -> float:
        """Until it needs one more circuit for a slot."""
        return math.ceil(self.filled) - self.filled


def proposals(document: Mapping[str, Any], jobs: set[int]) -> list[Relay]:
    """Relays for all that is little between two units, the least first.

    Args:
        document: an instance of schedulers.
        jobs: those that servers sum.
    """
    pairs = _pairs(document, jobs)
    found: list[Relay] = []
    for ends, pair in sorted(pairs.items(), key=lambda one: (one[1].filled, sorted(one[0]))):
        if pair.filled > LITTLE or pair.carries_others:
            continue
        relay = _relay(pairs, ends, pair, document)
        if relay is None:
            continue
        pair.is_relayed = True
        for end in ends:
            leg = pairs[frozenset((end, relay))]
            leg.carries_others = True
            for sender, slots in pair.load.items():
                via = end if sender == end else relay
                leg.load[via] = leg.load.get(via, 0.0) + slots
        found += [(number, unit, relay) for number, unit in pair.senders]
    return found


def _pairs(document: Mapping[str, Any], jobs: set[int]) -> dict[frozenset[str], _Pair]:
    pairs: dict[frozenset[str], _Pair] = defaultdict(lambda: _Pair({}, []))
    slot_bytes = document["port_bps"] * document["slot_s"] / BITS
    for job in document["jobs"]:
        star = job["traffic"].get("star")
        if star is None or job["id"] not in jobs:
            continue
        for unit, workers in star["workers"].items():
            if unit == star["server"] or unit in star.get("via", {}):
                continue
            pair = pairs[frozenset((unit, star["server"]))]
            pair.load[unit] = pair.load.get(unit, 0.0) + workers * star["bytes"] / slot_bytes
            pair.senders.append((job["id"], unit))
    return dict(pairs)


def _relay(
    pairs: Mapping[frozenset[str], _Pair], ends: frozenset[str], pair: _Pair, document: Mapping[str, Any]
) -> str | None:
    """The unit with the most room on its circuits to both, if they have enough."""
    best: tuple[float, str] | None = None
    for unit in document["units"]:
        legs = [pairs.get(frozenset((end, unit["name"]))) for end in ends if end != unit["name"]]
        if unit["name"] in ends or unit["ports"] < len(ends):
            continue
        rooms = [leg.room for leg in legs if leg is not None and not leg.is_relayed]
        if len(rooms) == len(ends) and min(rooms) >= pair.filled and (best is None or min(rooms) > best[0]):
            best = (min(rooms), unit["name"])
    return None if best is None else best[1]
