"""The moment at which all ranks of a benchmark begin.

Ranks are processes of one machine with one monotonic clock and one file system, whatever networks they are in. They
agree through files: a barrier over a network that loses packets lets ranks go up to seconds after each other (TCP waits
200 ms for a lost packet, and doubles that), which would be counted as the time of what comes next.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from wiresum.errors import TestbedError

HEAD_START_S = 0.1
"""From the last rank's arrival to the start: longer than all others take to see it."""
LOOK_S = 0.002
"""Between two looks at who is there."""
PATIENCE_S = 120.0
"""For the last rank: beyond what any step between two starts takes."""


class Starts:
    """One common start after the other.

    Args:
        folder: of its own, the same for all ranks; what is left there from before is removed.
        rank: of this process.
        size: number of ranks.
        barrier: returns when all ranks have called it, however long after each other.
    """

    def __init__(self, folder: Path, rank: int, size: int, barrier: Callable[[], object]) -> None:
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        barrier()
        self._folder, self._rank, self._size = folder, rank, size
        self._count = 0

    def next(self) -> float:
        """When the next thing begins, in seconds of the monotonic clock; ahead of every rank.

        Raises:
            TestbedError: a rank does not come.
        """
        self._count += 1
        self._arrive()
        arrivals = [self._arrival(rank) for rank in range(self._size)]
        return max(arrivals) + HEAD_START_S

    def wait(self, late_s: float = 0.0) -> float:
        """As `next`, and waits for it, and `late_s` longer."""
        start = self.next()
        time.sleep(max(0.0, start + late_s - time.monotonic()))
        return start

    def _path(self, rank: int) -> Path:
        return self._folder / f"{self._count}-{rank}"

    def _arrive(self) -> None:
        """Whoever sees the file sees all of it."""
        draft = self._path(self._rank).with_suffix(".draft")
        draft.write_text(repr(time.monotonic()))
        os.replace(draft, self._path(self._rank))

    def _arrival(self, rank: int) -> float:
        deadline = time.monotonic() + PATIENCE_S
        while not self._path(rank).exists():
            if time.monotonic() > deadline:
                raise TestbedError(f"rank {rank} did not come within {PATIENCE_S:g} s; look at its output")
            time.sleep(LOOK_S)
        return float(self._path(rank).read_text())
