"""Timetables as Python reads them. `spec/schedule.md` describes every field."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from wiresum.document import Amount, Count, Document, FileDocument, Integer, Number
from wiresum.errors import ScheduleError, WiresumError


class Circuits(Document):
    """Parallel circuits between two units."""

    between: list[str] = Field(min_length=2, max_length=2)
    circuits: Count


class Rate(Document):
    """How fast a job or a flow sends, in bit/s of each worker or of the flow."""

    job: Count
    flow: list[str] | None = None
    by: Literal["server", "switch"]
    rate_bps: Amount


class Interval(Document):
    """A time in which neither circuits nor rates change."""

    from_s: Amount
    until_s: Amount
    circuits: list[Circuits]
    rates: list[Rate]


class Spread(Document):
    """Over all jobs, in seconds."""

    mean: Amount
    p50: Amount
    p99: Amount


class JobCost(Document):
    """One job's times, in seconds."""

    job: Count
    by: Literal["server", "switch"]
    start_s: Amount
    end_s: Amount


class Cost(Document):
    """What a timetable costs; the same for every scheduler."""

    completion_s: Amount
    iteration_s: Spread
    sojourn_s: Spread
    weighted_s: Amount
    slowdown: Amount = 0.0
    """Sojourn of the most delayed job, in parts of the time that it needs alone."""
    setups: Count
    reconfigurations: Count
    share_summed: Amount
    light_used: Amount
    jobs: list[JobCost]


class Timetable(FileDocument):
    """What is lit and who sends how fast, over time, with what is proven about it."""

    error: ClassVar[type[WiresumError]] = ScheduleError
    what: ClassVar[str] = "schedule"

    format: Literal["wiresum-timetable/1"] = "wiresum-timetable/1"
    scheduler: str
    seed: Integer
    bound_s: Amount | None = None
    gap: Number | None = None
    status: Literal["optimal", "feasible"]
    slots: bool = True
    """Whether circuits and rates change with slots only, so that rates are averages over darkness, too."""
    cost: Cost
    intervals: list[Interval]
    seconds: Amount | None = None
    """Seconds that the scheduler took, its bound included."""
