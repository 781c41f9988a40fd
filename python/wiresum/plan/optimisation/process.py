"""A solver in a process of its own: it can be ended if it does not end by itself, and shares no symbols with others.

The process is a module with `main()`: `python -m MODULE SECONDS` reads a question from standard input and prints an
answer on each line, ever better ones; the last is the answer. HiGHS is asked to keep the time limit, and a clock
outside of it sees to it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading

from wiresum.errors import PlanError, SupportError

GRACE_S = 15.0
"""Beyond the time limit, for start and last step on a busy machine; then the process is ended, and its last line
counts."""


def last_answer(module: str, question: str, time_limit_s: float, planner: str) -> str:
    """The best answer that a solver's process has found in time.

    Args:
        module: to run.
        question: for its standard input.
        time_limit_s: that it is asked to keep.
        planner: for whom, for messages.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: there was no answer in time.
    """
    if importlib.util.find_spec("highspy") is None:
        raise SupportError(f"the planner `{planner}` needs the solver HiGHS; install the Python package highspy")
    with subprocess.Popen(
        [sys.executable, "-m", module, str(time_limit_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(time_limit_s + GRACE_S, process.kill)
        watchdog.start()
        try:
            output, errors = process.communicate(question)
        finally:
            watchdog.cancel()
            process.kill()
    # A process that was ended in the middle of a line leaves a part of it.
    lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
    if not lines:
        reason = errors.strip() or "allow more time"
        raise PlanError(f"the planner `{planner}` found nothing within {time_limit_s:g} s: {reason}")
    return lines[-1]
