"""Where a schedule is, in a file, so that a driver that is started again goes on with it.

A schedule that is known beforehand needs no more than the interval. A scheduler that is asked is deterministic and has
no clock: what it was told, slot by slot, is enough to have it again as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from wiresum.document import Count, FileDocument, Integer, write_text
from wiresum.errors import ScheduleError, WiresumError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.schedule import Schedule
from wiresum.turns.light import Joined

if TYPE_CHECKING:
    from wiresum.turns.online import Online


class Progress(FileDocument):
    """What a driver has written last.

    Attributes:
        schedule: fingerprint of the schedule, secrets included: ranks have those of one schedule only.
        interval: index of the interval that it was about to begin, or is in.
        ended: jobs that have ended, and how.
        running: fingerprints of the plans of jobs that have turns then, secrets included, by job.
        lit: circuits that may be lit, from the interval before or by then: optical switch and two ports.
    """

    error: ClassVar[type[WiresumError]] = ScheduleError
    what: ClassVar[str] = "progress of a schedule"
    command: ClassVar[str] = "circuits run"

    format: Literal["wiresum-progress/1"] = "wiresum-progress/1"
    schedule: str
    interval: Count
    ended: dict[str, str]
    running: dict[str, str] = Field(default_factory=dict)
    lit: list[Annotated[list[str], Field(min_length=3, max_length=3)]] = Field(default_factory=list)


class OnlineProgress(FileDocument):
    """What a driver that asks a scheduler has written last.

    Attributes:
        schedule: fingerprint of the scheduler, and of all that it knew at the start.
        sights: what the scheduler was told, one for each slot; the last one's slot was about to begin, or is under way.
        plans: of jobs that have not ended and have one, by number.
        segments: of switches' memory, by the number of the job that has them: an index for each unit.
        lit: names of circuits that were lit before the last slot.
        failed: fibres of circuits that have got no light, in pairs.
        ended: jobs that have ended, and how.
    """

    error: ClassVar[type[WiresumError]] = ScheduleError
    what: ClassVar[str] = "progress of a scheduler"
    command: ClassVar[str] = "circuits run"

    format: Literal["wiresum-online-progress/1"] = "wiresum-online-progress/1"
    schedule: str
    sights: list[dict[str, Any]]
    plans: dict[str, AggregationPlan]
    segments: dict[str, dict[str, Integer]]
    lit: list[str]
    failed: list[list[str]]
    ended: dict[str, str]


P = TypeVar("P", Progress, OnlineProgress)


class _Journal(Generic[P]):
    """A file of progress, of one schedule or scheduler.

    Args:
        path: of the file, which need not be there.
        kind: of document in it.
        of: all that makes it this schedule.
    """

    def __init__(self, path: Path, kind: type[P], of: str) -> None:
        self._path = path
        self._kind: type[P] = kind
        self._schedule = hashlib.sha256(of.encode()).hexdigest()

    def read(self) -> P | None:
        """What a driver before has written of this schedule; None if there is nothing to go on with.

        Raises:
            ScheduleError: the file cannot be read.
        """
        if not self._path.exists():
            return None
        found = self._kind.read(self._path)
        return found if found.schedule == self._schedule else None

    def _note(self, **fields: Any) -> None:
        made = self._kind(schedule=self._schedule, **fields)
        write_text(self._path, made.to_json(), made.what, made.error, is_secret=True)

    def end(self) -> None:
        """The schedule is over: the next driver begins anew."""
        with suppress(OSError):
            self._path.unlink()


class Journal(_Journal[Progress]):
    """Progress of a schedule that is known beforehand.

    Args:
        path: of the file, which need not be there.
        schedule: that is carried out.
    """

    def __init__(self, path: Path, schedule: Schedule) -> None:
        super().__init__(path, Progress, schedule.to_json())
        self._intervals = schedule.intervals

    def write(self, interval: int, ended: Mapping[int, str], lit: Sequence[Joined] = ()) -> None:
        """Writes in one step; to be done before an interval begins. Arguments are the fields of `Progress`.

        Raises:
            ScheduleError: the file cannot be written.
        """
        self._note(interval=interval, ended=_by_name(ended), running=self._plans(interval), lit=list(map(list, lit)))

    def lit(self) -> list[Joined]:
        """Circuits that a driver before may have left lit, whatever schedule it carried out.

        Raises:
            ScheduleError: the file cannot be read.
        """
        found = Progress.read(self._path).lit if self._path.exists() else []
        return [(switch, one, other) for switch, one, other in found]

    def read(self) -> Progress | None:
        """As of every journal; of another schedule, what goes on in the first interval of this one, if anything does.

        An adjusted schedule begins with jobs of the one before, whose ranks and nodes have their plans.
        """
        found = super().read()
        if found is None and self._path.exists():
            before, first = Progress.read(self._path), self._plans(0)
            if any(before.running.get(job) == fingerprint for job, fingerprint in first.items()):
                return Progress(schedule=self._schedule, interval=0, ended={}, running=before.running)
        return found

    def _plans(self, interval: int) -> dict[str, str]:
        plans = self._intervals[interval].plans
        return {job: hashlib.sha256(plan.to_json().encode()).hexdigest() for job, plan in plans.items()}


class OnlineJournal(_Journal[OnlineProgress]):
    """Progress of a scheduler that is asked.

    Args:
        path: of the file, which need not be there.
        online: who is asked, about which jobs.
    """

    def __init__(self, path: Path, online: Online) -> None:
        known = [online.topology.to_json(), online.workload.to_json(), online.instance, online.scheduler, online.engine]
        super().__init__(path, OnlineProgress, json.dumps([*known, dict(online.options)], sort_keys=True))

    def write(
        self,
        sights: list[dict[str, Any]],
        plans: Mapping[int, AggregationPlan],
        segments: Mapping[int, dict[str, int]],
        *,
        lit: list[str],
        failed: list[list[str]],
        ended: Mapping[int, str],
    ) -> None:
        """Writes in one step; to be done before a slot begins. Arguments are the fields of `OnlineProgress`.

        Raises:
            ScheduleError: the file cannot be written.
        """
        self._note(
            sights=sights,
            plans=_by_name(plans),
            segments=_by_name(segments),
            lit=lit,
            failed=failed,
            ended=_by_name(ended),
        )


T = TypeVar("T")


def _by_name(of: Mapping[int, T]) -> dict[str, T]:
    return {str(job): value for job, value in of.items()}
