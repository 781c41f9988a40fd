"""The best schedule of a small instance: the integer programme at ever closer times, through HiGHS.

The times at which a batch can be complete are known: ends of slots, and those with a job's update. Whether all can be
complete by one of them is a programme without an end in it, which HiGHS finds far easier than the least end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from wiresum import _native
from wiresum.errors import PlanError, ScheduleError
from wiresum.planners.optimisation.process import last_answer
from wiresum.schedule.model import Cost, Interval, Timetable
from wiresum.schedule.programme import NOTHING, RIGHT, Rules, SlotProgramme

ROUNDING = 1e-6
"""Shares that the solver may leave over where all found room."""
BITS = 8
WAYS = ("server", "switch")


def exact(instance: str, time_limit_s: float, **options: Any) -> Timetable:
    """The best schedule that is found in time; `turns` begins, and no later completion is asked about.

    Args:
        instance: JSON.
        time_limit_s: of the solver.
        options: of `turns`, which looks for the latest time with them; the programme itself obeys `sums` alone.

    Raises:
        ScheduleError: the instance is wrong or has no slots, circuits darken others than themselves, or the time is too
            short for a first answer.
        SupportError: HiGHS is not installed.
    """
    document = json.loads(instance)
    if document.get("darkens", "added") != "added":
        raise ScheduleError("`exact` knows circuits that darken themselves alone; set `darkens` to `added`")
    if not document.get("slots", True):
        raise ScheduleError("`exact` knows slots alone; set `slots` to true, or ask `events`")
    sums = bool(options.get("sums", True))
    first = Timetable.parse(_native.schedule(instance, "turns", json.dumps({**options, "bound": True})))
    least_s = first.bound_s or 0.0
    question = {
        "problem": json.loads(_native.schedule_problem(instance, sums)),
        "slot_s": document["slot_s"],
        "units": document["units"],
        "times": _native.schedule_times(instance, least_s, first.cost.completion_s, sums),
    }
    answer = json.loads(_last_answer(json.dumps(question), time_limit_s))
    cost, intervals = first.cost, first.intervals
    if answer["slots"]:
        documents = _intervals(answer["slots"], document, question["problem"])
        found = Cost.model_validate_json(_native.validate_timetable(instance, json.dumps(documents)))
        if _key(found) <= _key(cost):
            cost, intervals = found, [Interval.model_validate(interval) for interval in documents]
    bound_s = min(max(answer["bound_s"], least_s), cost.completion_s)
    gap = cost.completion_s / bound_s - 1
    status = "optimal" if gap <= NOTHING else "feasible"
    known = {"bound_s": bound_s, "gap": gap, "status": status}
    return first.model_copy(update={"scheduler": "exact", "cost": cost, "intervals": intervals, **known})


def _last_answer(question: str, time_limit_s: float) -> str:
    try:
        return last_answer(__name__, question, time_limit_s, "exact")
    except PlanError as trouble:
        remedy = "allow more (`--time-limit`), or ask `turns`, which ends by itself"
        raise ScheduleError(f"`exact` has no answer after {time_limit_s:g} s: {remedy} ({trouble})") from None


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
    """The solver's process: schedules of ever earlier completion, then of fewer set-ups, with what is proven.

    Half of the time is for the completion, in equal parts of what is left for each time that is asked about.
    """
    asked = json.loads(question)
    times = asked["times"]
    began_s = time.monotonic()
    proven, low, high = 0, 0, len(times) - 1
    slots: list[dict[str, Any]] = []
    while low < high:
        middle = probe(times, asked["slot_s"], low, high)
        left_s = began_s + time_limit_s / 2 - time.monotonic()
        found = programme(asked, times[middle])
        outcome = found.least_left_over(left_s / (high - low).bit_length())
        if outcome.x is not None and -outcome.value <= ROUNDING:
            high, slots = middle, found.answer(outcome.x)
        else:
            low = middle + 1
            # What cannot be complete by a time cannot be by an earlier one.
            if found.is_refused(outcome):
                proven = low
        yield json.dumps({"slots": slots, "bound_s": times[proven]})
    last = programme(asked, times[high])
    outcome = last.fewest_setups(began_s + time_limit_s - time.monotonic())
    if outcome.x is not None:
        slots = last.answer(outcome.x)
    yield json.dumps({"slots": slots, "bound_s": times[proven]})


def probe(times: list[float], slot_s: float, low: int, high: int) -> int:
    """Which time to ask about: ends of slots first, as whether one more slot is needed decides about many times."""
    slots = [int(time_s / slot_s + NOTHING) for time_s in times[low : high + 1]]
    ends = [low + index for index, (now, later) in enumerate(pairwise(slots)) if now < later]
    return ends[len(ends) // 2] if ends else (low + high) // 2


def programme(asked: dict[str, Any], until_s: float, rules: Rules = RIGHT) -> SlotProgramme:
    """The programme of a question, at one of its times."""
    return SlotProgramme(asked["problem"], asked["units"], asked["slot_s"], until_s, rules)
