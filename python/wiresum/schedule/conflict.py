"""Why jobs cannot be complete by a time: the smallest set of jobs, ports, places and switches that is in the way.

A job is dropped from the set if the others cannot be complete without it either, and a unit's ports, places or switch
if they cannot however many there were. Whether they can is asked of the bound (`crates/schedule/src/bound`), which
proves what it refuses; so nothing is named that is not needed for its proof.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from wiresum import _native
from wiresum.errors import ScheduleError
from wiresum.planners.infeasibility import smallest_conflict
from wiresum.schedule.model import Timetable
from wiresum.schedule.words import before

MOST_QUESTIONS = 400
"""That the bound is asked; one takes some milliseconds for ten jobs, and a quarter of a second for a thousand."""
MANY_PORTS = 1 << 20
"""Ports of a unit that has enough of them, whoever sends."""
MANY_PLACES = (1 << 32) - 1
"""Places of one that has enough: more than any instance has jobs."""
FAST = 1e6
"""Factor of the rate of a switch that is fast enough."""
ROUNDING = 1e-9
SHOWN_JOBS = 12
"""Jobs that an error names."""
Part = tuple[str, str | int]
"""What may be in the way: `ports`, `places` or `switch` of a unit by its name, or a `job` by its id."""


@dataclass(frozen=True)
class Conflict:
    """What cannot be complete by a time, together.

    Attributes:
        parts: of which none can be left out, if `is_least`.
        is_least: whether the search came to its end.
    """

    parts: Sequence[Part]
    is_least: bool

    def names(self, kind: str) -> list[str | int]:
        """Units or jobs that are in it."""
        return [name for part, name in self.parts if part == kind]


class Search:
    """Questions about an instance with some of its parts dropped."""

    def __init__(self, instance: Mapping[str, Any], by_s: float, sums: bool) -> None:
        given = [{"between": list(pair), "circuits": count} for pair, count in before(instance).items()]
        self._instance = {**instance, "before": {"given": given}}
        self._by_s, self._sums = by_s, sums
        self.questions = 0

    def parts(self) -> list[Part]:
        """Resources first, so that those jobs are dropped which only the others of them concern."""
        units = [unit["name"] for unit in self._instance["units"]]
        resources: list[Part] = [(kind, name) for kind in ("switch", "places", "ports") for name in units]
        return [*resources, *(("job", job["id"]) for job in self._instance["jobs"])]

    def holds_without(self, dropped: Set[Part]) -> bool:
        """Whether nothing is proven without these; so it is after too many questions, to come to an end."""
        self.questions += 1
        if self.questions > MOST_QUESTIONS:
            return True
        left = self._without(dropped)
        return not left["jobs"] or not _native.schedule_refuses(json.dumps(left), self._by_s, self._sums)

    def _without(self, dropped: Set[Part]) -> dict[str, Any]:
        jobs = [job for job in self._instance["jobs"] if ("job", job["id"]) not in dropped]
        return {**self._instance, "jobs": jobs, "units": [_unit(unit, dropped) for unit in self._instance["units"]]}


def _unit(unit: Mapping[str, Any], dropped: Set[Part]) -> dict[str, Any]:
    """A unit with more than enough of what is dropped."""
    more = {
        "ports": ("ports", MANY_PORTS),
        "places": ("places", MANY_PLACES),
        "switch": ("switch_bps", FAST * unit["switch_bps"]),
    }
    return {**unit, **{field: much for kind, (field, much) in more.items() if (kind, unit["name"]) in dropped}}


def conflict(instance: Mapping[str, Any], by_s: float, sums: bool = True) -> Conflict | None:
    """Why an instance cannot be complete by a time; None if the bound does not prove that.

    Args:
        instance: as `spec/schedule.md` describes it.
        by_s: the time, in seconds.
        sums: whether switches may sum.

    Raises:
        ScheduleError: the instance is wrong.
    """
    search = Search(instance, by_s, sums)
    if search.holds_without(set()):
        return None
    parts = smallest_conflict(search.parts(), search.holds_without)
    return Conflict(parts, search.questions <= MOST_QUESTIONS)


def require(timetable: Timetable, instance: Mapping[str, Any], by_s: float, sums: bool = True) -> None:
    """Refuses a timetable that is complete too late, and says whether another one could be in time, and why not.

    Args:
        timetable: of the instance.
        instance: as `spec/schedule.md` describes it.
        by_s: when all jobs are to be complete, in seconds.
        sums: whether switches may sum.

    Raises:
        ScheduleError: it is too late.
    """
    end_s = timetable.cost.completion_s
    if end_s <= by_s * (1 + ROUNDING):
        return
    found = conflict(instance, by_s, sums)
    if found is not None:
        raise ScheduleError(_reason(found, instance, by_s, timetable.bound_s))
    proven = f"; {timetable.bound_s:.4g} s are proven to be needed" if timetable.bound_s else ""
    raise ScheduleError(
        f"{timetable.scheduler} completes all jobs after {end_s:.4g} s, not by {by_s:.4g} s{proven}. Whether another "
        "schedule is in time is not known: ask `turns` or `exact`, or allow more time"
    )


def _reason(found: Conflict, instance: Mapping[str, Any], by_s: float, bound_s: float | None) -> str:
    jobs = sorted(found.names("job"))
    units = {unit["name"]: unit for unit in instance["units"]}
    resources = [_resource(kind, units[str(name)]) for kind, name in found.parts if kind != "job"]
    who = f"job {_listed(jobs)} cannot be" if len(jobs) == 1 else f"jobs {_listed(jobs)} cannot all be"
    why = f" with {_joined(resources)}" if resources else ", as their own links take longer"
    sure = "" if found.is_least else " (some of these may not matter: the search was cut short)"
    proven = f" No schedule completes all jobs before {bound_s:.4g} s." if bound_s else ""
    remedy = "Give more of one of these, move or drop one of the jobs, or allow more time" if resources else (
        "Give them fewer bytes or faster links, or allow more time"
    )  # fmt: skip
    return f"{who} complete by {by_s:.4g} s{why}{sure}.{proven} {remedy}"


def _resource(kind: str, unit: Mapping[str, Any]) -> str:
    count = unit.get(kind, 0)
    words = {
        "ports": f"the {count} port{'s' * (count != 1)} of {unit['name']}",
        "places": f"the {count} place{'s' * (count != 1)} of {unit['name']} for sums",
        "switch": f"the rate of the switch of {unit['name']}",
    }
    return words[kind]


def _listed(jobs: Sequence[str | int]) -> str:
    more = [f"{len(jobs) - SHOWN_JOBS} more"] if len(jobs) > SHOWN_JOBS else []
    return _joined([*map(str, jobs[:SHOWN_JOBS]), *more])


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
