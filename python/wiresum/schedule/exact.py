"""The problem as an integer programme, slot by slot, through HiGHS: the least completion, then the fewest set-ups.

For each transfer, way of being summed and slot: x, its share of its bytes, and y, whether it sends; for each pair and
slot: c circuits, of which r are new and dark for a while. Darkness is a loss of the circuit, which keeps the programme
linear: Σ bytes ≤ rate × (slot × c - dark x r), r ≥ c - c before. This replaces Eqs. (7), (9) and (10) of P4INC-AOI.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from wiresum import _native
from wiresum.errors import ScheduleError
from wiresum.planners.optimisation.process import last_answer
from wiresum.schedule.model import Cost, Interval, Timetable

if TYPE_CHECKING:
    from wiresum.planners.optimisation.programme import SolverOutcome, Vector

CHOICE = 0.5
"""From here on a binary column is 1."""
NOTHING = 1e-9
BITS = 8
WAYS = ("server", "switch")


def exact(instance: str, time_limit_s: float, **options: Any) -> Timetable:
    """The best schedule that is found in time; `turns` begins, and its completion is the horizon.

    Args:
        instance: JSON.
        time_limit_s: of the solver.
        options: of `turns`, which looks for the horizon with them; the programme itself obeys `sums` alone.

    Raises:
        ScheduleError: the instance is wrong, or circuits darken others than themselves.
    """
    document = json.loads(instance)
    if document.get("darkens", "added") != "added":
        raise ScheduleError("`exact` knows circuits that darken themselves alone; set `darkens` to `added`")
    first = Timetable.parse(_native.schedule(instance, "turns", json.dumps({**options, "bound": True})))
    sums = bool(options.get("sums", True))
    question = {
        "problem": json.loads(_native.schedule_problem(instance, sums)),
        "slot_s": document["slot_s"],
        "horizon_s": first.cost.completion_s,
        "units": document["units"],
    }
    answer = json.loads(last_answer(__name__, json.dumps(question), time_limit_s, "exact"))
    cost, intervals = first.cost, first.intervals
    if answer["slots"]:
        documents = _intervals(answer["slots"], document, question["problem"])
        found = Cost.model_validate_json(_native.validate_timetable(instance, json.dumps(documents)))
        if _key(found) <= _key(cost):
            cost, intervals = found, [Interval.model_validate(interval) for interval in documents]
    bound_s = min(max(answer["bound_s"], first.bound_s or 0.0), cost.completion_s)
    gap = cost.completion_s / bound_s - 1
    status = "optimal" if gap <= NOTHING else "feasible"
    known = {"bound_s": bound_s, "gap": gap, "status": status}
    return first.model_copy(update={"scheduler": "exact", "cost": cost, "intervals": intervals, **known})


def _key(cost: Cost) -> tuple[float, int]:
    return round(cost.completion_s, 9), cost.setups


def _intervals(slots: list[dict[str, Any]], instance: dict[str, Any], problem: dict[str, Any]) -> list[dict[str, Any]]:
    """Slots of the solver as intervals of a timetable."""
    names, slot_s = [unit["name"] for unit in instance["units"]], instance["slot_s"]
    intervals = []
    for number, slot in enumerate(slots):
        circuits = [
            {"between": [names[unit] for unit in problem["pairs"][pair]], "circuits": count}
            for pair, count in enumerate(slot["circuits"])
            if count
        ]
        rates = [_rate(instance, problem["transfers"][index], way, share) for index, way, share in slot["shares"]]
        intervals.append(
            {"from_s": number * slot_s, "until_s": (number + 1) * slot_s, "circuits": circuits, "rates": rates}
        )
    return intervals


def _rate(instance: dict[str, Any], transfer: dict[str, Any], way: int, share: float) -> dict[str, Any]:
    job = instance["jobs"][transfer["job"]]
    flows = job["traffic"].get("flows")
    flow = {"flow": [flows[transfer["flow"]]["from"], flows[transfer["flow"]]["to"]]} if flows else {}
    rate_bps = share * transfer["bytes"] * BITS / instance["slot_s"]
    return {"job": job["id"], **flow, "by": WAYS[way], "rate_bps": rate_bps}


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver's process: one answer, with what was proven."""
    yield json.dumps(_Model(json.loads(question)).solve(time_limit_s))


