"""The forest's solver: from an instance to ever better forests."""

from __future__ import annotations

from collections.abc import Iterator

from wiresum.planners.forest.instance import Instance
from wiresum.planners.forest.solution import Forest
from wiresum.planners.optimisation.process import last_answer


def solve(instance: Instance, time_limit_s: float) -> Forest:
    """The fastest forest, or the best that was found in time.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: not even one tree was found in time.
    """
    return Forest.parse(last_answer(__name__, instance.to_json(), time_limit_s, "forest", instance.columns)).trimmed()


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver; `optimisation.process` says where it runs."""
    from wiresum.planners.forest.generation import Generation

    for forest in Generation(Instance.parse(question), time_limit_s).forests():
        yield forest.to_json()
