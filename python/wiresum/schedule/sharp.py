"""The bound in whole numbers, through HiGHS: by the relaxation of `crates/schedule`, then slot by slot.

Prices prove the relaxation's bound there. The programme slot by slot knows besides which circuits are lit together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wiresum import _native
from wiresum.planners.optimisation.process import last_answer
from wiresum.schedule.exact import probe, programme

NOTHING = 1e-6
"""An excess that counts as none."""
LEAST_EXCESS, MOST_EXCESS = -1.0, 4.0
SMALLEST_LIMIT = 1e-3
"""In place of the limit of a resource that has nothing left."""


def bound(instance: Mapping[str, Any], until_s: float, time_limit_s: float, sums: bool = True) -> float:
    """A time before which no schedule completes all jobs, in seconds; at least the bound of `crates/schedule`.

    Without slots it is that bound.

    Args:
        instance: as `spec/schedule.md` describes it.
        until_s: completion of a schedule, where the search ends.
        time_limit_s: of the solver, over all times.
        sums: whether switches may sum.

    Raises:
        ScheduleError: the instance is wrong.
    """
    text = json.dumps(instance)
    low_s = _native.schedule_bound(text, sums)
    if not instance.get("slots", True):
        return low_s
    times = [time_s for time_s in _native.schedule_times(text, low_s, until_s, sums) if time_s >= low_s * (1 - NOTHING)]
    problem = json.loads(_native.schedule_problem(text, sums))
    known = {"problem": problem, "units": instance["units"], "slot_s": instance["slot_s"]}
    question = {"instance": text, "times": times, "sums": sums, **known}
    return max(low_s, float(last_answer(__name__, json.dumps(question), time_limit_s, "exact")))


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver's process: ever later times, before which nothing is complete.

    The relaxation has half of the time, in equal parts for each time that is asked about. Slot by slot the first
    questions are the ones that matter, and have half of what is left each.
    """
    asked = json.loads(question)
    times = asked["times"]
    began_s = time.monotonic()
    each_s = time_limit_s / 2 / max(1, len(times).bit_length())

    def by_counts(until_s: float) -> bool:
        relaxation = _native.schedule_relaxation(asked["instance"], until_s, asked["sums"])
        return refuses(json.loads(relaxation), each_s)

    def by_slots(until_s: float) -> bool:
        return refuses_slots(asked, until_s, (began_s + time_limit_s - time.monotonic()) / 2)

    low = 0
    for asks in (by_counts, by_slots):
        high = len(times) - 1
        yield str(times[low])
        while low < high:
            middle = probe(times, asked["slot_s"], low, high)
            if asks(times[middle]):
                low = middle + 1
                yield str(times[low])
            else:
                high = middle


def refuses_slots(asked: dict[str, Any], until_s: float, time_limit_s: float) -> bool:
    """Whether nothing is complete by a time, slot by slot; not asked where new circuits darken others."""
    if json.loads(asked["instance"]).get("darkens", "added") != "added":
        return False
    found = programme(asked, until_s)
    return found.is_refused(found.least_left_over(time_limit_s))


def refuses(relaxation: dict[str, Any], time_limit_s: float) -> bool:
    """Whether a relaxation cannot hold in whole numbers: its least excess is above 0."""
    from wiresum.planners.optimisation.programme import Programme

    if relaxation["refused"] or not relaxation["rows"]:
        return bool(relaxation["refused"])
    columns, rows = relaxation["columns"], relaxation["rows"]
    lows = np.array([column["low"] for column in columns])
    # Columns begin at 0: those of the relaxation less their least value, and the excess less its own.
    upper = np.array([column["high"] for column in columns] + [MOST_EXCESS - LEAST_EXCESS]) - np.append(lows, 0.0)
    costs = np.zeros(len(upper))
    costs[-1] = -1.0
    programme = Programme(costs, upper, [True] * len(columns) + [False])
    for row in rows:
        limit = row["limit"] - sum(factor * lows[column] for column, factor in row["terms"])
        terms = [(column, factor) for column, factor in row["terms"]]
        if row["is_resource"]:
            scale = max(abs(row["limit"]), SMALLEST_LIMIT)
            terms.append((len(columns), -scale))
            limit += scale * LEAST_EXCESS
        programme.row(terms, high=limit)
    outcome = programme.solve(time_limit_s)
    return bool(-outcome.bound + LEAST_EXCESS > NOTHING)