class _Model:
    """The programme, column by column. Bytes are in those of a circuit's slot."""

    def __init__(self, question: dict[str, Any]) -> None:
        self.problem, self.units = question["problem"], question["units"]
        self.slot_s, self.horizon_s = question["slot_s"], question["horizon_s"]
        self.slots = int(np.floor(self.horizon_s / self.slot_s + NOTHING))
        self.upper: list[float] = []
        self.integral: list[bool] = []
        self.rows: list[tuple[list[tuple[int, float]], float, float]] = []
        self.sends: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.end = self._column(self.horizon_s / self.slot_s)
        self._transfers()
        self._circuits()

    def _column(self, upper: float, integral: bool = False) -> int:
        self.upper.append(upper)
        self.integral.append(integral)
        return len(self.upper) - 1

    def _row(self, terms: list[tuple[int, float]], low: float = -np.inf, high: float = np.inf) -> None:
        self.rows.append((terms, low, high))

    def _transfers(self) -> None:
        for index, transfer in enumerate(self.problem["transfers"]):
            shares = []
            chosen: list[int] = []
            for way, mode in enumerate(transfer["modes"]):
                if mode is None:
                    continue
                choice = self._column(1.0, integral=True)
                chosen.append(choice)
                until = int(np.floor((self.horizon_s - mode["update_s"]) / self.slot_s + NOTHING))
                before = None
                starts = []
                for slot in range(transfer["release"], until):
                    share, sends = self._column(1.0), self._column(1.0, integral=True)
                    self.sends[index, way, slot] = share, sends
                    shares.append(share)
                    most = min(1.0, mode["most"] / transfer["bytes"])
                    self._row([(share, 1.0), (sends, -most)], high=0.0)
                    self._row([(sends, 1.0), (choice, -1.0)], high=0.0)
                    end = slot + 1 + mode["update_s"] / self.slot_s
                    self._row([(self.end, 1.0), (sends, -end)], low=0.0)
                    if transfer["contiguous"]:
                        start = self._column(1.0)
                        starts.append(start)
                        self._row([(start, 1.0), (sends, -1.0), *([(before, 1.0)] if before else [])], low=0.0)
                        before = sends
                if starts:
                    self._row([(start, 1.0) for start in starts], high=1.0)
            self._row([(choice, 1.0) for choice in chosen], low=1.0, high=1.0)
            self._row([(share, 1.0) for share in shares], low=1.0, high=1.0)

    def _circuits(self) -> None:
        problem = self.problem
        lit_bytes, dark = problem["lit_bytes"], problem["dark_bytes"] / problem["lit_bytes"]
        loads: dict[tuple[int, int, int], list[tuple[int, float]]] = defaultdict(list)
        pools: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        places: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        for (index, way, slot), (share, sends) in self.sends.items():
            transfer = problem["transfers"][index]
            mode = transfer["modes"][way]
            for crossing in mode["crossings"]:
                amount = transfer["bytes"] * crossing["times"] / lit_bytes
                loads[slot, crossing["pair"], crossing["lane"]].append((share, amount))
            for pool, times in mode["pools"]:
                pools[slot, pool].append((share, transfer["bytes"] * times / problem["pools"][pool]))
            if mode["place"] is not None:
                places[slot, mode["place"]].append((sends, 1.0))
        for terms in pools.values():
            self._row(terms, high=1.0)
        for (_, unit), terms in places.items():
            self._row(terms, high=self.units[unit]["places"])
        self.lit = [
            [
                (
                    self._column(min(self.units[unit]["ports"] for unit in units), integral=True),
                    self._column(np.inf),
                )
                for units in problem["pairs"]
            ]
            for _ in range(self.slots)
        ]
        for (slot, pair, _), terms in loads.items():
            circuits, added = self.lit[slot][pair]
            self._row([*terms, (circuits, -1.0), (added, dark)], high=0.0)
        for slot, pairs in enumerate(self.lit):
            for pair, (circuits, added) in enumerate(pairs):
                before = [(self.lit[slot - 1][pair][0], 1.0)] if slot else []
                lit = 0.0 if slot else float(problem["before"][pair])
                self._row([(added, 1.0), (circuits, -1.0), *before], low=-lit)
            for unit, has in enumerate(self.units):
                here = [pairs[pair][0] for pair, units in enumerate(problem["pairs"]) if unit in units]
                self._row([(circuits, 1.0) for circuits in here], high=has["ports"])

    def solve(self, time_limit_s: float) -> dict[str, Any]:
        """Slots with circuits and shares, none if nothing was found; and the bound, in seconds.

        The first half of the time is for the completion alone; the rest for set-ups at the completion that was found.
        """
        costs = np.zeros(len(self.upper))
        costs[self.end] = -1.0
        first = self._solve(costs, time_limit_s / 2)
        bound_s = max(0.0, -first.bound) * self.slot_s if np.isfinite(first.bound) else 0.0
        if first.x is None:
            return {"slots": [], "bound_s": bound_s}
        self.upper[self.end] = first.x[self.end] * (1 + NOTHING)
        costs = np.zeros(len(self.upper))
        costs[[added for slot in self.lit for _, added in slot]] = -1.0
        second = self._solve(costs, time_limit_s / 2)
        return {"slots": self._slots(first.x if second.x is None else second.x), "bound_s": bound_s}

    def _solve(self, costs: Vector, time_limit_s: float) -> SolverOutcome:
        from wiresum.planners.optimisation.programme import Programme

        programme = Programme(costs, np.array(self.upper), self.integral)
        for terms, low, high in self.rows:
            if terms:
                programme.row(terms, low, high)
        return programme.solve(time_limit_s)

    def _slots(self, found: Vector) -> list[dict[str, Any]]:
        shares: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
        last: dict[tuple[int, int], int] = {}
        for (index, way, slot), (share, _) in self.sends.items():
            if found[share] > NOTHING:
                last[index, way] = slot
        has_begun = set()
        for (index, way, slot), (share, sends) in self.sends.items():
            some = float(found[share])
            # Who must not pause may send next to nothing in between: then it sends a little.
            waits = (index, way) in has_begun and slot < last[index, way]
            if found[sends] > CHOICE and (some > NOTHING or waits):
                has_begun.add((index, way))
                shares[slot].append((index, way, max(some, NOTHING)))
        return [
            {"circuits": [round(found[circuits]) for circuits, _ in self.lit[slot]], "shares": shares[slot]}
            for slot in range(max(shares) + 1)
        ]
