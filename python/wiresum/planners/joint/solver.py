"""The joint programme's solver: from a network to ever better forests of routed trees."""

from __future__ import annotations

from collections.abc import Iterator

from wiresum.planners.forest.solution import Forest
from wiresum.planners.joint.instance import RoutedInstance, RoutedTree
from wiresum.planners.optimisation.process import last_answer


def solve(instance: RoutedInstance, time_limit_s: float) -> Forest:
    """The fastest forest, or the best that was found in time; its trees are routed.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: not even one tree was found in time.
    """
    line = last_answer(__name__, instance.to_json(), time_limit_s, "joint", instance.columns)
    return Forest.parse(line, RoutedTree).trimmed()


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver; `optimisation.process` says where it runs."""
    from wiresum.planners.joint.generation import RoutedGeneration

    for forest in RoutedGeneration(RoutedInstance.parse(question), time_limit_s).forests():
        yield forest.to_json()
