"""Aggregators and paths at the highest common rate there is (InGo §IV, solved in whole numbers)."""

import time

from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.options import PlanOptions
from wiresum.plan.routing.choices import Choices
from wiresum.plan.routing.exact import highest_rate
from wiresum.plan.routing.paths import PathSets
from wiresum.plan.routing.selection import direct, solution


def ingo(instance: Instance, options: PlanOptions) -> Assignment:
    """The optimum over all simple paths, or the best that was found in `options.time_limit_s` with the proven bound.

    Decides for each worker which switch sums its gradient, or that the server does; over which path it goes there, and
    over which path each sum goes to the server. All sub-models go the same way. Every gradient is summed at one switch
    at most (Eq. 35), and only the way up counts (Eq. 34). The rate takes values capacity/k, so it is found by
    bisection, with an integer programme at each step (`routing.flows`).

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: the time limit is too short for a bound.

    Example:
        >>> from wiresum.plan import Job, PlanOptions
        >>> from wiresum.plan.assignment import cost_of
        >>> from wiresum.plan.topologies import ingo as testbed
        >>> made = ingo(Instance.of(testbed("star"), Job()), PlanOptions())
        >>> made.solution.status, round(cost_of(made).sending_rate_bps / 1e9, 3)
        ('optimal', 3.333)
    """
    started_s = time.monotonic()
    answer = highest_rate(instance, options.time_limit_s, "ingo")
    selection = answer.selection or direct(Choices.of(instance, PathSets(instance.fabric, 1, 0)))
    seconds = time.monotonic() - started_s
    return selection.assignment(instance, solution(instance, selection, answer.bound, solver="HiGHS", seconds=seconds))
