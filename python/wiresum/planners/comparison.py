"""Planners side by side on one question: what each answer costs, what it proves, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from wiresum.errors import PlanError, WiresumError
from wiresum.plan.aggregation_plan import AggregationPlan, Solution
from wiresum.plan.assignment import Assignment
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.sparse import SparsePart
from wiresum.planners import COMPARED, RING, ROW_PLANNERS, SWITCH_PLANNERS, assign, place_rows, plan
from wiresum.predict.cost import Cost, cost_of, cost_of_plan, cost_of_ring
from wiresum.registry import remedy, spelled
from wiresum.topology.model import Topology

if TYPE_CHECKING:
    from wiresum.planners.tiers.instance import SparseInstance

Answer = Assignment | AggregationPlan


@dataclass(frozen=True, eq=False)
class Candidate:
    """One planner's answer.

    Attributes:
        planner: its name.
        seconds: until it answered, the start of solvers included.
        cost: of the answer; None if there is none.
        answer: an assignment, or a plan of a planner of trees; None for a ring.
        refusal: why there is no answer.
    """

    planner: str
    seconds: float
    cost: Cost | None = None
    answer: Answer | None = None
    refusal: str | None = None

    @property
    def solution(self) -> Solution | None:
        """What it proves, where the planner knows."""
        return None if self.answer is None else self.answer.solution

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "planner": self.planner,
            "seconds": self.seconds,
            "cost": self.cost.to_json() if self.cost else None,
            "solution": self.solution.model_dump(exclude_none=True) if self.solution else None,
            "refusal": self.refusal,
        }


@dataclass(frozen=True, eq=False)
class RowCandidate:
    """One answer of a planner of rows.

    Attributes:
        planner: its name.
        seconds: until it answered.
        part: the answer; None if there is none.
        refusal: why there is no answer.
    """

    planner: str
    seconds: float
    part: SparsePart | None = None
    refusal: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; the loads of links are left out, as `wiresum plan` has them."""
        part = None if self.part is None else self.part.model_dump(exclude={"loads", "tables"})
        return {"planner": self.planner, "seconds": self.seconds, "part": part, "refusal": self.refusal}


def compare_rows(asked: SparseInstance, planners: Sequence[str]) -> Iterator[RowCandidate]:
    """Asks one planner of rows after the other, about rows that were counted once.

    Raises:
        PlanError: there is no planner of rows of that name.
    """
    stranger = next((name for name in planners if name not in ROW_PLANNERS), None)
    if stranger is not None:
        raise PlanError(f"{stranger} is no planner of rows; choose from {', '.join(ROW_PLANNERS)}")
    for name in planners:
        began_s = time.monotonic()
        try:
            part = place_rows(asked, name)
        except WiresumError as refused:
            yield RowCandidate(name, time.monotonic() - began_s, refusal=str(refused))
            continue
        yield RowCandidate(name, time.monotonic() - began_s, part)


def compare(topology: Topology, job: Job, options: PlanOptions, planners: Sequence[str]) -> Iterator[Candidate]:
    """Asks one planner after the other. One that refuses is a row with its reason, and the next is asked.

    Raises:
        PlanError: there is no planner of that name.
    """
    asked = [spelled(name) for name in planners]
    stranger = next((name for name in asked if name not in COMPARED), None)
    if stranger is not None:
        raise PlanError(f"there is no planner {stranger}; {remedy(stranger, COMPARED)}")
    for name in asked:
        began_s = time.monotonic()
        try:
            answer = _ask(topology, job, options, name)
        except WiresumError as refused:
            yield Candidate(name, time.monotonic() - began_s, refusal=str(refused))
            continue
        yield Candidate(name, time.monotonic() - began_s, _cost(topology, job, answer), answer)


def _ask(topology: Topology, job: Job, options: PlanOptions, name: str) -> Answer | None:
    if name == RING:
        return None
    return (assign if name in SWITCH_PLANNERS else plan)(topology, job, options, name)


def _cost(topology: Topology, job: Job, answer: Answer | None) -> Cost:
    if answer is None:
        return cost_of_ring(topology, job)
    if isinstance(answer, Assignment):
        return cost_of(answer)
    return cost_of_plan(topology, answer, sum(part.bytes for part in job.parts))


def sample_workers(topology: Topology, count: int, seed: int) -> list[str]:
    """Names of `count` workers, chosen at random, in the topology's order.

    Raises:
        PlanError: the topology has fewer.

    Example:
        >>> from wiresum.topology.generators.star import star
        >>> sample_workers(star(8), 3, seed=1)
        ['w1', 'w2', 'w4']
    """
    names = [worker.name for worker in topology.workers]
    if not 1 <= count <= len(names):
        raise PlanError(f"topology {topology.name} has {len(names)} workers, not {count}; ask for 1 to {len(names)}")
    chosen = set(Random(seed).sample(names, count))
    return [name for name in names if name in chosen]
