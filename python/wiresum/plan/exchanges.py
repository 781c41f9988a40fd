"""Streams of what not all workers give or take: sums for one rank each, copies, and the barriers of both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from wiresum.errors import PlanError
from wiresum.plan.members import WorkerChild
from wiresum.plan.stream import PlanLeg, PlanPlace, PlanStream, Role
from wiresum.wire import MAX_CONTRIBUTORS

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.job import Job

MIN_EXCHANGE_SLOTS = 32
"""Half of the positions that a barrier is about."""
MIN_BARRIER_SLOTS = 8
POSITIONS_PER_BARRIER_SLOT = 16
"""Where parts and copies have S slots, 2S positions have begun at most, which are S / 32 barriers; twice as many slots
never wait."""
CARRYING: tuple[Role, ...] = ("parts", "copies")
BARRIERS: Role = "acknowledgements"


def exchange_streams(job: Job, dense: Sequence[PlanStream], shares: Mapping[int, float]) -> list[PlanStream]:
    """Streams of parts and of copies, and of their barriers: stars about each of some nodes.

    What is exchanged goes straight to these nodes, also where sums go up a tree: `spec/givers.md`.

    Args:
        job: what is placed.
        dense: the plan's other streams, those of exponents and of values.
        shares: of what is exchanged, by the id of the node that carries it; they add up to 1.

    Raises:
        PlanError: a node has no seats for so many workers.
    """
    ids = iter(range(len(dense), len(dense) + 2 * len(CARRYING) * len(shares)))
    carrying = [
        _carrier(job, next(ids), role, _star(dense[1], node), share)
        for role in CARRYING
        for node, share in shares.items()
    ]
    return [*carrying, *(_barriers(next(ids), stream) for stream in carrying)]


def servers_of(plan: AggregationPlan) -> dict[str, float]:
    """Names of the nodes that exchange, each with its share; empty where the plan has no copies."""
    copies = [stream for stream in plan.streams if stream.role == "copies"]
    shares: dict[str, float] = {}
    for stream, share in zip(copies, shares_of(copies), strict=True):
        name = plan.node(stream.root).name
        shares[name] = shares.get(name, 0.0) + share
    return shares


def carriers(plan: AggregationPlan, role: Role) -> Iterator[tuple[PlanStream, float]]:
    """The streams that carry parts, or copies, and the share of each."""
    streams = [stream for stream in plan.streams if stream.role == role]
    yield from zip(streams, shares_of(streams), strict=True)


def shares_of(streams: Sequence[PlanStream]) -> list[float]:
    """Shares of all streams of a role; a single one has all, whatever it says."""
    return [1.0] if len(streams) == 1 else [stream.share for stream in streams]


def _star(values: PlanStream, node: int) -> tuple[PlanPlace, list[PlanLeg]]:
    """A node's place, and legs of all workers to it; those that the values have keep the links that the plan names."""
    by_rank = {leg.child.worker: leg for leg in values.legs if isinstance(leg.child, WorkerChild)}
    workers = [by_rank[rank] for rank in sorted(by_rank)]
    if len(workers) > MAX_CONTRIBUTORS:
        problem = f"each server that copies has a seat for every worker, {MAX_CONTRIBUTORS} at most"
        raise PlanError(f"job.copies: {problem}, and there are {len(workers)}; leave it out, or take fewer workers")
    legs = [leg if leg.parent == node else PlanLeg(child=leg.child, parent=node) for leg in workers]
    return PlanPlace(node=node), legs


def _carrier(job: Job, number: int, role: Role, star: tuple[PlanPlace, list[PlanLeg]], share: float) -> PlanStream:
    """All streams of a role together have about the job's window on its way."""
    window = max(min(MIN_EXCHANGE_SLOTS, job.window), math.ceil(share * job.window))
    slots = max(MIN_EXCHANGE_SLOTS, job.slots or 1 << (2 * window - 1).bit_length())
    place, legs = star
    return PlanStream(
        id=number, name=role if share == 1 else f"{role}{number}", role=role, share=share, policy="cache",
        window=min(window, slots), places=[place.model_copy(update={"slots": slots})], legs=legs,
    )  # fmt: skip


def _barriers(number: int, stream: PlanStream) -> PlanStream:
    slots = max(MIN_BARRIER_SLOTS, stream.slots // POSITIONS_PER_BARRIER_SLOT)
    return stream.model_copy(
        update={
            "id": number,
            "name": f"{BARRIERS}{number}",
            "role": BARRIERS,
            "share": 0.0,
            "policy": "pool",
            "window": slots // 2,
            "places": [place.model_copy(update={"slots": slots}) for place in stream.places],
        }
    )
