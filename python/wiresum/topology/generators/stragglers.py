"""The example with which XAgg explains what unequal workers cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

PARENTS = {"W1": "S1", "W2": "S1", "W3": "S1", "W4": "PS", "S1": "PS"}
"""Who sums whose gradients (Fig. 1 (c))."""


def stragglers(rate_bps: float = 100e6, slow_rate_bps: float = 50e6, *, both_ways: bool = False) -> Topology:
    """Four workers, of which W2 has a slow link, an aggregation server S1 and a parameter server, at one switch.

    Source: XAgg, §II-A and Fig. 1, where rates are 100 times those of the defaults. W3 is late, which is the job's
    affair, not the network's. The paper counts the way up only: a worker's link limits what it sends, a server's what
    it receives, and results return unhindered.

    Args:
        rate_bps: bit/s of every link but that of W2.
        slow_rate_bps: bit/s of the link of W2.
        both_ways: limit both directions of every link.

    Raises:
        TopologyError: a rate that is not above 0.

    Example:
        >>> stragglers().link("W2").bandwidth_from("W2")
        50000000.0
    """
    from wiresum.topology.model import Link, Node, Topology

    if not (rate_bps > 0 and slow_rate_bps > 0):
        raise TopologyError(f"rates must be above 0 bit/s, not {rate_bps} and {slow_rate_bps}")
    fabric = Node(name="fabric", kind="switch")
    workers = [Node(name=f"W{n}", kind="worker", sums_at=PARENTS[f"W{n}"]) for n in range(1, 5)]
    servers = [
        Node(name="S1", kind="aggregator", aggregation_rate_bps=100 * rate_bps, sums_at="PS"),
        Node(name="PS", kind="ps", aggregation_rate_bps=100 * rate_bps),
    ]
    links = []
    for host in (*workers, *servers):
        rate = slow_rate_bps if host.name == "W2" else rate_bps
        if both_ways:
            links.append(Link(id=host.name, source=host.name, target=fabric.name, bandwidth_bps=rate))
        elif host.kind == "worker":
            links.append(Link(id=host.name, source=fabric.name, target=host.name, reverse_bandwidth_bps=rate))
        else:
            links.append(Link(id=host.name, source=host.name, target=fabric.name, reverse_bandwidth_bps=rate))
    return Topology(name="stragglers", nodes=[*workers, *servers, fabric], links=links).with_addresses()
