"""Which circuit between two units each job has, and which circuits go when there are fewer.

A timetable counts circuits between two units, and a job keeps the one that it has been given. So a circuit may go only
when all who have it have ended. Who shares it is chosen such that it never has more to carry than it can, by a search
with a bound on its steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MOST_STEPS = 5_000
"""Circuits that are tried for needs, in all. Of 45 pairs of units in random timetables that had too much on a circuit,
18 had a deal, found in 7 steps at most, and 27 had none."""
MOST_NEEDS = 300
"""Depth of the search, which leaves room on the interpreter's stack."""


@dataclass(frozen=True)
class Need:
    """What a worker, or the sum of a unit, sends between two units.

    Attributes:
        first: its job's first interval.
        last: the last one.
        bps: by interval.
    """

    first: int
    last: int
    bps: Mapping[int, float]


@dataclass(frozen=True)
class Deal:
    """Circuits between two units, and who has them.

    Attributes:
        lit: numbers of the circuits of each interval, the oldest first.
        chosen: for each need, the number of its circuit.
    """

    lit: list[list[int]]
    chosen: list[int]

    def stays(self, index: int, position: int) -> bool:
        """Whether an interval has a circuit of the one before, which was at a position there."""
        return self.lit[index - 1][position] in self.lit[index]


def deal(counts: Sequence[int], needs: Sequence[Need], most_bps: float) -> Deal | None:
    """Circuits that never have more to carry than they can; None if none were found.

    Args:
        counts: circuits of each interval.
        needs: of all jobs.
        most_bps: that a circuit carries.
    """
    if len(needs) > MOST_NEEDS:
        return None
    return _Search(counts, needs, most_bps).found()


class _Search:
    def __init__(self, counts: Sequence[int], needs: Sequence[Need], most_bps: float) -> None:
        self._counts, self._needs, self._most_bps = counts, needs, most_bps
        self._order = sorted(range(len(needs)), key=lambda index: needs[index].first)
        self._chosen: dict[int, int] = {}
        self._steps = 0

    def found(self) -> Deal | None:
        lit = self._place(0, [[]])
        return None if lit is None else Deal(lit[1:], [self._chosen[index] for index in range(len(self._needs))])

    def _place(self, depth: int, lit: list[list[int]]) -> list[list[int]] | None:
        """All circuits with these up to now, if the needs from a place in their order on can have some."""
        is_last = depth == len(self._order)
        grown = self._grown(lit, len(self._counts) if is_last else self._needs[self._order[depth]].first + 1)
        if grown is None or is_last:
            return grown
        index = self._order[depth]
        for circuit in self._fitting(self._needs[index], grown[-1]):
            self._steps += 1
            if self._steps > MOST_STEPS:
                return None
            self._chosen[index] = circuit
            made = self._place(depth + 1, grown)
            if made is not None:
                return made
            del self._chosen[index]
        return None

    def _grown(self, lit: list[list[int]], intervals: int) -> list[list[int]] | None:
        """The circuits with those of further intervals; None where one would have to go that a job has."""
        grown = list(lit)
        for index in range(len(lit) - 1, intervals):
            stay, count = grown[-1], self._counts[index]
            busy = {circuit for need, circuit in self._chosen.items() if self._needs[need].last >= index}
            if len(busy) > count:
                return None
            idle = [circuit for circuit in stay if circuit not in busy]
            gone = set(idle[len(idle) - max(0, len(stay) - count) :]) if len(stay) > count else set()
            stay = [circuit for circuit in stay if circuit not in gone]
            born = 1 + max((circuit for circuits in grown for circuit in circuits), default=-1)
            grown.append([*stay, *range(born, born + count - len(stay))])
        return grown

    def _fitting(self, need: Need, lit: Sequence[int]) -> Iterator[int]:
        """Circuits with room for a need, first those whose jobs end when it ends; of equal ones, one."""
        loads = {circuit: self._load(circuit, need) for circuit in lit}
        tried: set[tuple[tuple[int, float], ...]] = set()
        for circuit in sorted(lit, key=lambda circuit: self._distance(circuit, need)):
            later = tuple(sorted(self._later(circuit, need.first).items()))
            if later not in tried and loads[circuit] <= self._most_bps:
                tried.add(later)
                yield circuit

    def _load(self, circuit: int, need: Need) -> float:
        """The most that a circuit has to carry with a need, while that lasts."""
        later = self._later(circuit, need.first)
        return max((later.get(index, 0.0) + bps for index, bps in need.bps.items()), default=0.0)

    def _later(self, circuit: int, first: int) -> dict[int, float]:
        """What a circuit has to carry from an interval on, as dealt so far."""
        found: dict[int, float] = {}
        for index in (index for index, chosen in self._chosen.items() if chosen == circuit):
            need = self._needs[index]
            for at in range(first, need.last + 1):
                found[at] = found.get(at, 0.0) + need.bps.get(at, 0.0)
        return found

    def _distance(self, circuit: int, need: Need) -> int:
        """Intervals between the end of a circuit's jobs and a need's."""
        ends = [self._needs[index].last for index, chosen in self._chosen.items() if chosen == circuit]
        return abs(max(ends, default=need.first - 1) - need.last)
