"""Schedulers side by side on the same jobs: what each timetable costs, against one bound, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wiresum.errors import ScheduleError
from wiresum.registry import remedy
from wiresum.schedule.ask import SCHEDULERS, WITHOUT_SLOTS, schedule
from wiresum.schedule.model import Timetable


@dataclass(frozen=True, eq=False)
class Entrant:
    """One scheduler's answer.

    Attributes:
        scheduler: its name.
        seconds: until it answered, its bound included.
        timetable: the answer; None if there is none.
        refusal: why there is no answer.
    """

    scheduler: str
    seconds: float
    timetable: Timetable | None = None
    refusal: str | None = None

    @property
    def has_slots(self) -> bool:
        """Whether its circuits change with slots only."""
        return self.scheduler != WITHOUT_SLOTS

    def to_json(self, bound_s: float | None) -> dict[str, Any]:
        """Plain data, without the intervals, which `wiresum schedule` has."""
        made = self.timetable
        return {
            "scheduler": self.scheduler,
            "seconds": self.seconds,
            "bound_s": bound_s,
            "gap": self.gap(bound_s),
            "cost": made.cost.model_dump(exclude={"jobs"}) if made else None,
            "refusal": self.refusal,
        }

    def gap(self, bound_s: float | None) -> float | None:
        """Completion above a bound, in parts of it."""
        return None if self.timetable is None or not bound_s else self.timetable.cost.completion_s / bound_s - 1


def compare(
    instance: Mapping[str, Any], schedulers: Sequence[str], time_limit_s: float = 60.0, **options: Any
) -> Iterator[Entrant]:
    """Asks one scheduler after the other about the same jobs; without slots, whoever knows no slots.

    Args:
        instance: as `spec/schedule.md` describes it.
        schedulers: names.
        time_limit_s: of `exact`.
        options: as `schedule` takes them; each scheduler heeds those that it knows.

    Raises:
        ScheduleError: there is no scheduler of that name.
    """
    stranger = next((name for name in schedulers if name not in SCHEDULERS), None)
    if stranger is not None:
        raise ScheduleError(f"there is no scheduler {stranger}; {remedy(stranger, SCHEDULERS)}")
    for name in schedulers:
        asked = {**instance, "slots": False} if name == WITHOUT_SLOTS else instance
        yield _asked(asked, name, time_limit_s, options)


def bound(entrants: Sequence[Entrant], *, slots: bool) -> float | None:
    """The best bound that any of them has proven, in seconds.

    Args:
        entrants: all of the same jobs.
        slots: whether for schedules in slots; without slots others may be complete sooner.
    """
    known = [one.timetable.bound_s for one in entrants if one.timetable and one.has_slots is slots]
    return max((bound_s for bound_s in known if bound_s is not None), default=None)


def _asked(instance: Mapping[str, Any], name: str, time_limit_s: float, options: Mapping[str, Any]) -> Entrant:
    began_s = time.monotonic()
    try:
        made = schedule(instance, name, time_limit_s, **options)
    except ScheduleError as refusal:
        return Entrant(name, time.monotonic() - began_s, refusal=str(refusal))
    return Entrant(name, time.monotonic() - began_s, made)
