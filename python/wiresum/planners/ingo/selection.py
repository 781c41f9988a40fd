"""One way for each worker and each aggregator in use, and the rate at which all can send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.assignment.instance import PS
from wiresum.plan.assignment.routes import Routes
from wiresum.planners.ingo.choices import UNIT_BPS, Choices, Way, capacities
from wiresum.topology.graph import Floats


@dataclass(frozen=True)
class Selection:
    """An integral answer.

    Attributes:
        of_workers: each worker's way.
        of_aggregators: by aggregator in use, its way to the server.
    """

    of_workers: Sequence[Way]
    of_aggregators: Mapping[int, Way]

    def rate(self, capacity: Floats) -> float:
        """The common rate f of Eqs. (39) to (41): the least capacity over the flows that share it, in its unit."""
        ways = [*self.of_workers, *self.of_aggregators.values()]
        load = Counter(resource for way in ways for resource in way.resources)
        return float(min(capacity[resource] / flows for resource, flows in load.items()))

    def assignment(self, instance: Instance, solution: Solution) -> Assignment:
        """The answer in the form of all planners of switch networks; every sub-model goes the same way."""
        target = np.array([way.aggregator for way in self.of_workers])
        routes = Routes(
            [way.path for way in self.of_workers],
            {aggregator: way.path for aggregator, way in self.of_aggregators.items() if aggregator != PS},
        )
        columns = np.repeat(target[:, None], len(instance.sub_models), axis=1)
        return Assignment(instance, columns, solution, allocation="shared", routes=routes)


def direct(choices: Choices) -> Selection:
    """Every worker to the server over the first of its shortest paths: where searches can begin without a solver."""
    return Selection([next(way for way in ways if way.aggregator == PS) for ways in choices.of_workers], {})


OBJECTIVE = "seconds of the way up"
SAME = 1e-9
"""Relative: rates that agree this closely are the same capacity over the same number of flows."""


def solution(
    instance: Instance, selection: Selection, bound: float, *, solver: str, seconds: float, seed: int | None = None
) -> Solution:
    """How good a selection is, by the seconds that a gradient takes at its rate.

    Args:
        instance: the question.
        selection: the answer.
        bound: a rate that none exceeds, in units of `UNIT_BPS`.
        solver: that found it.
        seconds: that it took.
        seed: of random choices.
    """
    rate = selection.rate(capacities(instance))
    bits = instance.model_bytes * 8 / UNIT_BPS
    return Solution(
        solver=solver,
        status="optimal" if rate >= bound * (1 - SAME) else "feasible",
        objective=OBJECTIVE,
        value=bits / rate,
        bound=bits / bound,
        gap=max(0.0, 1 - rate / bound),
        seed=seed,
        seconds=seconds,
    )
