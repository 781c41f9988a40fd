"""What is exchanged in an adjusted plan: servers that stay carry what those carried that do not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream
from wiresum.plan.exchanges import shares_of
from wiresum.plan.members import WorkerChild
from wiresum.plan.stream import PlanLeg
from wiresum.plan.trees import without_lost_ways
from wiresum.planners.xagg.selection import why_not
from wiresum.topology.model import Topology
from wiresum.topology.paths import RoutedTopology

Set = tuple[PlanStream, ...]
"""Parts, copies, and the barriers of each, about one server."""


def dense(plan: AggregationPlan) -> AggregationPlan:
    """The plan without what is exchanged."""
    return plan.model_copy(update={"streams": [stream for stream in plan.streams if not stream.is_exchange]})


def exchanging(
    before: AggregationPlan, after: AggregationPlan, topology: Topology
) -> tuple[AggregationPlan, list[str]]:
    """The adjusted plan with the exchanges of the one before, and who takes part in them no more.

    A server stays if the adjusted plan has it, it has room, and every worker reaches it. Those that stay share in
    proportion what the others carried; if none does, the root of the first values carries all.

    Args:
        before: the plan so far.
        after: adjusted, without what is exchanged.
        topology: now, with addresses.

    Raises:
        PlanError: the answer breaks a rule of plans.
    """
    sets = list(_sets(before))
    if not sets:
        return after, []
    kept = [one for one in sets if _stays(one, before, after, topology)]
    left = [before.node(one[0].root).name for one in sets if one not in kept]
    shared = kept if not left else _shared(kept) if kept else [_about_root(sets[0], after)]
    return _with(after, shared, topology), [f"{name} exchanges nothing any more" for name in dict.fromkeys(left)]


def _sets(plan: AggregationPlan) -> Iterator[Set]:
    parts, copies, barriers = (
        [stream for stream in plan.streams if stream.role == role] for role in ("parts", "copies", "acknowledgements")
    )
    yield from zip(parts, copies, barriers[: len(parts)], barriers[len(parts) :], strict=True)


def _stays(one: Set, before: AggregationPlan, after: AggregationPlan, topology: Topology) -> bool:
    network, there = RoutedTopology(topology), {node.id: node for node in after.nodes}
    roots = {stream.root for stream in one}
    if not roots <= there.keys():
        return False
    workers = [worker.name for worker in after.workers]
    return all(
        all(network.reaches(worker, there[root].name) for worker in workers)
        and why_not(network, topology.node(there[root].name), _needed(before, root), []) is None
        for root in roots
    )


def _needed(plan: AggregationPlan, node: int) -> int:
    """Memory for all that a node has slots for."""
    placed = [stream for stream in plan.streams if stream.place(node)]
    return sum(stream.slot_bytes(plan.job.payload_bytes) for stream in placed)


def _shared(kept: Sequence[Set]) -> list[Set]:
    """Sets with shares that add up to 1, and windows that follow them."""
    parts, copies = ([one[index] for one in kept] for index in (0, 1))
    whole = [sum(shares_of(streams)) for streams in (parts, copies)]
    return [
        (
            *(_with_share(stream, stream.share / all_of_role) for stream, all_of_role in zip(one, whole, strict=False)),
            *one[2:],
        )
        for one in kept
    ]


def _with_share(stream: PlanStream, share: float) -> PlanStream:
    window = math.ceil(stream.window * share / stream.share) if stream.share else stream.window
    return stream.model_copy(update={"share": share, "window": min(window, stream.slots)})


def _about_root(one: Set, plan: AggregationPlan) -> Set:
    root = next(stream.root for stream in plan.streams if stream.role == "values")
    legs = [PlanLeg(child=WorkerChild(worker=worker.rank), parent=root) for worker in plan.workers]
    alone = [*(_with_share(stream, 1.0) for stream in one[:2]), *one[2:]]
    return tuple(
        stream.model_copy(
            update={"legs": legs, "places": [place.model_copy(update={"node": root}) for place in stream.places]}
        )
        for stream in alone
    )


def _with(plan: AggregationPlan, sets: Sequence[Set], topology: Topology) -> AggregationPlan:
    """The plan with these streams, each role's together, as plans have them."""
    streams = [*plan.streams, *chain.from_iterable(zip(*sets, strict=True))]
    with_ways, _ = without_lost_ways(plan.model_copy(update={"streams": streams}), topology)
    return AggregationPlan.build(**dict(with_ways))
