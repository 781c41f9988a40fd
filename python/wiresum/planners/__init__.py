"""Planners: one file each, and one line here.

There are two kinds. A planner of trees is a function `(topology, job, options) -> AggregationPlan`. A planner of switch
networks is a function `(instance, options) -> Assignment`, for networks of thousands of nodes too; `PLANNERS` has it as
the former. They are judged by the plan's own validation and by what the runners measure, never by themselves.

Example:
    >>> from wiresum.plan.job import Job
    >>> from wiresum.topology.generators import star
    >>> plan(star(workers=4), Job()).nodes[0].address
    '10.99.0.254:5747'
"""

import time
from collections.abc import Callable
from functools import partial

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment import Assignment, Instance, as_plan, validate
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners.auto import auto
from wiresum.planners.byteps import byteps
from wiresum.planners.direct import direct
from wiresum.planners.forest.planner import forest
from wiresum.planners.goat.asynchronous import goat_async, ksgd
from wiresum.planners.goat.exact import goat
from wiresum.planners.goat.krgs import krgs, krgs_paper
from wiresum.planners.grid.planner import grid
from wiresum.planners.ingo.planner import ingo
from wiresum.planners.ingo.r_ingo import r_ingo
from wiresum.planners.joint.planner import joint
from wiresum.planners.on_the_way import atp, atp_static, esa, geryon, switchml
from wiresum.planners.p4inc_aoi import p4inc_aoi
from wiresum.planners.ps import ps
from wiresum.planners.xagg.planner import xagg
from wiresum.topology.model import Topology

Planner = Callable[[Topology, Job, PlanOptions], AggregationPlan]
SwitchPlanner = Callable[[Instance, PlanOptions], Assignment]

LEAST_S = 1e-6
"""Of a time limit: nothing is left of it."""

SWITCH_PLANNERS: dict[str, SwitchPlanner] = {
    "goat": goat,
    "krgs": krgs,
    "krgs_paper": krgs_paper,
    "ps": ps,
    "ingo": ingo,
    "r-ingo": r_ingo,
    "grid": grid,
    "atp": atp,
    "atp_static": atp_static,
    "switchml": switchml,
    "esa": esa,
    "geryon": geryon,
    "p4inc-aoi": p4inc_aoi,
}
"""By the name that a command line takes."""


def _plan_switches(name: str, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    return as_plan(name, _assigned(name, topology, job, options), options)


def _assigned(name: str, topology: Topology, job: Job, options: PlanOptions) -> Assignment:
    """A planner's answer, within the time limit with its question."""
    began_s = time.monotonic()
    instance = Instance.of(topology, job)
    left_s = max(LEAST_S, options.time_limit_s - (time.monotonic() - began_s))
    return SWITCH_PLANNERS[name](instance, options.model_copy(update={"time_limit_s": left_s}))


PLANNERS: dict[str, Planner] = {
    "direct": direct,
    "xagg": xagg,
    "forest": forest,
    "byteps": byteps,
    "joint": joint,
    "goat_async": goat_async,
    "ksgd": ksgd,
    **{name: partial(_plan_switches, name) for name in SWITCH_PLANNERS},
}
"""By the name that a command line takes."""
PLANNERS["auto"] = partial(auto, PLANNERS)


def plan(topology: Topology, job: Job, options: PlanOptions | None = None, planner: str = "direct") -> AggregationPlan:
    """Places a job on a topology.

    Raises:
        PlanError: no such planner, or the planner found no place for the job; the message says why.
    """
    if planner not in PLANNERS:
        raise PlanError(f"there is no planner {planner}; choose from {', '.join(PLANNERS)}")
    return PLANNERS[planner](topology.with_addresses(), job, options or PlanOptions())


def assign(topology: Topology, job: Job, options: PlanOptions | None = None, planner: str = "ps") -> Assignment:
    """Places a job on a switch network of any size.

    Raises:
        PlanError: no such planner of switch networks, or it found no place for the job; the message says why.
    """
    if planner not in SWITCH_PLANNERS:
        raise PlanError(f"{planner} is no planner of switch networks; choose from {', '.join(SWITCH_PLANNERS)}")
    return validate(_assigned(planner, topology, job, options or PlanOptions()))
