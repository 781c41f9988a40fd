"""Bytes of a plan's fabric on each link, headers counted: what a live run has to show."""

from __future__ import annotations

import math
from collections import Counter

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.fabric import PlanFabric
from wiresum.plan.members import Child

CHECK_LANES_PER_RANK = 2
"""A rank's elements and signature, after one lane that all share."""
HEADERS_BYTES = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN + wire.SWITCH_HEADER_LEN


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
    total: Counter[tuple[int, Child]] = Counter()
    for stream, (packets, payload) in zip(plan.derived().streams, _loads(plan, elements), strict=True):
        for crossing in stream.crossings:
            total[crossing.link, crossing.to] += crossing.times * (packets * HEADERS_BYTES + payload)
    return {
        link.id: (total[index, link.ends[1].at], total[index, link.ends[0].at])
        for index, link in enumerate(fabric.links)
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


def _loads(plan: AggregationPlan, elements: int) -> list[tuple[int, int]]:
    """Packets and payload bytes of one collective, by stream: what `Layout::split` in crates/protocol gives each."""
    per_packet = plan.job.packet_values
    fragments = math.ceil(elements / per_packet)
    values = [stream for stream in plan.streams if stream.role == "values"]
    parts: dict[int, range] = {}
    start, total = 0, 0.0
    for index, stream in enumerate(values):
        total += stream.share
        # Half away from zero, as Rust rounds.
        end = fragments if index == len(values) - 1 else min(max(math.floor(total * fragments + 0.5), start), fragments)
        parts[stream.id] = range(start, end)
        start = end
    seal = wire.SEAL_LEN if plan.job.sealed else 0
    return [
        (1, _padded(1 + CHECK_LANES_PER_RANK * len(plan.workers)) + seal)
        if stream.role == "exponents"
        else (len(parts[stream.id]), _payload(parts[stream.id], per_packet, elements) + seal * len(parts[stream.id]))
        for stream in plan.streams
    ]


def _payload(part: range, per_packet: int, elements: int) -> int:
    return sum(_padded(min(per_packet, elements - fragment * per_packet)) for fragment in part)


def _padded(lanes: int) -> int:
    return math.ceil(lanes * LANE_BYTES / wire.BLOCK_LEN) * wire.BLOCK_LEN
