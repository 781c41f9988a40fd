"""Planners: one file each, and one line here.

A planner is a function `(topology, job, options) -> AggregationPlan`. It is judged by the plan's own validation and
by what the runners measure, never by itself.
"""

from collections.abc import Callable

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.planners.direct import direct
from wiresum.plan.planners.forest import forest
from wiresum.plan.planners.xagg import xagg
from wiresum.plan.topology import Topology

Planner = Callable[[Topology, Job, PlanOptions], AggregationPlan]

PLANNERS: dict[str, Planner] = {
    "direct": direct,
    "xagg": xagg,
    "forest": forest,
}
"""By the name that a command line takes."""


def plan(topology: Topology, job: Job, options: PlanOptions | None = None, planner: str = "direct") -> AggregationPlan:
    """Places a job on a topology.

    Raises:
        PlanError: no such planner, or the planner found no place for the job; the message says why.
    """
    if planner not in PLANNERS:
        raise PlanError(f"there is no planner {planner}; choose from {', '.join(PLANNERS)}")
    return PLANNERS[planner](topology.with_addresses(), job, options or PlanOptions())
