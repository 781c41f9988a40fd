"""GOAT's problem solved exactly, as far as time allows."""

from __future__ import annotations

import time

from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.options import PlanOptions
from wiresum.planners.goat.problem import Problem, proven, to_nearest
from wiresum.planners.goat.solver import CLOSED, solve

SOLVER_SHARE = 0.9
"""Share of the time limit: then the answer is read, and every worker finds its nearest switch."""


def goat(instance: Instance, options: PlanOptions) -> Assignment:
    """The assignment with the fewest bytes × links (GOAT §IV-B, Eq. 1), with a bound.

    Merged as far as it goes: workers with equal distances are one group, and switches within the same radius of a
    group one row (`coverage`). A greedy choice comes first, and the bound of the relaxation. Problems of up to 50,000
    columns are then one integer programme; larger ones, unless the two are within 0.1 %, go in blocks of sub-models
    with their part of the memory, under that bound. The same input gives the same answer, unless time ends it.

    Raises:
        PlanError: no switch sums, or a sub-model exceeds every memory.
        SupportError: the solver is not installed.

    Example:
        >>> from wiresum.plan.job import Job
        >>> from wiresum.plan.options import PlanOptions
        >>> from wiresum.plan.models import equal_parts
        >>> from wiresum.topology.generators.goat import goat as testbed
        >>> fig2 = Instance.of(testbed(2, 1000), Job(sub_models=equal_parts("fragment", 3000, 3)))
        >>> found = goat(fig2, PlanOptions())
        >>> found.solution.value, found.solution.gap
        (25000.0, 0.0)
    """
    began_s = time.monotonic()
    problem = Problem.of(instance)
    left_s = options.time_limit_s - (time.monotonic() - began_s)
    answer = solve(problem, "exact", SOLVER_SHARE * left_s, "goat")
    opened = answer.x > 0
    value = float(problem.value(opened))
    solution = proven(value, answer.bound, solver="highs", status="feasible", seconds=time.monotonic() - began_s)
    status = "optimal" if (solution.gap or 0.0) <= CLOSED else "feasible" if answer.in_time else "time_limit"
    return to_nearest(instance, opened, solution.model_copy(update={"status": status}))
