"""Where a schedule is, in a file, so that a driver that is started again goes on with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal

from wiresum.document import FileDocument
from wiresum.errors import ScheduleError, WiresumError
from wiresum.plan.schedule import Schedule


class Progress(FileDocument):
    """What a driver has written last.

    Attributes:
        schedule: fingerprint of the schedule, secrets included: ranks have those of one schedule only.
        interval: index of the interval that it was about to begin, or is in.
        ended: jobs that have ended, and how.
    """

    error: ClassVar[type[WiresumError]] = ScheduleError
    what: ClassVar[str] = "progress of a schedule"

    format: Literal["wiresum-progress/1"] = "wiresum-progress/1"
    schedule: str
    interval: int
    ended: dict[str, str]


class Journal:
    """The file of one schedule's progress.

    Args:
        path: of the file, which need not be there.
        schedule: that is carried out.
    """

    def __init__(self, path: Path, schedule: Schedule) -> None:
        self._path = path
        self._schedule = hashlib.sha256(schedule.to_json().encode()).hexdigest()

    def read(self) -> Progress | None:
        """What a driver before has written of this schedule; None if there is nothing to go on with.

        Raises:
            ScheduleError: the file cannot be read.
        """
        if not self._path.exists():
            return None
        found = Progress.read(self._path)
        return found if found.schedule == self._schedule else None

    def write(self, interval: int, ended: Mapping[int, str]) -> None:
        """Writes in one step; to be done before an interval begins.

        Raises:
            ScheduleError: the file cannot be written.
        """
        known = {str(job): end for job, end in ended.items()}
        Progress(schedule=self._schedule, interval=interval, ended=known).write(self._path)

    def end(self) -> None:
        """The schedule is over: the next driver begins anew."""
        with suppress(OSError):
            self._path.unlink()
