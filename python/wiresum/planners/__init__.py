"""Planners: one file each, or one folder with its mathematics, and one line here.

There are three kinds. A planner of trees is a function `(topology, job, options) -> AggregationPlan`. A planner of
switch networks is a function `(instance, options) -> Assignment`, for networks of thousands of nodes too; `PLANNERS`
has it as the former. A planner of rows is a function `(instance) -> SparsePart`, for tables of sparse models. They are
judged by the plan's own validation and by what the runners measure, never by themselves.

Example:
    >>> from wiresum.plan.job import Job
    >>> from wiresum.topology.generators.star import star
    >>> plan(star(workers=4), Job()).nodes[0].address
    '10.99.0.254:5747'
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from wiresum.errors import PlanError
from wiresum.plan.choices import SwitchPolicy
from wiresum.registry import Registry, remedy, spelled

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.assignment import Assignment, Instance
    from wiresum.plan.job import Job
    from wiresum.plan.options import PlanOptions
    from wiresum.plan.sparse import SparsePart
    from wiresum.planners.tiers.instance import SparseInstance
    from wiresum.topology.model import Topology

    RowPlanner = Callable[[SparseInstance], SparsePart]
    Planner = Callable[[Topology, Job, PlanOptions], AggregationPlan]
    SwitchPlanner = Callable[[Instance, PlanOptions], Assignment]

LEAST_S = 1e-6
"""What a planner is given when its time limit is used up before it begins."""

TREE_PLANNERS: Registry[Planner] = Registry(
    {
        "direct": "wiresum.planners.direct:direct",
        "xagg": "wiresum.planners.xagg.planner:xagg",
        "forest": "wiresum.planners.forest.planner:forest",
        "byteps": "wiresum.planners.byteps:byteps",
        "joint": "wiresum.planners.joint.planner:joint",
        "goat-async": "wiresum.planners.goat.asynchronous:goat_async",
        "ksgd": "wiresum.planners.goat.asynchronous:ksgd",
    }
)

_SWITCHES: dict[str, tuple[str, SwitchPolicy]] = {
    "goat": ("wiresum.planners.goat.exact:goat", "exclusive"),
    "krgs": ("wiresum.planners.goat.krgs:krgs", "exclusive"),
    "krgs-paper": ("wiresum.planners.goat.krgs:krgs_paper", "exclusive"),
    "ps": ("wiresum.planners.ps:ps", "exclusive"),
    "ingo": ("wiresum.planners.ingo.planner:ingo", "register"),
    "r-ingo": ("wiresum.planners.ingo.r_ingo:r_ingo", "register"),
    "grid": ("wiresum.planners.grid.planner:grid", "register"),
    "atp": ("wiresum.planners.on_the_way:atp", "hash"),
    "atp-static": ("wiresum.planners.on_the_way:atp_static", "exclusive"),
    "switchml": ("wiresum.planners.on_the_way:switchml", "pool"),
    "esa": ("wiresum.planners.on_the_way:esa", "preempt"),
    "geryon": ("wiresum.planners.on_the_way:geryon", "exclusive"),
    "p4inc-aoi": ("wiresum.planners.p4inc_aoi:p4inc_aoi", "segment"),
}
SWITCH_PLANNERS: Registry[SwitchPlanner] = Registry({name: place for name, (place, _) in _SWITCHES.items()})
SWITCH_POLICIES: dict[str, SwitchPolicy] = {name: policy for name, (_, policy) in _SWITCHES.items()}
"""What the switches of each planner's paper do; `ps` and `geryon` have none that sum."""

ROW_PLANNERS: Registry[RowPlanner] = Registry(
    {
        "tiers": "wiresum.planners.tiers.planner:tiers",
        "zebra": "wiresum.planners.zebra:zebra",
    }
)


def plan(topology: Topology, job: Job, options: PlanOptions | None = None, planner: str = "direct") -> AggregationPlan:
    """Places a job on a topology.

    Raises:
        PlanError: no such planner, or the planner found no place for the job; the message says why.
    """
    from wiresum.plan.options import PlanOptions

    name = spelled(planner)
    if name not in PLANNERS:
        raise PlanError(f"there is no planner {planner}; {remedy(planner, PLANNERS)}")
    there = topology.with_addresses()
    made = PLANNERS[name](there, job, options or PlanOptions())
    return _spread(there, job, made) if job.copies else made


def assign(topology: Topology, job: Job, options: PlanOptions | None = None, planner: str = "ps") -> Assignment:
    """Places a job on a switch network of any size.

    Raises:
        PlanError: no such planner of switch networks, or it found no place for the job; the message says why.
    """
    from wiresum.plan.assignment import validate
    from wiresum.plan.options import PlanOptions

    if planner not in SWITCH_PLANNERS:
        raise PlanError(f"{planner} is no planner of switch networks; {remedy(planner, SWITCH_PLANNERS)}")
    return validate(_assigned(planner, topology, job, options or PlanOptions()))


def place_rows(instance: SparseInstance, planner: str = "tiers") -> SparsePart:
    """Decides where each row of a sparse model is summed.

    Raises:
        PlanError: no such planner of rows, or a worker does not reach a server.
    """
    if planner not in ROW_PLANNERS:
        raise PlanError(f"{planner} is no planner of rows; {remedy(planner, ROW_PLANNERS)}")
    return ROW_PLANNERS[planner](instance)


def _assigned(name: str, topology: Topology, job: Job, options: PlanOptions) -> Assignment:
    """A planner's answer, within the time limit with its question."""
    from wiresum.plan.assignment import Instance

    began_s = time.monotonic()
    instance = Instance.of(topology, job)
    left_s = max(LEAST_S, options.time_limit_s - (time.monotonic() - began_s))
    return SWITCH_PLANNERS[name](instance, options.model_copy(update={"time_limit_s": left_s}))


def _spread(topology: Topology, job: Job, made: AggregationPlan) -> AggregationPlan:
    from wiresum.planners.copies import spread

    return spread(topology, job, made)


def _plan_trees(name: str, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    return TREE_PLANNERS[name](topology, job, options)


def _plan_switches(name: str, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    from wiresum.plan.assignment import as_plan

    return as_plan(name, _assigned(name, topology, job, options), options)


def _auto(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    from wiresum.planners.auto import auto

    return auto(PLANNERS, topology, job, options)


PLANNERS: dict[str, Planner] = {
    **{name: partial(_plan_trees, name) for name in TREE_PLANNERS},
    **{name: partial(_plan_switches, name) for name in SWITCH_PLANNERS},
    "auto": _auto,
}
"""By the name that a command line takes."""
RING = "ring"
COMPARED = (*PLANNERS, RING)
"""Names whose costs can be compared. A ring has costs, but no plan."""
