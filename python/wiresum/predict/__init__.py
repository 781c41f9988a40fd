"""How long an all-reduce takes, by its flows: max-min fair sharing of links, with sums in the network.

A fluid: no packets, no delay, no loss. It is what planners compare trees by, and a bound for what runners measure.

Example:
    >>> from wiresum.plan.job import Job
    >>> from wiresum.planners import plan
    >>> from wiresum.topology.generators.star import star
    >>> from wiresum.predict import predict
    >>> round(predict(star(4), plan(star(4), Job()), 25_000_000).seconds, 3)
    0.411
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream
from wiresum.plan.choices import Policy
from wiresum.plan.placement import Parents, parents_of
from wiresum.plan.ways import Edge, NamedWays, links_of
from wiresum.predict.fluid import simulate
from wiresum.predict.framing import wire_bytes
from wiresum.predict.prediction import FlowRates, LinkLoad, Prediction
from wiresum.predict.ring import predict_ring
from wiresum.predict.schedule import Schedule
from wiresum.topology.model import Topology
from wiresum.topology.paths import RoutedTopology, Routes

__all__ = [
    "FlowRates",
    "LinkLoad",
    "PredictedStream",
    "Prediction",
    "RoutedTopology",
    "bound",
    "bound_tree",
    "flows_of",
    "predict",
    "predict_ring",
    "predict_tree",
    "predict_trees",
    "streams",
]


class PredictedStream(NamedTuple):
    """Flows of a plan that take the same tree.

    Attributes:
        name: of its sub-models.
        parents: the tree.
        lockstep: whether its edges move in step.
        wire_bytes: on each edge, in each direction.
        links: of edges that have a way, the ids of its links.
    """

    name: str
    parents: Parents
    lockstep: bool
    wire_bytes: float
    links: Mapping[Edge, Sequence[str]]


def predict(
    topology: Topology,
    plan: AggregationPlan,
    bytes: int,
    starts: Mapping[str, float] | None = None,
    upload_only: bool = False,
    *,
    barrier: bool | None = None,
) -> Prediction:
    """Predicts one all-reduce of a plan.

    Streams that take the same tree over the same ways move as one. Where a plan names no way, it is the network's own
    (`plan.hashing`). Under `cache` a node sends on at the rate of the slowest of its
    children that are not ahead of it: it holds what the others sent. Under `pool` all edges of a stream have the rate
    of the slowest and begin with the latest worker.

    Args:
        topology: where the plan's nodes and workers are, by name.
        plan: who sums what.
        bytes: float32 bytes of the gradient; headers are added.
        starts: seconds at which workers have their gradients, by name; 0 for those that are not named.
        upload_only: until the root holds the sum, as XAgg counts (§II); otherwise until every worker has it.
        barrier: whether values wait for the last worker's start, as where exponents are agreed first, or everyone sends
            as soon as he can, as in XAgg; None: as the plan's codec and `exponents` have it.

    Raises:
        PlanError: a start of a worker that the plan does not have, two nodes without a path, or one that cannot add.
        TopologyError: the plan names a node that the topology does not have.
    """
    starts = starts or {}
    _check_starts(starts, [worker.name for worker in plan.workers])
    if barrier or (barrier is None and plan.job.waits_for_all):
        starts = {worker.name: max(starts.values(), default=0.0) for worker in plan.workers}
    return _run(flows_of(topology, plan, bytes, starts, upload_only))


def flows_of(
    topology: Topology,
    plan: AggregationPlan,
    bytes: int,
    starts: Mapping[str, float] | None = None,
    upload_only: bool = False,
) -> Schedule:
    """The flows of one all-reduce of a plan, with the capacities that they share; arguments as for `predict`."""
    schedule = Schedule(RoutedTopology(topology), upload_only)
    total = sum(wire_bytes(plan, stream, bytes) for stream in plan.streams)
    ways = NamedWays(topology)
    for one in streams(plan, bytes):
        schedule.add_tree(
            one.parents, one.wire_bytes, starts=starts or {}, stream=one.name, lockstep=one.lockstep,
            adding_factor=total / bytes, routes=ways.routes(one.links),
        )  # fmt: skip
    return schedule


def predict_tree(
    topology: Topology,
    parents: Parents,
    bytes: float,
    *,
    starts: Mapping[str, float] | None = None,
    upload_only: bool = False,
    policy: Policy = "cache",
) -> Prediction:
    """Predicts a tree that is not a plan yet, without headers: `bytes` is what is on the wire, as in the papers.

    A parameter server without sums in the network is a tree with one node. Arguments and errors as for `predict`.

    Example:
        >>> from wiresum.topology.generators.star import star
        >>> tree = {"w0": "switch", "w1": "switch", "switch": None}
        >>> predict_tree(star(2), tree, 62.5e6).seconds
        1.0
    """
    return predict_trees(topology, [(parents, bytes)], starts=starts, upload_only=upload_only, policy=policy)


def predict_trees(
    topology: Topology,
    trees: Sequence[tuple[Parents, float]],
    *,
    starts: Mapping[str, float] | None = None,
    upload_only: bool = False,
    policy: Policy = "cache",
    routes: Routes | None = None,
) -> Prediction:
    """Predicts trees that are summed at the same time, each with its bytes, over `routes` where there are some.

    Otherwise as `predict_tree`.
    """
    starts = starts or {}
    network = RoutedTopology(topology, routes)
    schedule = Schedule(network, upload_only)
    for number, (parents, bytes) in enumerate(trees):
        _check_starts(starts, [name for name in parents if name not in parents.values()])
        schedule.add_tree(parents, bytes, starts=starts, stream=f"values{number}", lockstep=policy == "pool")
    return _run(schedule)


def bound(topology: Topology, plan: AggregationPlan, bytes: int) -> float:
    """Seconds that the busiest link of a plan needs on its own: never more than `predict` says, and quicker."""
    return flows_of(topology, plan, bytes).bound_seconds()


def bound_tree(topology: Topology, parents: Parents, bytes: float) -> float:
    """Seconds that the busiest link of a tree needs on its own: never more than `predict_tree` says, and quicker."""
    schedule = Schedule(RoutedTopology(topology))
    schedule.add_tree(parents, bytes, starts={})
    return schedule.bound_seconds()


def streams(plan: AggregationPlan, gradient_bytes: int) -> list[PredictedStream]:
    """The flows of an all-reduce: streams with the same legs as one."""
    groups: dict[str, list[PlanStream]] = {}
    for stream in (one for one in plan.streams if not one.is_exchange):
        groups.setdefault(str(stream.legs), []).append(stream)
    return [_stream(plan, members, gradient_bytes) for members in groups.values()]


def _stream(plan: AggregationPlan, members: Sequence[PlanStream], gradient_bytes: int) -> PredictedStream:
    return PredictedStream(
        name="+".join(member.name for member in members),
        parents=parents_of(plan, members[0]),
        lockstep=all(member.policy != "cache" for member in members),
        wire_bytes=sum(wire_bytes(plan, member, gradient_bytes) for member in members),
        links=links_of(plan, members[0]),
    )


def _check_starts(starts: Mapping[str, float], workers: list[str]) -> None:
    for name, seconds in starts.items():
        if name not in workers:
            raise PlanError(f"starts: there is no worker {name}; the plan has {', '.join(workers)}")
        if not 0 <= seconds < float("inf"):
            raise PlanError(f"starts: {name} starts at {seconds} s; give 0 or more")


def _run(schedule: Schedule) -> Prediction:
    spans = simulate(schedule.flows, schedule.capacities)
    return Prediction.of(schedule.flows, spans, schedule.capacities)
