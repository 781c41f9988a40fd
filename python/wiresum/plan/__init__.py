"""Where gradients are summed: topologies, jobs, planners and the plans that they make.

Example:
    >>> from wiresum.plan import Job, plan, star
    >>> plan(star(workers=4), Job()).nodes[0].address
    '10.99.0.254:5747'
"""

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.evaluation import Evaluation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.planners import PLANNERS, plan
from wiresum.plan.planners.xagg.adjustment import Adjustment, Load, adjust
from wiresum.plan.topologies import TOPOLOGIES, servers, star, xagg
from wiresum.plan.topology import Link, Node, Topology

__all__ = [
    "PLANNERS",
    "TOPOLOGIES",
    "Adjustment",
    "AggregationPlan",
    "Evaluation",
    "Job",
    "Link",
    "Load",
    "Node",
    "PlanOptions",
    "Topology",
    "adjust",
    "plan",
    "servers",
    "star",
    "xagg",
]
