"""Jobs over optical circuits: who goes when, who is summed by a switch, which circuits are lit. `docs/schedulers.md`.

The schedulers, the judge and the bound are in Rust (`crates/schedule`). Here are their documents for Python, the exact
programme through HiGHS, and words and pictures for people.
"""

from wiresum.schedule.ask import EXACT, SCHEDULERS, WITHOUT_SLOTS, judge, schedule
from wiresum.schedule.model import Cost, Interval, Timetable

__all__ = ["EXACT", "SCHEDULERS", "WITHOUT_SLOTS", "Cost", "Interval", "Timetable", "judge", "schedule"]
