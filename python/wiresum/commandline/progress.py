"""What a long command does, how long it has taken, and how long it will still take; on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wiresum.commandline import durations
from wiresum.commandline.console import err, note

SHOWN_AFTER_S = 2.0
"""What ends before needs no progress."""
LINES_APART_S = 30.0
"""Between two lines where there is no terminal."""
MARGIN = 1.5
"""Factor on every estimate: machines are seldom idle, and a task that ends early disappoints nobody."""
MINUTE_S, HOUR_S = 60, 3600


class Working:
    """A long task as people follow it.

    Args:
        what: the task, as a phrase.
        expected_s: about how long it takes; None if nobody knows.
        clock: seconds that never go back.

    Example:
        >>> task = Working("sums", 20.0, clock=lambda: 100.0)
        >>> task.say("run 1 of 3")
        >>> task.shown()
        'sums: run 1 of 3 · 0 s, about 30 s left'
    """

    def __init__(self, what: str, expected_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._said, self._counted = what, "", ""
        self._clock = clock
        self._began_s = clock()
        self._ends_s: float | None = None
        if expected_s is not None:
            self.expect(expected_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began_s

    def say(self, line: str) -> None:
        """What it does now."""
        self._said = line

    def reach(self, done: float, of: float) -> None:
        """So much of it is done: the rest is expected to take as long for each part."""
        self._counted = f"{done:g} of {of:g}"
        if done > 0:
            self.expect(self.elapsed_s * (of - done) / done)

    def expect(self, left_s: float) -> None:
        """The rest takes about so long on an idle machine; a margin is added."""
        self._ends_s = self._clock() + MARGIN * left_s

    def shown(self) -> str:
        """The task in a line."""
        now = ", ".join(part for part in (self._said, self._counted) if part)
        parts = [f"{self._what}: {now}" if self._what and now else self._what or now, spoken(self.elapsed_s)]
        return " · ".join(part for part in parts if part) + self._left()

    def _left(self) -> str:
        if self._ends_s is None:
            return ""
        left_s = self._ends_s - self._clock()
        return f", about {spoken(left_s)} left" if left_s > 0 else ", longer than expected"


def spoken(seconds: float) -> str:
    """A time as people say it.

    Example:
        >>> spoken(41.2), spoken(200), spoken(4500)
        ('42 s', '4 min', '1 h 15 min')
    """
    whole = -int(-seconds // 1)
    if whole < 2 * MINUTE_S:
        return f"{whole} s"
    minutes = -(-whole // MINUTE_S)
    hours, rest = divmod(minutes, HOUR_S // MINUTE_S)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"


@contextmanager
def working(what: str, expected_s: float | None = None) -> Iterator[Working]:
    """Shows a task while it lasts: a line that changes in a terminal, elsewhere a line now and then.

    Args:
        what: the task, as a phrase.
        expected_s: about how long it takes where the same command has not run on this machine before; None if nobody
            knows.

    Yields:
        What is told how far it is.
    """
    task = Working(what, durations.last_s() or expected_s)
    with _in_a_terminal(task) if sys.stderr.isatty() else in_lines(task):
        yield task
    if task.elapsed_s > SHOWN_AFTER_S:
        durations.keep(task.elapsed_s)


@contextmanager
def _in_a_terminal(task: Working) -> Iterator[None]:
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots")

    def frame() -> Spinner | Text:
        if task.elapsed_s < SHOWN_AFTER_S:
            return Text("")
        spinner.update(text=Text(task.shown(), no_wrap=True, overflow="ellipsis"))
        return spinner

    # What goes into a file or to another program must not be caught on its way.
    with Live(get_renderable=frame, console=err(), transient=True, redirect_stdout=sys.stdout.isatty()):
        yield


@contextmanager
def in_lines(task: Working, first_s: float = SHOWN_AFTER_S, apart_s: float = LINES_APART_S) -> Iterator[None]:
    """Lines about a task, the first one after `first_s`."""
    ended = threading.Event()

    def tell() -> None:
        wait_s = first_s
        while not ended.wait(wait_s):
            note(task.shown())
            wait_s = apart_s

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
