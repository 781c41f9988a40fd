"""Timetables as Python reads them. `spec/schedule.md` describes every field."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from wiresum.document import Document, FileDocument
from wiresum.errors import ScheduleError, WiresumError


class Circuits(Document):
    """Parallel circuits between two units."""

    between: list[str] = Field(min_length=2, max_length=2)
    circuits: int


class Rate(Document):
    """How fast a job or a flow sends, in bit/s of each worker or of the flow."""

    job: int
    flow: list[str] | None = None
    by: Literal["server", "switch"]
    rate_bps: float


class Interval(Document):
    """A time in which neither circuits nor rates change."""

    from_s: float
    until_s: float
    circuits: list[Circuits]
    rates: list[Rate]


class Spread(Document):
    """Over all jobs, in seconds."""

    mean: float
    p50: float
    p99: float


class JobCost(Document):
    """One job's times, in seconds."""

    job: int
    by: Literal["server", "switch"]
    start_s: float
    end_s: float


class Cost(Document):
    """What a timetable costs; the same for every scheduler."""

    completion_s: float
    iteration_s: Spread
    sojourn_s: Spread
    weighted_s: float
    slowdown: float = 0.0
    """Sojourn of the most delayed job, in parts of the time that it needs alone."""
    setups: int
    reconfigurations: int
    share_summed: float
    light_used: float
    jobs: list[JobCost]


class Timetable(FileDocument):
    """What is lit and who sends how fast, over time, with what is proven about it."""

    error: ClassVar[type[WiresumError]] = ScheduleError
    what: ClassVar[str] = "schedule"

    format: Literal["wiresum-timetable/1"] = "wiresum-timetable/1"
    scheduler: str
    seed: int
    bound_s: float | None = None
    gap: float | None = None
    status: Literal["optimal", "feasible"]
    slots: bool = True
    """Whether circuits and rates change with slots only, so that rates are averages over darkness, too."""
    cost: Cost
    intervals: list[Interval]
    seconds: float | None = None
    """Seconds that the scheduler took, its bound included."""
