"""Bytes of a plan's fabric on each link, headers counted: what a live run has to show."""

from __future__ import annotations

import math
from collections import Counter

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.fabric import FabricLink, FabricStream, FabricWay, PlanFabric, Site

CHECK_LANES_PER_RANK = 2
"""A rank's elements and signature, after one lane that all share."""
HEADERS_BYTES = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN + wire.SWITCH_HEADER_LEN

Direction = tuple[int, Site, Site]
"""A link by index, whence and where to."""


def link_bytes(plan: AggregationPlan, elements: int) -> dict[str, tuple[int, int]]:
    """What an all-reduce puts on each link, from its first end to the second and back, if nothing is lost.

    Counted as Linux does: 14 bytes of Ethernet, no preamble, check or gap.

    Args:
        plan: with a fabric.
        elements: in the collective.

    Raises:
        PlanError: the plan has no fabric.
    """
    fabric = fabric_of(plan)
    total: Counter[Direction] = Counter()
    for stream, (packets, payload) in zip(fabric.streams, _loads(plan, elements), strict=True):
        size = packets * HEADERS_BYTES + payload
        for direction, times in passes(fabric, stream).items():
            total[direction] += times * size
    sites = [[end.site for end in link.ends] for link in fabric.links]
    return {
        link.id: (total[index, one, other], total[index, other, one])
        for index, (link, (one, other)) in enumerate(zip(fabric.links, sites, strict=True))
    }


def fabric_of(plan: AggregationPlan) -> PlanFabric:
    """The plan's fabric.

    Raises:
        PlanError: it has none.
    """
    if plan.fabric is None:
        raise PlanError("servers sum in this plan, not switches; make one with `wiresum plan --switched`")
    return plan.fabric


def sending_rate_bps(plan: AggregationPlan, rates_bps: dict[str, tuple[float, float]], elements: int) -> float:
    """bit/s of gradient at which all workers can send and receive at once: what the busiest direction leaves them.

    Args:
        plan: with a fabric.
        rates_bps: of each link, from its first end to the second and back.
        elements: in the collective.
    """
    sent = link_bytes(plan, elements)
    seconds = max(
        8 * count / rate for link, counts in sent.items() for count, rate in zip(counts, rates_bps[link], strict=True)
    )
    return 8 * LANE_BYTES * elements / seconds


def passes(fabric: PlanFabric, stream: FabricStream) -> Counter[Direction]:
    """How often each fragment of a stream crosses each direction of each link.

    Workers' own packets count each, a sum counts once however many are in it, and a result once for all behind a link.
    """
    crossed: Counter[Direction] = Counter()
    sums: set[tuple[Site, Direction]] = set()
    down: set[Direction] = set()
    for way in stream.ways:
        legs = _legs(fabric, way)
        placed = {("node", place.node) for place in stream.places}
        origin: Site = ("worker", way.worker)
        for leg in legs:
            for direction in leg:
                sums.add((origin, direction))
                if way.legs[0].node is None and direction[2] in placed:
                    origin = direction[2]
            origin = leg[-1][2]
        down |= {(link, target, source) for link, source, target in _without_circles(legs)}
    crossed.update(direction for _, direction in sums)
    crossed.update(down)
    return crossed


def _legs(fabric: PlanFabric, way: FabricWay) -> list[list[Direction]]:
    at: Site = ("worker", way.worker)
    legs = []
    for leg in way.legs:
        hops: list[Direction] = []
        for index in leg.links:
            after = _other(fabric.links[index], at)
            hops.append((index, at, after))
            at = after
        legs.append(hops)
    return legs


def _other(link: FabricLink, at: Site) -> Site:
    one, other = (end.site for end in link.ends)
    return other if one == at else one


def _without_circles(legs: list[list[Direction]]) -> list[Direction]:
    """The way that results take, the other way round: back, without what leads in a circle."""
    kept: list[Direction] = []
    for hop in (hop for leg in legs for hop in leg):
        before = next((index for index, earlier in enumerate(kept) if earlier[1] == hop[2]), None)
        if before is None:
            kept.append(hop)
        else:
            del kept[before:]
    return kept


def _loads(plan: AggregationPlan, elements: int) -> list[tuple[int, int]]:
    """Packets and payload bytes of one collective, by stream: what `Layout::split` in crates/protocol gives each."""
    per_packet = plan.job.values_per_packet
    fragments = math.ceil(elements / per_packet)
    values = [sub_model for sub_model in plan.sub_models if sub_model.role == "values"]
    parts: dict[int, range] = {}
    start, total = 0, 0.0
    for index, sub_model in enumerate(values):
        total += sub_model.share
        # Half away from zero, as Rust rounds.
        end = fragments if index == len(values) - 1 else min(max(math.floor(total * fragments + 0.5), start), fragments)
        parts[sub_model.id] = range(start, end)
        start = end
    return [
        (1, _padded(1 + CHECK_LANES_PER_RANK * len(plan.workers)))
        if sub_model.role == "exponents"
        else (len(parts[sub_model.id]), _payload(parts[sub_model.id], per_packet, elements))
        for sub_model in plan.sub_models
    ]


def _payload(part: range, per_packet: int, elements: int) -> int:
    return sum(_padded(min(per_packet, elements - fragment * per_packet)) for fragment in part)


def _padded(lanes: int) -> int:
    return math.ceil(lanes * LANE_BYTES / wire.BLOCK_LEN) * wire.BLOCK_LEN
