"""R-InGo: randomised rounding of a relaxation over short paths (InGo §V, corrected)."""

import time
from operator import itemgetter

from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.options import PlanOptions
from wiresum.planners.ingo.choices import Choices
from wiresum.planners.ingo.descent import descend
from wiresum.planners.ingo.exact import highest_rate
from wiresum.planners.ingo.relaxation import relax
from wiresum.planners.ingo.rounding import roundings
from wiresum.planners.ingo.selection import direct, solution
from wiresum.planners.path_sets import PathSets

PATHS = 16
"""Between two nodes: all shortest ones between hosts of two pods of a fat-tree with 8-port switches."""
SAMPLES = 50
"""Roundings in each of `options.tries`, of which the best counts; the paper averages 10."""
BOUND_SHARE, RELAXATION_SHARE = 0.3, 0.4
"""Shares of the time limit; roundings may take what is left."""


def r_ingo(instance: Instance, options: PlanOptions) -> Assignment:
    """The best of many roundings, each improved by moving flows until no move helps.

    Decides the same as `ingo`, over the 16 shortest paths between two nodes. The bound is over all paths, from
    fractions of flows (`routing.flows`); the rounding's own guarantee is in `routing.guarantees`.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: the time limit is too short for the relaxation.
    """
    started_s = time.monotonic()
    limit_s = options.time_limit_s
    bound = highest_rate(instance, BOUND_SHARE * limit_s, "r-ingo", bound_only=True).bound
    choices = Choices.of(instance, PathSets(instance.graph, PATHS, 0))
    relaxation = relax(choices, RELAXATION_SHARE * limit_s, "r-ingo", bound)
    best, best_rate, tried = direct(choices), 0.0, 0
    for sample in roundings(choices, relaxation, SAMPLES * options.tries, options.seed):
        if best_rate >= bound or time.monotonic() - started_s > limit_s:
            break
        improved = descend(choices, sample, started_s + limit_s)
        best, best_rate = max((best, best_rate), (improved, improved.rate(choices.capacity)), key=itemgetter(1))
        tried += 1
    how = f"HiGHS, best of {tried} roundings"
    seconds = time.monotonic() - started_s
    return best.assignment(instance, solution(instance, best, bound, solver=how, seconds=seconds, seed=options.seed))
