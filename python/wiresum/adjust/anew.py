"""What an adjusted plan costs against one that is made anew."""

from __future__ import annotations

from dataclasses import dataclass

from wiresum.adjust.adjustment import REFERENCE_BYTES, Adjustment
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.placement import parents_of
from wiresum.planners import plan
from wiresum.predict import bound
from wiresum.topology.model import Topology


@dataclass(frozen=True)
class Anew:
    """Both, by the busiest link or adder for 100 MB; and who gets another parent.

    Attributes:
        kept_seconds: of the adjusted plan.
        new_seconds: of the new one.
        new_moves: pairs of child and parent that the old plan did not have.
    """

    kept_seconds: float
    new_seconds: float
    new_moves: int


def anew(before: AggregationPlan, adjusted: Adjustment, topology: Topology, planner: str) -> Anew:
    """Plans the same job anew, and compares.

    Raises:
        PlanError: the planner finds no plan.
    """
    first = next(one for one in before.streams if one.role == "values")
    job = Job(
        id=before.job.id,
        workers=[worker.name for worker in before.workers],
        values_per_packet=before.job.values_per_packet,
        lanes=before.job.lanes,
        codec=before.job.codec,
        exponents=before.job.exponents,
        sealed=before.job.sealed,
        proven=before.job.proven,
        copies=any(one.is_exchange for one in before.streams),
        policy="cache" if first.policy == "cache" else "pool",
    )
    new = plan(topology, job, planner=planner)
    now = topology.with_addresses()
    moved = _edges(new) - _edges(before)
    return Anew(bound(now, adjusted.plan, REFERENCE_BYTES), bound(now, new, REFERENCE_BYTES), len(moved))


def _edges(made: AggregationPlan) -> set[tuple[str, str | None]]:
    return {edge for one in made.streams if one.role == "values" for edge in parents_of(made, one).items()}
