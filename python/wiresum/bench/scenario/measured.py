"""What a live run of a scenario has shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wiresum.testbed.traffic import LinkTraffic
from wiresum.topology.model import Topology

Direction = tuple[str, str, str]
"""Link, source and target."""


@dataclass(frozen=True)
class Measured:
    """What a live run has shown.

    Attributes:
        seconds: of each round, from its first worker's gradients to its last worker's sums.
        wire_bytes: over each direction of each link, headers included.
        notes: what it leaves out.
    """

    seconds: Sequence[float]
    wire_bytes: Mapping[Direction, float]
    notes: Sequence[str]


def directions(topology: Topology, traffic: Mapping[str, LinkTraffic]) -> dict[Direction, float]:
    """Bytes over each direction of each link."""
    links: dict[Direction, float] = {}
    for link in topology.links:
        seen = traffic[link.id]
        links[link.id, link.source, link.target] = seen.forward.bytes
        links[link.id, link.target, link.source] = seen.backward.bytes
    return links
