"""How many set-ups any schedule needs that completes all jobs by a time, through HiGHS.

Two programmes are asked, one after the other. The first sums circuits over slots: a pair on which something is sent has
a circuit, all of them together carry its bytes less the darkness of set-ups, and ports, places and deadlines have so
much to give. Who sums a job is a choice. It leaves out which circuits are lit together, so more set-ups may be needed,
never fewer. The second goes slot by slot and leaves out nothing, but proves little where horizons are long.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wiresum import _native
from wiresum.planners.optimisation.process import last_answer
from wiresum.schedule.exact import programme
from wiresum.schedule.programme import Terms, lanes_of

SUMMED_SHARE = 0.2
"""Part of the time for the programme that sums over slots, which is done sooner or not at all."""
NOTHING = 1e-6
"""A number of set-ups so little above a whole one is that."""


def fewest_setups(instance: Mapping[str, Any], until_s: float, time_limit_s: float) -> int:
    """A number of set-ups below which no schedule completes all jobs by a time.

    Args:
        instance: as `spec/schedule.md` describes it, in slots, with circuits that darken themselves alone.
        until_s: when all are to be complete, in seconds.
        time_limit_s: of the solver.

    Raises:
        ScheduleError: the instance is wrong.
        PlanError: the solver proved nothing in time.
        SupportError: HiGHS is not installed.
    """
    problem = json.loads(_native.schedule_problem(json.dumps(instance), True))
    ports, places = ([unit[name] for unit in instance["units"]] for name in ("ports", "places"))
    question = {
        "problem": problem,
        "ports": ports,
        "places": places,
        "units": instance["units"],
        "slot_s": instance["slot_s"],
        "until_s": until_s,
    }
    columns = 2 * (len(problem["pairs"]) + len(problem["transfers"]))
    return int(last_answer(__name__, json.dumps(question), time_limit_s, "exact", columns))


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver's process: 0, then what is proven; slot by slot with what is left of the time."""
    asked = json.loads(question)
    began_s = time.monotonic()
    proven = 0

    def told(bound: float) -> str:
        # Where nothing is complete by the time, the solver's bound is no number, and nothing is told.
        nonlocal proven
        proven = max(proven, math.ceil(bound - NOTHING) if math.isfinite(bound) else 0)
        return str(proven)

    yield told(0.0)
    yield told(_Programme(asked).least(SUMMED_SHARE * time_limit_s))
    left_s = began_s + time_limit_s - time.monotonic()
    yield told(-programme(asked, asked["until_s"]).fewest_setups(left_s).bound)


class _Programme:
    """Columns: set-ups and circuits, summed over slots, of each pair; then who is summed by switches."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked, self.problem = asked, asked["problem"]
        self.slots = self._slots(0.0)
        self.pairs = len(self.problem["pairs"])
        self.upper = [np.inf] * (2 * self.pairs)
        self.rows: list[tuple[Terms, float, float]] = []
        self.loads: dict[tuple[int, int], Terms] = defaultdict(list)
        self.place_slots: dict[int, Terms] = defaultdict(list)
        for transfer in self.problem["transfers"]:
            self._transfer(transfer)
        self._pairs()
        for unit, count in enumerate(asked["places"]):
            self._row(self.place_slots[unit], high=count * self.slots)

    def _slots(self, update_s: float) -> int:
        until_s, slot_s = float(self.asked["until_s"]), float(self.asked["slot_s"])
        return math.floor((until_s - update_s) / slot_s + NOTHING)

    def _row(self, terms: Terms, low: float = -np.inf, high: float = np.inf) -> None:
        if terms:
            self.rows.append((terms, low, high))

    def _transfer(self, transfer: dict[str, Any]) -> None:
        """Who sums it, and what that takes; a pair that it crosses has a circuit in each of its slots."""
        ways: Terms = []
        for mode in filter(None, transfer["modes"]):
            least = max(1, math.ceil(transfer["bytes"] / mode["most"] - NOTHING))
            fits = transfer["release"] + least <= self._slots(mode["update_s"])
            column = len(self.upper)
            self.upper.append(1.0 if fits else 0.0)
            ways.append((column, 1.0))
            for unit in mode["places"]:
                self.place_slots[unit].append((column, least))
            for crossing in mode["crossings"]:
                pair, amount = crossing["pair"], transfer["bytes"] * crossing["times"]
                for lane in lanes_of(crossing):
                    self.loads[pair, lane].append((column, amount / self.problem["lit_bytes"]))
                before = self.problem["before"][pair]
                self._row([(pair, 1.0), (column, -1.0)], low=-before)
                self._row([(self.pairs + pair, 1.0), (column, -least)], low=0.0)
        self._row(ways, low=1.0, high=1.0)

    def _pairs(self) -> None:
        """Circuits carry the loads, are there before or set up, and have ports."""
        dark = self.problem["dark_bytes"] / self.problem["lit_bytes"]
        for (pair, _), load in self.loads.items():
            lost = [(column, -amount) for column, amount in load]
            self._row([(self.pairs + pair, 1.0), (pair, -dark), *lost], low=0.0)
        at_units: dict[int, Terms] = defaultdict(list)
        for pair, units in enumerate(self.problem["pairs"]):
            before = self.problem["before"][pair]
            self._row([(self.pairs + pair, 1.0), (pair, -self.slots)], high=self.slots * before)
            for unit in units:
                at_units[unit].append((self.pairs + pair, 1.0))
        for unit, terms in at_units.items():
            self._row(terms, high=self.asked["ports"][unit] * self.slots)

    def least(self, time_limit_s: float) -> float:
        """A proven bound on the set-ups."""
        from wiresum.planners.optimisation.programme import Programme

        costs = np.zeros(len(self.upper))
        costs[: self.pairs] = -1.0
        programme = Programme(costs, np.array(self.upper), [True] * len(self.upper))
        for terms, low, high in self.rows:
            programme.row(terms, low, high)
        return -programme.solve(time_limit_s).bound
