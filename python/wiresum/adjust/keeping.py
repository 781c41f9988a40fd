"""An assignment in a network that has lost links or nodes, or has less memory: what still holds stays."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from wiresum.adjust.openings import Openings
from wiresum.adjust.rerouting import rerouted
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance, validate
from wiresum.plan.assignment.instance import PS
from wiresum.topology.graph import UNREACHABLE, Bools, Floats, Ints

GONE = -1
"""Index of an aggregator that is not there any more, or does not sum."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What has become of an assignment.

    Attributes:
        assignment: on the network as it is now.
        moved: (workers, sub-models) which are summed elsewhere than before.
        moved_sums: sums of aggregators that go elsewhere, and paths that are others.
        seconds: that it took, without that for the instance.
    """

    assignment: Assignment
    moved: Bools
    moved_sums: int
    seconds: float

    @property
    def moved_share(self) -> float:
        """The share of all workers' bytes that is summed elsewhere."""
        sizes = self.assignment.instance.sizes
        return float((self.moved @ sizes).sum() / (len(self.moved) * sizes.sum()))


def keep(before: Assignment, now: Instance) -> Kept:
    """Moves what cannot stay, and nothing else.

    What cannot stay: what is summed at a node that is gone, does not sum any more, or is out of reach; under exclusive
    memory, of a node that has too little left, the sub-models that fewest workers send there by byte. It goes to the
    nearest node that sums the sub-model anyway, or to one that starts to, where that saves links and memory is left;
    the parameter server takes the rest. So the answer is feasible, and costs more than a new plan: compare the two from
    time to time. Takes O(openings · groups · aggregators).

    Args:
        before: of the same workers and sub-models.
        now: the network as it is.

    Raises:
        PlanError: other workers or sub-models than before.
    """
    began_s = time.monotonic()
    _require_same(before.instance, now)
    where = _numbers(before.instance, now)
    target = where[before.target]
    lost = target == GONE
    lost |= np.take_along_axis(now.hops, np.maximum(target, PS), axis=1) == UNREACHABLE
    upstream = None if before.upstream is None else _upstream(before.upstream, where, now)
    open_ = _still_open(np.where(lost, GONE, target), upstream, now)
    if before.allocation == "exclusive":
        _evict(target, lost, open_, now)
    target = Openings(now, open_, exclusive=before.allocation == "exclusive").place(target, lost)
    draft = Assignment(now, target, before.solution, upstream, before.allocation)
    routes, rerouted_count = rerouted(before, draft, where)
    seconds = time.monotonic() - began_s
    made = Assignment(now, target, _solution(draft, seconds), upstream, before.allocation, routes)
    moved_sums = rerouted_count + (0 if upstream is None else _changed(before, upstream, where))
    return Kept(validate(made), target != where[before.target], moved_sums, seconds)


def _require_same(before: Instance, now: Instance) -> None:
    names = [[one.graph.names[worker] for worker in one.workers] for one in (before, now)]
    if names[0] != names[1]:
        other = sorted(set(names[0]) ^ set(names[1]))[:1] or names[0][:1]
        raise PlanError(f"the workers are not those of the plan ({other[0]}): plan anew for other workers")
    if not np.array_equal(before.sizes, now.sizes):
        raise PlanError("the sub-models are not those of the plan: plan anew for another model")


def _numbers(before: Instance, now: Instance) -> Ints:
    """(aggregators before,) their indices now, `GONE` without one."""
    known = {now.name(index): index for index in range(len(now.aggregators))}
    return np.array([known.get(before.name(index), GONE) for index in range(len(before.aggregators))])


def _upstream(before: Ints, where: Ints, now: Instance) -> Ints:
    """Sums go where they went; to the parameter server where that is gone, out of reach, or no way there."""
    upstream = np.full((len(now.aggregators), before.shape[1]), PS)
    stays = where != GONE
    above = where[before[stays]]
    lower = where[stays][:, None]
    reached = (above != GONE) & (now.between[lower, np.maximum(above, PS)] != UNREACHABLE)
    upstream[where[stays]] = np.where(reached, above, PS)
    return upstream


def _still_open(target: Ints, upstream: Ints | None, now: Instance) -> Bools:
    """(aggregators, sub-models) where something is summed without any move."""
    opened = np.zeros((len(now.aggregators), target.shape[1]), dtype=np.bool_)
    workers, sub_models = np.nonzero(target != GONE)
    opened[target[workers, sub_models], sub_models] = True
    opened[PS] = True
    for _ in range(0 if upstream is None else len(opened)):
        count = opened.sum()
        below, which = np.nonzero(opened)
        opened[upstream[below, which], which] = True  # type: ignore[index]
        if opened.sum() == count:
            break
    return opened


def _evict(target: Ints, lost: Bools, opened: Bools, now: Instance) -> None:
    """Closes sub-models at nodes that have too little memory, in place; those with the fewest workers first."""
    for aggregator in np.flatnonzero(opened @ now.sizes > now.memory_bytes):
        held = np.flatnonzero(opened[aggregator])
        workers = ((target[:, held] == aggregator) & ~lost[:, held]).sum(axis=0)
        for sub_model in held[np.argsort(workers, kind="stable")]:
            if opened[aggregator] @ now.sizes <= now.memory_bytes[aggregator]:
                break
            opened[aggregator, sub_model] = False
            lost[:, sub_model] |= target[:, sub_model] == aggregator


def _changed(before: Assignment, upstream: Ints, where: Ints) -> int:
    assert before.upstream is not None
    stays = (where != GONE)[:, None] & before.summed_at
    return int((stays & (where[before.upstream] != upstream[np.maximum(where, PS)])).sum())


def _solution(draft: Assignment, seconds: float) -> Solution:
    """Link bytes over shortest paths, by distances alone: the loads of links take longer."""
    instance = draft.instance
    hops = np.take_along_axis(instance.hops, draft.target, axis=1).astype(np.int64)
    below, which = np.nonzero(draft.summed_at)
    above = np.full(len(below), PS) if draft.upstream is None else draft.upstream[below, which]
    up: Floats = instance.between[below, above].astype(np.float64) @ instance.sizes[which].astype(np.float64)
    value = float((hops @ instance.sizes).sum() + up)
    return Solution(solver="kept", status="heuristic", objective="link bytes", value=value, seconds=seconds)
