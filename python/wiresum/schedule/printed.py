"""P4INC-AOI's programme as printed (§IV-B, Eqs. 1 to 11), and each of its corrections, which can be left out.

What is equivalent is simplified: the durations τ are slots without a pause; D and its maximum with 0 in Eq. (10) are a
sum over slots, as no slot loses more than it carries; β of Eq. (9) only ever raises a loss that nobody wants. Eq. (15)
is wrong, too, but the programme has no minimum. Rates share both directions of a circuit and of a switch, as in
Eqs. (5) and (6), so instances have to be of the paper's kind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from wiresum import _native
from wiresum.errors import ScheduleError
from wiresum.planners.optimisation.process import last_answer
from wiresum.schedule.exact import ROUNDING, probe, programme
from wiresum.schedule.model import Timetable
from wiresum.schedule.programme import Rules

PRINTED = "exact-paper"
SERVER, SWITCH = 0, 1
"""Ways in which a transfer is summed, as `schedule_problem` has them."""
UNBOUND = 1e30
"""Bytes in a slot where nothing limits a rate."""
LONGER = 2
"""Times that are asked about end with so many times the slots that `turns` needs, as darkness as printed costs more."""
CORRECTIONS = {
    "whole": "Eq. (2): a switch sums jobs alone that have all of their workers in its unit",
    "bytes": "Eqs. (4), (8): a job that its switch sums sends its bytes up to it, wherever its server is",
    "kept": "Eq. (7): circuits that stay are no reconfiguration",
    "light": "Eq. (10): new circuits are dark, not the rise of a job's rate; needs `kept`",
    "ends": "Eq. (11): a slot ends after its time, and updates are in seconds",
    "hosts": "a worker sends no faster than its link",
    "arrivals": "a job does not send before it arrives",
    "before": "circuits that are lit before the first slot are lit, others are dark",
}
"""What the programme as printed gets wrong or leaves out, by name."""
ALL = frozenset(CORRECTIONS)


@dataclass(frozen=True)
class Claim:
    """What a programme says of an instance.

    Attributes:
        completion_s: of its best answer; None if it found none in time.
        bound_s: what it proves of its own answers, which is no bound of schedules unless all corrections are made.
    """

    completion_s: float | None
    bound_s: float

    @property
    def is_proven(self) -> bool:
        """Whether no answer of the programme is better."""
        return self.completion_s is not None and self.completion_s <= self.bound_s + ROUNDING


def claim(instance: dict[str, Any], time_limit_s: float, corrections: Collection[str] = (), sums: bool = True) -> Claim:
    """The least completion that the printed programme finds, with some corrections.

    Args:
        instance: as `spec/schedule.md` describes it, with `paper` set.
        time_limit_s: of the solver.
        corrections: names from `CORRECTIONS`.
        sums: whether switches may sum.

    Raises:
        ScheduleError: the instance is wrong or not counted as the paper counts, or there is no such correction.
    """
    made = _checked(instance, corrections)
    text = json.dumps(instance)
    latest = Timetable.parse(_native.schedule(text, "turns", json.dumps({"sums": sums, "bound": False})))
    problem = as_printed(json.loads(_native.schedule_problem(text, sums)), instance, made, sums)
    question = {
        "problem": problem,
        "slot_s": instance["slot_s"],
        "units": instance["units"],
        "times": _times(instance["slot_s"], problem, latest.cost.completion_s),
        "corrections": sorted(made),
    }
    answer = json.loads(last_answer(__name__, json.dumps(question), time_limit_s, PRINTED))
    # Slots that are counted from 0 end a slot before they do.
    early_s = 0.0 if "ends" in made else instance["slot_s"]
    found_s = answer["completion_s"]
    return Claim(None if found_s is None else found_s - early_s, answer["bound_s"] - early_s)


def _checked(instance: dict[str, Any], corrections: Collection[str]) -> frozenset[str]:
    made = frozenset(corrections)
    if unknown := sorted(made - ALL):
        raise ScheduleError(f"there is no correction {unknown[0]}; there are {', '.join(CORRECTIONS)}")
    if "light" in made and "kept" not in made:
        raise ScheduleError("the correction `light` replaces Eq. (10), which Eq. (7) is for; add `kept`")
    if not instance.get("paper") or instance.get("darkens", "added") != "added":
        raise ScheduleError("the printed programme counts as P4INC-AOI does: set `paper`, and `darkens` to `added`")
    if any("star" not in job["traffic"] for job in instance["jobs"]):
        raise ScheduleError("the printed programme knows jobs with servers alone; leave coflows out")
    return made


def as_printed(
    problem: dict[str, Any], instance: dict[str, Any], corrections: Collection[str], sums: bool = True
) -> dict[str, Any]:
    """The numbers of an instance with the paper's errors, but for corrections."""
    changed = deepcopy(problem)
    units = {unit["name"]: index for index, unit in enumerate(instance["units"])}
    for transfer in changed["transfers"]:
        star = instance["jobs"][transfer["job"]]["traffic"]["star"]
        if sums and "whole" not in corrections and len(star["workers"]) > 1:
            transfer["modes"] += list(_partial(transfer["modes"][SERVER], star, changed["pairs"], units))
        by_switch = transfer["modes"][SWITCH]
        if by_switch is not None and "bytes" not in corrections and star["server"] not in star["workers"]:
            by_switch["pools"], by_switch["most"] = [], UNBOUND
        if "arrivals" not in corrections:
            transfer["release"] = 0
        for mode in filter(None, transfer["modes"]):
            if "hosts" not in corrections:
                mode["most"] = UNBOUND
            if "ends" not in corrections:
                # Times in slots are added to seconds.
                mode["update_s"] /= instance["slot_s"]
    return changed


