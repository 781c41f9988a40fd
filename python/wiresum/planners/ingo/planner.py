"""Aggregators and paths at the highest common rate there is (InGo §IV, solved in whole numbers)."""

import time

from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.options import PlanOptions
from wiresum.planners.ingo.choices import Choices
from wiresum.planners.ingo.exact import highest_rate
from wiresum.planners.ingo.selection import direct, solution
from wiresum.planners.path_sets import PathSets


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
        >>> from wiresum.plan.job import Job
        >>> from wiresum.plan.options import PlanOptions
        >>> from wiresum.predict.cost import cost_of
        >>> from wiresum.topology.generators.ingo import ingo as testbed
        >>> made = ingo(Instance.of(testbed("star"), Job()), PlanOptions())
        >>> made.solution.status, round(cost_of(made).sending_rate_bps / 1e9, 3)
        ('optimal', 3.333)
    """
    started_s = time.monotonic()
    answer = highest_rate(instance, options.time_limit_s, "ingo")
    selection = answer.selection or direct(Choices.of(instance, PathSets(instance.graph, 1, 0)))
    seconds = time.monotonic() - started_s
    return selection.assignment(instance, solution(instance, selection, answer.bound, solver="HiGHS", seconds=seconds))
