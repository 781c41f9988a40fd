"""The wire limit: how long the busiest link needs for what must cross it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wiresum import wire

ETHERNET_HEADER_BYTES = 14
"""Destination, source, type: what Linux counts; veth has neither frame check sequence nor preamble."""
IPV4_UDP_BYTES = 28


@dataclass(frozen=True)
class StarTraffic:
    """What an all-reduce puts on each worker's link, in each direction, when it is summed at the centre."""

    elements: int
    workers: int
    payload_bytes: int
    """Payload of a full packet."""
    lane_bytes: int

    @property
    def value_fragments(self) -> int:
        """Packets that carry the values."""
        return math.ceil(self.elements * self.lane_bytes / self.payload_bytes)

    @property
    def preamble_fragments(self) -> int:
        """Packets that carry shapes, votes and exponents: three lanes per rank and one per value fragment."""
        return math.ceil((3 * self.workers + self.value_fragments) * 4 / self.payload_bytes)

    @property
    def bytes(self) -> int:
        """Everything, Ethernet, IP, UDP and Wiresum headers included."""
        header = ETHERNET_HEADER_BYTES + IPV4_UDP_BYTES + wire.HEADER_LEN
        tail = self.elements * self.lane_bytes % self.payload_bytes
        padded = math.ceil(tail / wire.BLOCK_LEN) * wire.BLOCK_LEN if tail else self.payload_bytes
        values = (self.value_fragments - 1) * self.payload_bytes + padded
        return (
            values
            + self.preamble_fragments * self.payload_bytes
            + header * (self.value_fragments + self.preamble_fragments)
        )

    def seconds(self, rate_bps: float) -> float:
        """Time on a link of this rate; both directions are used at once."""
        return self.bytes * 8 / rate_bps