def _partial(
    mode: dict[str, Any], star: dict[str, Any], pairs: list[list[int]], units: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Each unit's switch sums what its own workers send, and passes one gradient on."""
    server = units[star["server"]]
    for name, workers in star["workers"].items():
        unit = units[name]
        crossings = [
            {**crossing, "times": 1.0 if unit in pairs[crossing["pair"]] and unit != server else crossing["times"]}
            for crossing in mode["crossings"]
        ]
        saved = workers - 1.0 if unit != server else workers
        pools = [[pool, times - (saved if pool == server else 0.0)] for pool, times in mode["pools"]]
        yield {**mode, "crossings": crossings, "pools": pools, "places": [unit]}


def _times(slot_s: float, problem: dict[str, Any], until_s: float) -> list[float]:
    """When a batch can be complete: ends of slots, and those with an update."""
    modes = [mode for transfer in problem["transfers"] for mode in transfer["modes"] if mode]
    rests = sorted({0.0, *(mode["update_s"] % slot_s for mode in modes)})
    slots = LONGER * (int(until_s / slot_s + ROUNDING) + 1)
    return [slot * slot_s + rest for slot in range(1, slots + 1) for rest in rests]


def rules(corrections: Collection[str]) -> Rules:
    """Darkness as printed, but for corrections."""
    dark_by = "circuit" if "light" in corrections else "rate" if "kept" in corrections else "always"
    return Rules(dark_by, free_begin="before" not in corrections)


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver's process: ever earlier completions, with what is proven."""
    asked = json.loads(question)
    times, known = asked["times"], rules(asked["corrections"])
    began_s = time.monotonic()
    low, high, proven, reached = 0, len(times), 0, None
    while low < high:
        middle = min(probe(times, asked["slot_s"], low, high), len(times) - 1)
        found = programme(asked, times[middle], known)
        left_s = began_s + time_limit_s - time.monotonic()
        outcome = found.least_left_over(left_s / (high - low).bit_length())
        if outcome.x is not None and -outcome.value <= ROUNDING:
            high, reached = middle, times[middle]
        else:
            low = middle + 1
            if found.is_refused(outcome):
                proven = low
        yield json.dumps({"completion_s": reached, "bound_s": times[min(proven, len(times) - 1)]})
