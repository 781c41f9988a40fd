"""Solvers within a time limit: small programmes in this process, others in one of their own.

A solver is a module with `answers(question, seconds)`, which yields ever better answers as lines; the last is the
answer. HiGHS is asked to keep the time limit. With few columns it does: no step of it takes long. For larger programmes
a clock outside of it sees to it, so they are solved by a process that can be ended: `python -m` this module, which
reads the question from standard input and prints a line for each answer. Its start takes longer than most small
programmes.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Protocol, cast

from wiresum.errors import PlanError, SupportError

ASKED_SHARE = 0.9
"""Share of the time limit that a solver is asked to keep; at the limit it is ended, and its last line counts."""
SMALL_COLUMNS = 5_000
"""The most columns of a programme that is solved in this process: HiGHS looks at its clock many times a second."""


class Solver(Protocol):
    """What a solver's module offers."""

    def answers(self, question: str, time_limit_s: float) -> Iterator[str]:
        """Ever better answers, each in one line."""


MORE_TIME = "give it more: `--time-limit` of the command, or `time_limit_s` in a scenario"


def last_answer(module: str, question: str, time_limit_s: float, planner: str, columns: int | None = None) -> str:
    """The best answer that a solver has found in time.

    Args:
        module: of the solver.
        question: in its own form.
        time_limit_s: that it is asked to keep.
        planner: for whom, for messages.
        columns: of its largest programme, about; many where absent.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: there was no answer in time.
    """
    if importlib.util.find_spec("highspy") is None:
        raise SupportError(f"the planner `{planner}` needs the solver HiGHS; install the Python package highspy")
    if columns is not None and columns <= SMALL_COLUMNS:
        lines, errors = list(_solver(module).answers(question, time_limit_s)), ""
    else:
        lines, errors = _by_process(module, question, time_limit_s)
    if not lines:
        reason = errors.strip() or MORE_TIME
        raise PlanError(f"the planner `{planner}` found nothing within {time_limit_s:g} s: {reason}")
    return lines[-1]


def _by_process(module: str, question: str, time_limit_s: float) -> tuple[list[str], str]:
    """Whole lines that a process has printed until it ended or was ended, and what it complained of."""
    ends_s = (
        time.monotonic() + ASKED_SHARE * time_limit_s
    )  # on a clock that all processes share, so that the start counts
    with subprocess.Popen(
        [sys.executable, "-m", __name__, module, str(ends_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(time_limit_s, process.kill)
        watchdog.start()
        try:
            output, errors = process.communicate(question)
        finally:
            watchdog.cancel()
            process.kill()
    # A process that was ended in the middle of a line leaves a part of it.
    return [line for line in output.splitlines(keepends=True) if line.endswith("\n")], errors


def _solver(module: str) -> Solver:
    return cast(Solver, importlib.import_module(module))


def main() -> None:
    """The solver's process."""
    module, ends_s = sys.argv[1:]
    solver, question = _solver(module), sys.stdin.read()
    for line in solver.answers(question, max(0.0, float(ends_s) - time.monotonic())):
        print(line, flush=True)


if __name__ == "__main__":
    main()
