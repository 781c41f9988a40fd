"""No sums in the network: every worker sends its whole gradient to the parameter server."""

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.assignment.instance import PS
from wiresum.plan.options import PlanOptions


def ps(instance: Instance, options: PlanOptions) -> Assignment:
    """What every switch that sums is to improve on.

    Example:
        >>> from wiresum.plan.job import Job
        >>> from wiresum.plan.options import PlanOptions
        >>> from wiresum.topology.generators.goat import goat
        >>> ps(Instance.of(goat(1), Job()), PlanOptions()).target.tolist()
        [[0], [0]]
    """
    target = np.full((len(instance.workers), len(instance.sub_models)), PS)
    value = float(instance.hops[:, PS].sum()) * instance.model_bytes
    return Assignment(
        instance, target, Solution(solver="none", status="heuristic", objective="link bytes", value=value)
    )
