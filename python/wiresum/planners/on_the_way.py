"""Planners that look at no rate: sums where gradients pass anyway, as the protocols of these names do.

What they do when several jobs want the same slots is not in a plan: the simulator's `trains` show it.
"""

from __future__ import annotations

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance, Routes
from wiresum.plan.assignment.answer import Allocation
from wiresum.plan.assignment.instance import PS
from wiresum.plan.options import PlanOptions
from wiresum.planners.path_sets import PathSets
from wiresum.topology.graph import UNREACHABLE, Bools, Ints


def atp(instance: Instance, options: PlanOptions) -> Assignment:
    """ATP: the first switch on the way that sums, and the server's own switch above it (Lao et al., NSDI 2021).

    A way is a shortest path to the parameter server; of equal ones, workers of one rack take the same. Slots are used
    again all the time, so memory bounds nothing here.
    """
    first = _first_on_the_way(instance)
    upstream = np.full((len(instance.aggregators), len(instance.sub_models)), PS)
    for aggregator in np.unique(first):
        upstream[aggregator] = _at_the_server(instance, int(aggregator))
    return _assignment(instance, first, upstream)


def esa(instance: Instance, options: PlanOptions) -> Assignment:
    """ESA: places as ATP; urgent fragments take others' slots (arXiv 2201.06398)."""
    return atp(instance, options)


def atp_static(instance: Instance, options: PlanOptions) -> Assignment:
    """ATP as GOAT's evaluation has it: the nearest switch holds the first sub-models that fit, and never frees them.

    The server gets all others from every worker. Far too few sums for the protocol, whose slots are used again.
    """
    nearest = _nearest_switch(instance)
    fits = np.cumsum(instance.sizes)[None, :] <= instance.memory_bytes[:, None]
    target = np.where(fits[nearest], nearest[:, None], PS)
    return _assignment(instance, target, None, "exclusive")


def switchml(instance: Instance, options: PlanOptions) -> Assignment:
    """SwitchML: each rack's switch sums, one switch above sums the racks (Sapio et al., NSDI 2021, §6).

    The protocol has no parameter server: the topmost switch sends results to the workers. Here the server gets that one
    sum, as who keeps the model.
    """
    nearest = _nearest_switch(instance)
    used = np.setdiff1d(nearest, [PS])
    if not len(used):
        return _assignment(instance, nearest, None)
    hops = instance.between[used].astype(np.int64).sum(axis=0) + instance.hops_to_server
    hops[PS] = UNREACHABLE * (len(used) + 1)
    top = int(hops.argmin()) if len(used) > 1 else int(used[0])
    upstream = np.full((len(instance.aggregators), len(instance.sub_models)), PS)
    upstream[np.setdiff1d(used, [top])] = top
    return _assignment(instance, nearest, upstream)


def geryon(instance: Instance, options: PlanOptions) -> Assignment:
    """Geryon as in GOAT's and InGo's evaluations: the shortest path to the server, no sums (Wang et al., INFOCOM 2020).

    Of equal paths the first is taken, where `ps` shares all evenly. Its priorities of urgent layers hide communication
    behind computation, and change no bytes.
    """
    paths = PathSets(instance.graph, count=1, detour_hops=0)
    hops = instance.graph.hops_to(instance.aggregators[:1])[0]
    routes = Routes([paths.between(int(worker), instance.server, hops)[0] for worker in instance.workers], {})
    target = np.full((len(instance.workers), len(instance.sub_models)), PS)
    return Assignment(instance, target, _solution(instance, target), allocation="shared", routes=routes)


def _first_on_the_way(instance: Instance) -> Ints:
    """(workers,) the nearest aggregator on a shortest path to the server; the server where there is none."""
    hops = instance.hops.astype(np.int64)
    on_the_way = hops + instance.hops_to_server[None, :] == hops[:, [PS]]
    return _nearest(hops, on_the_way)


def _nearest_switch(instance: Instance) -> Ints:
    """(workers,) the nearest aggregator apart from the server; the server where no other is reached."""
    return _nearest(instance.hops.astype(np.int64), instance.hops != UNREACHABLE)


def _nearest(hops: Ints, allowed: Bools) -> Ints:
    distance = np.where(allowed, hops, UNREACHABLE)
    distance[:, PS] = UNREACHABLE - 1
    return np.asarray(distance.argmin(axis=1), dtype=np.int64)


def _at_the_server(instance: Instance, aggregator: int) -> int:
    """The last aggregator on a shortest path to the server, if it is linked to it; otherwise the server."""
    between = instance.between.astype(np.int64)
    last = (between[aggregator] + between[:, PS] == between[aggregator, PS]) & (between[:, PS] == 1)
    last[[PS, aggregator]] = False
    return int(last.argmax()) if last.any() else PS


def _assignment(
    instance: Instance, target: Ints, upstream: Ints | None, allocation: Allocation = "shared"
) -> Assignment:
    columns = np.repeat(target[:, None], len(instance.sub_models), axis=1) if target.ndim == 1 else target
    return Assignment(instance, columns, _solution(instance, columns), upstream, allocation)


def _solution(instance: Instance, target: Ints) -> Solution:
    direct = float(((target == PS) @ instance.sizes).sum())
    return Solution(
        solver="none", status="heuristic", objective="bytes from workers to the parameter server", value=direct
    )
