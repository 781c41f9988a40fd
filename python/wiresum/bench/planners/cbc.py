"""GOAT's Eq. (1) as printed, through PuLP and CBC, which the paper uses: a process of its own that can be ended.

`python -m wiresum.bench.planners.cbc` reads a question from standard input and prints what it found. One binary for
each worker, sub-model and aggregator, and one for each sub-model and aggregator; nothing is merged.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import product
from typing import Any

from wiresum.errors import SupportError
from wiresum.plan.assignment import Instance
from wiresum.plan.assignment.instance import PS

GRACE_S = 5.0
"""Beyond the limit; CBC is known to pass its own."""


@dataclass(frozen=True)
class Rival:
    """What CBC reached.

    Attributes:
        seconds: to build and to solve, without the start of its process; at least, if it was ended.
        value: Eq. (1), bytes × links; None if it found nothing in time.
        proven: whether it proved that this is the least.
    """

    seconds: float
    value: float | None
    proven: bool


def solve_as_printed(instance: Instance, limit_s: float) -> Rival:
    """Builds and solves Eq. (1), for so long at most.

    Raises:
        SupportError: PuLP is not installed.
    """
    if importlib.util.find_spec("pulp") is None:
        raise SupportError("the rival needs the Python package pulp; install it, or leave the rival out (`--no-rival`)")
    question = {
        "hops": instance.hops.tolist(),
        "climb": instance.hops_to_server.tolist(),
        "sizes": instance.sizes.tolist(),
        "memory": instance.memory_bytes.tolist(),
        "limit_s": limit_s,
    }
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # CBC is a child of it: both end together.
    ) as process:
        try:
            output, _ = process.communicate(json.dumps(question), timeout=limit_s + GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Rival(time.monotonic() - began_s, None, False)
    answer = json.loads(output)
    return Rival(answer["seconds"], answer["value"], answer["proven"])


def main() -> None:
    """The rival's process."""
    import pulp

    question = json.loads(sys.stdin.read())
    began_s = time.monotonic()
    problem = build(question)
    left_s = question["limit_s"] - (time.monotonic() - began_s)
    if left_s > 0:
        problem.solve(pulp.PULP_CBC_CMD(msg=False, threads=1, timeLimit=left_s))
    proven = problem.status == pulp.LpStatusOptimal and problem.sol_status == pulp.LpSolutionOptimal
    found = problem.sol_status in {pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible}
    value = pulp.value(problem.objective) if found else None
    print(json.dumps({"value": value, "proven": proven, "seconds": time.monotonic() - began_s}))


def build(question: dict[str, Any]) -> Any:
    """Eq. (1), row by row."""
    import pulp

    hops, climb, sizes = question["hops"], question["climb"], question["sizes"]
    workers, parts, nodes = range(len(hops)), range(len(sizes)), range(len(climb))
    switches = range(PS + 1, len(climb))
    x = pulp.LpVariable.dicts("x", (parts, nodes), cat="Binary")
    y = pulp.LpVariable.dicts("y", (workers, parts, nodes), cat="Binary")
    problem = pulp.LpProblem("GINA", pulp.LpMinimize)
    problem += pulp.lpSum(
        [y[w][g][s] * (hops[w][s] * sizes[g]) for w, g, s in product(workers, parts, nodes)]
        + [x[g][s] * (climb[s] * sizes[g]) for g, s in product(parts, switches)]
    )
    for g in parts:
        problem += pulp.lpSum(x[g][s] for s in nodes) >= 1
    for w, g in product(workers, parts):
        problem += pulp.lpSum(y[w][g][s] for s in nodes) == 1
        for s in nodes:
            problem += y[w][g][s] <= x[g][s]
    for s in switches:
        if question["memory"][s] != float("inf"):
            problem += pulp.lpSum(x[g][s] * sizes[g] for g in parts) <= question["memory"][s]
    return problem


if __name__ == "__main__":
    main()
