"""Answers of planners of switch networks: which worker's sub-model is summed at which node.

An `Instance` is the question in arrays, an `Assignment` the answer, `Traffic` what it means for the network, and
`predict.cost` what it costs; `as_plan` hands it to the data plane. Planners are judged by these, never by themselves.
"""

from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.conversion import as_plan
from wiresum.plan.assignment.instance import Instance
from wiresum.plan.assignment.routes import Path, Routes
from wiresum.plan.assignment.traffic import Traffic, traffic_of, traffic_of_plan
from wiresum.plan.assignment.validation import excess_memory, validate

__all__ = [
    "Assignment",
    "Instance",
    "Path",
    "Routes",
    "Traffic",
    "as_plan",
    "excess_memory",
    "traffic_of",
    "traffic_of_plan",
    "validate",
]
