"""What every assignment must keep."""

from __future__ import annotations

import numpy as np

from wiresum.errors import PlanError
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.instance import PS
from wiresum.plan.assignment.routes import is_path
from wiresum.topology.graph import UNREACHABLE, Floats


def validate(assignment: Assignment) -> Assignment:
    """Returns a good assignment.

    Raises:
        PlanError: it has another shape than its instance, an aggregator is unreachable or out of memory, sums go in a
            circle, or a route is none.
    """
    _check_shape(assignment)
    _check_reach(assignment)
    _check_upstream(assignment)
    _check_routes(assignment)
    if assignment.allocation == "exclusive":
        require_memory(assignment)
    return assignment


def excess_memory(assignment: Assignment) -> Floats:
    """(aggregators,) bytes beyond each memory; 0 where it suffices."""
    return np.maximum(0.0, assignment.memory_bytes - assignment.instance.memory_bytes)


def _check_shape(assignment: Assignment) -> None:
    instance = assignment.instance
    count = len(instance.aggregators)
    wanted = (len(instance.workers), len(instance.sub_models))
    _require(assignment.target.shape == wanted, f"`target` has the shape {assignment.target.shape}, not {wanted}")
    known = (assignment.target >= 0) & (assignment.target < count)
    _require(bool(known.all()), f"`target` names an aggregator beyond the {count} that there are")
    if assignment.upstream is not None:
        wanted = (count, len(instance.sub_models))
        _require(assignment.upstream.shape == wanted, f"`upstream` has the shape {assignment.upstream.shape}")
        known = (assignment.upstream >= 0) & (assignment.upstream < count)
        _require(bool((assignment.upstream[PS] == PS).all()), "the parameter server is to send its sum elsewhere")
        _require(bool(known.all()), f"`upstream` names an aggregator beyond the {count} that there are")


def _check_reach(assignment: Assignment) -> None:
    instance = assignment.instance
    hops = np.take_along_axis(instance.hops, assignment.target, axis=1)
    lost = np.argwhere(hops == UNREACHABLE)
    if len(lost):
        worker, sub_model = lost[0]
        name, target = instance.graph.names[instance.workers[worker]], assignment.target[worker, sub_model]
        _require(False, f"{name} does not reach {instance.name(int(target))}, which is to sum its sub-models")


def _check_upstream(assignment: Assignment) -> None:
    """Following every chain for as many steps as there are aggregators ends at the parameter server."""
    if assignment.upstream is None:
        return
    used, upstream = assignment.summed_at, assignment.upstream
    place = np.tile(np.arange(len(used))[:, None], (1, used.shape[1]))
    for _ in range(len(used)):
        place = np.take_along_axis(upstream, place, axis=0)
    circling = np.argwhere(used & (place != PS))
    if len(circling):
        aggregator, sub_model = circling[0]
        name = assignment.instance.sub_models[sub_model].name
        _require(False, f"the sum of {name} at {assignment.instance.name(int(aggregator))} never reaches the server")


def _check_routes(assignment: Assignment) -> None:
    routes, instance = assignment.routes, assignment.instance
    if routes is None:
        return
    same = bool((assignment.target == assignment.target[:, :1]).all()) and assignment.upstream is None
    _require(same, "with routes, all sub-models of a worker go to one aggregator, and its sum to the server")
    _require(len(routes.of_workers) == len(instance.workers), "`routes` has not one path for each worker")
    targets = instance.aggregators[assignment.target[:, 0]]
    used = np.flatnonzero(assignment.summed_at[:, 0])
    _require(set(used) - {PS} == routes.of_aggregators.keys(), "`routes` has not one path for each sum")
    ends = [*zip(routes.of_workers, instance.workers, targets, strict=True)]
    ends += [(path, instance.aggregators[one], instance.server) for one, path in routes.of_aggregators.items()]
    for path, source, target in ends:
        names = f"{instance.graph.names[int(source)]} to {instance.graph.names[int(target)]}"
        _require(is_path(instance.graph, path, int(source), int(target)), f"the route from {names} is no path")


def require_memory(assignment: Assignment) -> None:
    """Every aggregator holds its sub-models whole.

    Raises:
        PlanError: one does not.
    """
    excess = excess_memory(assignment)
    worst = int(excess.argmax())
    if excess[worst] > 0:
        held, room = assignment.memory_bytes[worst], assignment.instance.memory_bytes[worst]
        name = assignment.instance.name(worst)
        _require(False, f"{name} is to hold {held:.0f} bytes of sub-models and has {room:.0f}; move some elsewhere")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise PlanError(f"the assignment cannot be carried out: {problem}")
