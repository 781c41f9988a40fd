"""What all benchmarks do alike that kill parts of a training while it runs."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from wiresum.errors import TestbedError
from wiresum.testbed import Testbed
from wiresum.testbed.run import RunOutcome

START_S = 300.0
"""For the first steps: a busy machine takes a minute to import PyTorch seven times."""
RECOVERY_S = 60.0
"""Within this time after a kill training has gone on, and what was killed is back; else the run has failed."""
FEWEST_PAUSE_S, MOST_PAUSE_S = 0.1, 0.6
"""From one recovery to the next kill, drawn evenly."""
POLL_S = 0.01
LAST_WORDS = 8
"""Lines of the ranks' errors that an error of the run repeats."""

Progress = Callable[[int, int], None]
"""Takes kills so far and kills in all."""


class Heard(Protocol):
    """What the ranks have said so far. Written by the thread that reads them, read by the one that kills."""

    errors: list[str]
    is_over: bool
    """The ranks have ended."""


class Killing(ABC):
    """Kills something of a testbed while its ranks train.

    Attributes:
        bed: a testbed that is up.
        watch: what the ranks have said.
        trouble: what has gone wrong in the thread that kills.
    """

    bed: Testbed
    watch: Heard
    trouble: list[BaseException]

    def train(self) -> None:
        """Trains until all kills are done.

        Raises:
            TestbedError: a rank failed, or what has to happen after a kill did not.
        """
        thread = threading.Thread(target=self._kill_and_stop, daemon=True)
        thread.start()
        outcome = self._run()
        self.watch.is_over = True
        thread.join()
        fail_unless_done(outcome, self.watch, "training with kills")
        if self.trouble:
            raise self.trouble[0]

    @abstractmethod
    def _run(self) -> RunOutcome:
        """Runs the ranks until all have ended, as they do when the stop file is there."""

    @abstractmethod
    def _kill_all(self) -> None:
        """All kills, one after the other."""

    @property
    def _stop_file(self) -> Path:
        return self.bed.folder / "stop"

    def _kill_and_stop(self) -> None:
        try:
            self._kill_all()
        except BaseException as error:
            self.trouble.append(error)
        finally:
            self._stop_file.touch()

    def _wait_until(self, condition: Callable[[], bool], what: str, within_s: float = RECOVERY_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if self.watch.is_over or time.monotonic() > deadline:
                last_words = " | ".join(self.watch.errors[-LAST_WORDS:])
                raise TestbedError(f"{what} did not come within {within_s:.0f} s: {last_words}")
            time.sleep(POLL_S)


def fail_unless_done(outcome: RunOutcome, watch: Heard, what: str) -> None:
    """Raises with the ranks' last words if one of them failed."""
    if outcome.exit_code:
        raise TestbedError(f"{what} failed: " + "\n".join(watch.errors[-15:]))
