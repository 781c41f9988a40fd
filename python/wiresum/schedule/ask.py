"""Asks a scheduler by its name: those of Rust, and the exact programme."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from wiresum import _native
from wiresum.schedule.model import Cost, Interval, Timetable

EXACT = "exact"
WITHOUT_SLOTS = "events"
"""The scheduler that changes circuits and rates at any time: it is asked about instances whose `slots` is false."""
SCHEDULERS: dict[str, str] = {
    **dict(_native.schedulers()),
    EXACT: "the integer programme at ever closer times, slot by slot, through HiGHS; for small instances",
}
"""Name and summary of every scheduler."""


def schedule(
    instance: Mapping[str, Any], scheduler: str = "turns", time_limit_s: float = 60.0, **options: Any
) -> Timetable:
    """Schedules an instance.

    Args:
        instance: as `spec/schedule.md` describes it.
        scheduler: one of `SCHEDULERS`.
        time_limit_s: of `exact`; others end by themselves.
        options: `seed`, `sums`, `objective`, `rounds`, `online`, `step_bps`, `blocking`, `keep_circuits`, `bound`.

    Returns:
        The timetable, judged and priced, with the seconds that it took.

    Raises:
        ScheduleError: the instance or an option is wrong, or a job cannot be served; the message names it.
    """
    began_s = time.monotonic()
    text = json.dumps(instance)
    if scheduler == EXACT:
        from wiresum.schedule.exact import exact

        found = exact(text, time_limit_s, **options)
    else:
        found = Timetable.parse(_native.schedule(text, scheduler, json.dumps(options)))
    return found.model_copy(update={"seconds": time.monotonic() - began_s})


def judge(instance: Mapping[str, Any], intervals: Sequence[Interval]) -> Cost:
    """Judges the intervals of a timetable and prices them.

    Raises:
        ScheduleError: names the first rule that is broken, when and by whom.
    """
    documents = json.dumps([interval.model_dump(exclude_none=True) for interval in intervals])
    return Cost.model_validate_json(_native.validate_timetable(json.dumps(instance), documents))
