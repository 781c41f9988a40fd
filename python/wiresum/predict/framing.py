"""What a stream of gradient takes on the wire."""

import math

from wiresum import wire
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan, PlanStream

EXPONENT_LANES_PER_RANK = 2
"""A rank's shape, before the lanes with one exponent for each packet of values."""
IP_BYTES = {4: wire.IPV4_LEN, 6: wire.IPV6_LEN}


def wire_bytes(plan: AggregationPlan, stream: PlanStream, gradient_bytes: int) -> int:
    """Bytes of a stream of an all-reduce on each link that it crosses, Ethernet, IP, UDP and Wiresum headers included.

    Counted as Linux does: 14 bytes of Ethernet, no preamble, check or gap.

    Args:
        plan: the job's lanes and packets.
        stream: one of its streams.
        gradient_bytes: bytes of float32 in the whole collective.
    """
    if stream.is_exchange:
        return 0
    if stream.role == "exponents":
        packets = _exponent_packets(plan, gradient_bytes)
        return packets * (header_bytes(plan) + plan.job.payload_bytes)
    payload = _lane_bytes(plan, stream, gradient_bytes)
    packets = math.ceil(payload / plan.job.payload_bytes)
    return packets * header_bytes(plan) + math.ceil(payload / wire.BLOCK_LEN) * wire.BLOCK_LEN


def _lane_bytes(plan: AggregationPlan, stream: PlanStream, gradient_bytes: int) -> int:
    values = math.ceil(gradient_bytes / LANE_BYTES * stream.share)
    return values * plan.job.value_bytes


def _exponent_packets(plan: AggregationPlan, gradient_bytes: int) -> int:
    values = [stream for stream in plan.streams if stream.role == "values"]
    described = sum(math.ceil(_lane_bytes(plan, one, gradient_bytes) / plan.job.payload_bytes) for one in values)
    lanes = EXPONENT_LANES_PER_RANK * len(plan.workers) + described
    return math.ceil(lanes * LANE_BYTES / plan.job.payload_bytes)


def header_bytes(plan: AggregationPlan) -> int:
    """Bytes of all headers of a packet."""
    version = plan.nodes[0].ip.version if plan.nodes else 4
    return wire.ETHERNET_LEN + IP_BYTES[version] + wire.UDP_LEN + wire.HEADER_LEN + plan.job.proof_bytes
