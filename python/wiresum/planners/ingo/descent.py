"""Moves flows away from the busiest resource, until no move of one flow, or of one aggregator's flows, helps.

What is lowered is Σ (load / capacity)^p: nearly the busiest resource alone, but a move that frees one of several
equally busy ones counts too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wiresum.plan.assignment.instance import PS
from wiresum.planners.ingo.choices import Choices, Way
from wiresum.planners.ingo.selection import Selection

EXPONENT = 16
"""p: twice the flows at a resource weigh 65,536 times as much."""
MAX_STEPS = 1000
"""Each lowers the sum; 50 workers take some dozens."""
LEAST_GAIN = 1e-9
"""Relative: less is rounding."""


def descend(choices: Choices, start: Selection, ends_s: float) -> Selection:
    """A selection from which no such move lowers the sum; its rate may be the start's.

    Args:
        choices: what to choose from.
        start: where to begin.
        ends_s: on the monotonic clock; no step begins after it.
    """
    state = _State(choices, start)
    for _ in range(MAX_STEPS):
        if time.monotonic() > ends_s or not state.step():
            break
    return Selection(tuple(state.workers), state.sums)


@dataclass(frozen=True)
class _Move:
    """What changes: ways of workers, and ways of sums that stay in use."""

    workers: Mapping[int, Way] = field(default_factory=dict)
    sums: Mapping[int, Way] = field(default_factory=dict)


class _State:
    def __init__(self, choices: Choices, start: Selection) -> None:
        self._choices = choices
        self._capacity = choices.capacity.tolist()
        self.workers = list(start.of_workers)
        self.sums = dict(start.of_aggregators)
        ways = [*self.workers, *self.sums.values()]
        self._load = Counter(resource for way in ways for resource in way.resources)

    def step(self) -> bool:
        """Makes the best of all moves of flows at the busiest resource; whether there was one."""
        busiest = max(self._load, key=lambda resource: self._load[resource] / self._capacity[resource])
        self._unit = self._load[busiest] / self._capacity[busiest]
        moves = [(self._gain(move), number, move) for number, move in enumerate(self._moves(busiest))]
        gain, _, best = max(moves, default=(0.0, 0, None))
        if best is None or gain < LEAST_GAIN:
            return False
        change, sums = self._change(best)
        self._load.update(change)
        for worker, way in best.workers.items():
            self.workers[worker] = way
        self.sums = sums
        return True

    def _moves(self, busiest: int) -> Iterator[_Move]:
        for worker, now in enumerate(self.workers):
            if busiest in now.resources:
                yield from (_Move(workers={worker: way}) for way in self._choices.of_workers[worker] if way != now)
        for aggregator, now in self.sums.items():
            if busiest in now.resources:
                others = self._choices.of_aggregators[aggregator]
                yield from (_Move(sums={aggregator: way}) for way in others if way != now)
                yield from self._closing(aggregator)

    def _closing(self, aggregator: int) -> Iterator[_Move]:
        """All of an aggregator's workers together to another one that is in use, or to the server."""
        members = [worker for worker, way in enumerate(self.workers) if way.aggregator == aggregator]
        for other in (PS, *self.sums):
            among = [[way for way in self._choices.of_workers[one] if way.aggregator == other] for one in members]
            if other != aggregator and all(among):
                yield _Move(workers={one: self._lightest(ways) for one, ways in zip(members, among, strict=True)})
        yield from self._dispersing(aggregator, members)

    def _dispersing(self, aggregator: int, members: Sequence[int]) -> Iterator[_Move]:
        """An aggregator's workers one by one to those that are in use, or to the server, each where it adds least."""
        others = {PS, *self.sums} - {aggregator}
        loads, workers = self._load.copy(), dict[int, Way]()
        loads.subtract(resource for one in members for resource in self.workers[one].resources)
        loads.subtract(self.sums[aggregator].resources)
        for one in members:
            among = [way for way in self._choices.of_workers[one] if way.aggregator in others]
            if not among:
                return
            workers[one] = self._lightest(among, loads)
            loads.update(workers[one].resources)
        yield _Move(workers=workers)

    def _gain(self, move: _Move) -> float:
        """By how much the sum falls, in units of the busiest resource's part."""
        change, _ = self._change(move)
        return sum(self._weight(resource, 0) - self._weight(resource, more) for resource, more in change.items())

    def _change(self, move: _Move) -> tuple[Counter[int], dict[int, Way]]:
        """Loads that change, and the sums' ways after it; sums begin and end with their first and last worker."""
        change: Counter[int] = Counter()
        for worker, way in move.workers.items():
            change.subtract(self.workers[worker].resources)
            change.update(way.resources)
        sums = self._sums_after(move)
        for aggregator in self.sums.keys() | sums.keys():
            before, after = self.sums.get(aggregator), sums.get(aggregator)
            if before != after:
                change.subtract(before.resources if before else ())
                change.update(after.resources if after else ())
        return change, sums

    def _sums_after(self, move: _Move) -> dict[int, Way]:
        sums = {**self.sums, **move.sums}
        for aggregator in {way.aggregator for way in move.workers.values()} - {PS} - sums.keys():
            sums[aggregator] = self._lightest(self._choices.of_aggregators[aggregator])
        left = {self.workers[worker].aggregator for worker in move.workers} - {PS}
        joined = {way.aggregator for way in move.workers.values()}
        for aggregator in left - joined:
            if self._is_left_empty(aggregator, move):
                del sums[aggregator]
        return sums

    def _is_left_empty(self, aggregator: int, move: _Move) -> bool:
        return all(
            way.aggregator != aggregator for worker, way in enumerate(self.workers) if worker not in move.workers
        )

    def _lightest(self, ways: Iterable[Way], loads: Counter[int] | None = None) -> Way:
        """The one that adds least to the sum, as loads are now, or as these."""
        return min(ways, key=lambda way: sum(self._weight(resource, 1, loads) for resource in way.resources))

    def _weight(self, resource: int, more: int, loads: Counter[int] | None = None) -> float:
        load = (self._load if loads is None else loads)[resource] + more
        return float((load / self._capacity[resource] / self._unit) ** EXPONENT)
