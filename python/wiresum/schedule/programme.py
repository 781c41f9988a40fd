"""The problem as an integer programme, slot by slot: can all transfers be complete by a time, and how?

For each transfer, way of being summed and slot there is its share of its bytes, and for each pair and slot c circuits,
of which r are new and dark for a while. Darkness is a loss of the circuit, which keeps the programme linear: Σ bytes ≤
rate × (slot × c - dark × r), r ≥ c - c before. What finds no room is left over, so that the programme always has an
answer: nothing is left over if there is a schedule. Whether a transfer sends is a choice of its own only where it takes
a place or could pause, which leaves few choices on short horizons.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from wiresum.planners.optimisation.programme import SolverOutcome, Vector

CHOICE = 0.5
"""From here on a binary column is 1."""
NOTHING = 1e-9
LEFT_OVER = 1e-4
"""Shares that are left over in all by rounding, as the solver's rows hold to one part in 10⁶ each."""
SHORTEST_WITH_PAUSE = 3
"""Slots: a pause needs one before and one after."""
Terms = list[tuple[int, float]]


@dataclass(frozen=True)
class Rules:
    """What the programme takes for granted; the defaults are right, others are P4INC-AOI's as printed.

    Attributes:
        dark_by: `circuit`: a new circuit is dark; `rate`: a transfer loses what its rate rises where a pair gets
            circuits (Eq. 10 of P4INC-AOI); `always`: also where the pair keeps as many as it had (Eq. 7).
        free_begin: whether nothing is dark in the first slot, whatever was lit before.
    """

    dark_by: str = "circuit"
    free_begin: bool = False


RIGHT = Rules()


def lanes_of(crossing: dict[str, Any]) -> list[int]:
    """Directions of a pair that a transfer takes: both where its results come back."""
    return [0, 1] if crossing["is_answered"] else [crossing["lane"]]


