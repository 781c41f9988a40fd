"""The solver in a process of its own: it can be ended if it does not end by itself, and shares no symbols with others.

`python -m wiresum.plan.forest.solver SECONDS` reads an instance from standard input and prints a forest on each line;
the last is the answer. HiGHS is asked to keep the time limit, and a clock outside of it sees to it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading

from wiresum.errors import PlanError, SupportError
from wiresum.plan.forest.instance import Instance
from wiresum.plan.forest.solution import Forest

GRACE_S = 15.0
"""Beyond the time limit, for start and last step on a busy machine; then the process is ended, and its last line
counts."""


def solve(instance: Instance, time_limit_s: float) -> Forest:
    """The fastest forest, or the best that was found in time.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: not even one tree was found in time.
    """
    if importlib.util.find_spec("highspy") is None:
        raise SupportError("the planner `forest` needs the solver HiGHS; install the Python package highspy")
    command = [sys.executable, "-m", "wiresum.plan.forest.solver", str(time_limit_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(time_limit_s + GRACE_S, process.kill)
        watchdog.start()
        try:
            output, errors = process.communicate(instance.to_json())
        finally:
            watchdog.cancel()
            process.kill()
    # A process that was ended in the middle of a line leaves a part of it.
    lines = [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
    if not lines:
        raise PlanError(f"no tree was found within {time_limit_s:g} s: {errors.strip() or 'allow more time'}")
    return Forest.parse(lines[-1]).trimmed()


def main() -> None:
    """The solver's process."""
    from wiresum.plan.forest.generation import Generation

    instance = Instance.parse(sys.stdin.read())
    for forest in Generation(instance, float(sys.argv[1])).forests():
        print(forest.to_json(), flush=True)


if __name__ == "__main__":
    main()
