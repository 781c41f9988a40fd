"""P4INC-AOI's data plane (§VI-A): one layer of switches, each the one of its workers' rack."""

from __future__ import annotations

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.assignment.instance import PS
from wiresum.plan.options import PlanOptions
from wiresum.topology.graph import UNREACHABLE


def p4inc_aoi(instance: Instance, options: PlanOptions) -> Assignment:
    """Each worker's nearest switch that sums, and the parameter server above them.

    The paper sums only jobs within one rack in the network, by that rack's switch alone: that is what a plan does where
    all workers have the same one. Where they have several, its Fig. 4 has switches send partial sums to the server.
    Which racks a job gets, and which circuits, is its scheduler's part and not decided here.

    Args:
        instance: the question.
        options: without effect; nothing is searched.
    """
    hops = instance.hops.astype(np.int64)
    distance = np.where(instance.hops != UNREACHABLE, hops, UNREACHABLE)
    distance[:, PS] = UNREACHABLE - 1
    target = np.repeat(distance.argmin(axis=1)[:, None], len(instance.sub_models), axis=1)
    direct = float(((target == PS) @ instance.sizes).sum())
    solution = Solution(
        solver="none", status="heuristic", objective="bytes from workers to the parameter server", value=direct
    )
    return Assignment(instance, target, solution, allocation="shared")