class SlotProgramme:
    """The programme for one time, column by column. Bytes are in those of a circuit's slot.

    Args:
        problem: `schedule_problem` of the native module.
        units: of the instance.
        slot_s: seconds of a slot.
        until_s: when all are to be complete.
        rules: of darkness.
    """

    def __init__(
        self, problem: dict[str, Any], units: list[dict[str, Any]], slot_s: float, until_s: float, rules: Rules = RIGHT
    ) -> None:
        self.problem, self.units, self.slot_s, self.rules = problem, units, slot_s, rules
        self.until_s = until_s
        self.slots = self._until(0.0)
        self.dark = problem["dark_bytes"] / problem["lit_bytes"]
        self.most = 1.0 if rules.dark_by == "circuit" else 1.0 + self.dark
        self.upper: list[float] = []
        self.integral: list[bool] = []
        self.rows: list[tuple[Terms, float, float]] = []
        self.shares: dict[tuple[int, int, int], int] = {}
        self.sends: dict[tuple[int, int, int], int] = {}
        self.left_over: list[int] = []
        self._circuits()
        for index in range(len(problem["transfers"])):
            self._transfer(index)
        self._resources()

    def _until(self, update_s: float) -> int:
        return int(np.floor((self.until_s - update_s) / self.slot_s + NOTHING))

    def _column(self, upper: float, integral: bool = False) -> int:
        self.upper.append(upper)
        self.integral.append(integral)
        return len(self.upper) - 1

    def _row(self, terms: Terms, low: float = -np.inf, high: float = np.inf) -> None:
        self.rows.append((terms, low, high))

    def _circuits(self) -> None:
        """Columns of circuits, of new ones, and, where rates pay for darkness, of whether a pair gets some."""
        problem, pays = self.problem, self.rules.dark_by != "circuit"
        self.lit: list[list[tuple[int, int]]] = []
        for slot in range(self.slots):
            pairs = []
            for pair, units in enumerate(problem["pairs"]):
                most = min(self.units[unit]["ports"] for unit in units)
                circuits, added = self._column(most, integral=True), self._column(1.0 if pays else np.inf, pays)
                pairs.append((circuits, added))
                if slot == 0 and self.rules.free_begin:
                    continue
                before = [(self.lit[slot - 1][pair][0], 1.0)] if slot else []
                lit = 0.0 if slot else float(problem["before"][pair])
                kept = 1.0 if self.rules.dark_by == "always" else 0.0
                times = most + kept if pays else 1.0
                self._row([(added, times), (circuits, -1.0), *before], low=kept - lit)
            self.lit.append(pairs)
            for unit, has in enumerate(self.units):
                here = [pairs[pair][0] for pair, units in enumerate(problem["pairs"]) if unit in units]
                self._row([(circuits, 1.0) for circuits in here], high=has["ports"])

    def _transfer(self, index: int) -> None:
        transfer = self.problem["transfers"][index]
        left = self._column(1.0)
        self.left_over.append(left)
        choices: Terms = []
        for way, mode in enumerate(transfer["modes"]):
            if mode is None:
                continue
            # Whole by itself: each way but one has a place, and with it columns of whether it sends.
            choice = self._column(1.0)
            choices.append((choice, 1.0))
            most = mode["most"] / transfer["bytes"]
            slots = range(transfer["release"], min(self.slots, self._until(mode["update_s"])))
            for slot in slots:
                self.shares[index, way, slot] = self._column(min(self.most, most))
            shares = [(self.shares[index, way, slot], 1.0) for slot in slots]
            again = (self.most - 1.0) * len(slots)
            self._row([*shares, (choice, -1.0 - again)], high=0.0)
            for lost in self._lost(index, way, slots) or [[]]:
                self._row([*shares, *lost, (left, 1.0), (choice, -1.0)], low=0.0)
            may_pause = transfer["contiguous"] and len(slots) >= SHORTEST_WITH_PAUSE
            if mode["places"] or may_pause:
                self._sending([(index, way, slot) for slot in slots], choice, may_pause)
        self._row(choices, low=1.0, high=1.0)

    def _lost(self, index: int, way: int, slots: range) -> list[Terms]:
        """For each pair that a transfer crosses, what it loses as its rate rises, where rates pay for darkness."""
        if self.rules.dark_by == "circuit":
            return []
        lost = []
        for crossing in self.problem["transfers"][index]["modes"][way]["crossings"]:
            terms = []
            for slot in slots:
                if slot == 0 and self.rules.free_begin:
                    continue
                column = self._column(self.most)
                rise = [(self.shares[index, way, slot], -self.dark)]
                if slot > slots.start:
                    rise.append((self.shares[index, way, slot - 1], self.dark))
                most = self.dark * self.most
                added = self.lit[slot][crossing["pair"]][1]
                self._row([(column, 1.0), *rise, (added, -most)], low=-most)
                terms.append((column, -1.0))
            lost.append(terms)
        return lost

    def _sending(self, keys: list[tuple[int, int, int]], choice: int, may_pause: bool) -> None:
        """Columns of whether a transfer sends in a slot; from its first byte to its last without pause."""
        starts: Terms = []
        before: Terms = []
        for key in keys:
            sends, share = self._column(1.0, integral=True), self.shares[key]
            self.sends[key] = sends
            self._row([(share, 1.0), (sends, -self.upper[share])], high=0.0)
            self._row([(sends, 1.0), (choice, -1.0)], high=0.0)
            if may_pause:
                starts.append((self._column(1.0), 1.0))
                self._row([starts[-1], (sends, -1.0), *before], low=0.0)
                before = [(sends, 1.0)]
        self._row(starts, high=1.0)

    def _resources(self) -> None:
        """Circuits, switches and places have so much to give in each slot."""
        problem = self.problem
        loads: dict[tuple[int, int, int], Terms] = defaultdict(list)
        pools: dict[tuple[int, int], Terms] = defaultdict(list)
        places: dict[tuple[int, int], Terms] = defaultdict(list)
        for (index, way, slot), share in self.shares.items():
            transfer = problem["transfers"][index]
            mode = transfer["modes"][way]
            for crossing in mode["crossings"]:
                amount = transfer["bytes"] * crossing["times"] / problem["lit_bytes"]
                for lane in lanes_of(crossing):
                    loads[slot, crossing["pair"], lane].append((share, amount))
            for pool, times in mode["pools"]:
                pools[slot, pool].append((share, transfer["bytes"] * times / problem["pools"][pool]))
            for unit in mode["places"]:
                places[slot, unit].append((self.sends[index, way, slot], 1.0))
        for terms in pools.values():
            self._row(terms, high=1.0)
        for (_, unit), terms in places.items():
            self._row(terms, high=self.units[unit]["places"])
        for (slot, pair, _), terms in loads.items():
            circuits, added = self.lit[slot][pair]
            dark = [(added, self.dark)] if self.rules.dark_by == "circuit" else []
            self._row([*terms, (circuits, -1.0), *dark], high=0.0)

    def least_left_over(self, time_limit_s: float) -> SolverOutcome:
        """Minimises the shares that find no room; its value is the least sum of them, negated."""
        return self._solve(self.left_over, time_limit_s)

    def fewest_setups(self, time_limit_s: float) -> SolverOutcome:
        """Minimises set-ups where nothing is left over; new circuits have to be what is dark."""
        for left in self.left_over:
            self.upper[left] = 0.0
        return self._solve([added for pairs in self.lit for _, added in pairs], time_limit_s)

    @staticmethod
    def is_refused(outcome: SolverOutcome) -> bool:
        """Whether it is proven that something is left over, so that nothing is complete by the time."""
        return bool(-outcome.bound > LEFT_OVER)

    def _solve(self, dear: list[int], time_limit_s: float) -> SolverOutcome:
        from wiresum.planners.optimisation.programme import Programme

        costs = np.zeros(len(self.upper))
        costs[dear] = -1.0
        programme = Programme(costs, np.array(self.upper), self.integral)
        for terms, low, high in self.rows:
            if terms:
                programme.row(terms, low, high)
        return programme.solve(time_limit_s)

    def answer(self, found: Vector) -> list[dict[str, Any]]:
        """Circuits by pair, and shares as (transfer, way, share), of each slot."""
        shares: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
        last: dict[tuple[int, int], int] = {}
        for (index, way, slot), share in self.shares.items():
            if found[share] > NOTHING:
                last[index, way] = slot
        has_begun = set()
        for (index, way, slot), share in self.shares.items():
            some = float(found[share])
            # Who must not pause may send next to nothing in between: then it sends a little.
            waits = (index, way) in has_begun and slot < last[index, way]
            sends = self.sends.get((index, way, slot))
            if (sends is None or found[sends] > CHOICE) and (some > NOTHING or waits):
                has_begun.add((index, way))
                shares[slot].append((index, way, max(some, NOTHING)))
        return [
            {"circuits": [round(found[circuits]) for circuits, _ in self.lit[slot]], "shares": shares[slot]}
            for slot in range(max(shares, default=-1) + 1)
        ]
