"""The test bed of XAgg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError

if TYPE_CHECKING:
    from wiresum.topology.model import Node, Topology

SLOW_BPS = 40e9
"""NICs of W1 to W3."""
FAST_BPS = 100e9
"""NICs of W4 to W7; the paper gives none for the servers, which are taken to have the same."""
SERVER_MEMORY_BYTES = 128 * 10**9
SERVER_CORES = 44

PARENTS = {"W1": "S1", "W2": "S1", "W3": "S1", "W4": "S2", "W5": "S2", "W6": "S2", "W7": "PS", "S1": "PS", "S2": "PS"}
"""Who sums whose gradients (Fig. 12)."""


def xagg(scale: float = 1 / 100) -> Topology:
    """Seven workers with unequal links, two aggregation servers and a parameter server, all at one switch.

    Source: XAgg (IEEE/ACM Transactions on Networking, 2023), §VI-C and Fig. 12. The switch only forwards.

    Args:
        scale: every rate of the paper is multiplied by this. Memory is not: gradients keep their size.

    Raises:
        TopologyError: a scale that is not above 0.

    Example:
        >>> [worker.sums_at for worker in xagg().workers]
        ['S1', 'S1', 'S1', 'S2', 'S2', 'S2', 'PS']
    """
    from wiresum.topology.model import Link, Node, Topology

    if not scale > 0:
        raise TopologyError(f"scale must be above 0, not {scale}; 0.01 is the paper's network at 1:100")
    workers = [Node(name=f"W{n}", kind="worker", sums_at=PARENTS[f"W{n}"]) for n in range(1, 8)]
    servers = [_server(name, scale) for name in ("S1", "S2", "PS")]
    fabric = Node(name="fabric", kind="switch")
    rates = {f"W{n}": SLOW_BPS for n in (1, 2, 3)}
    links = [
        Link(id=host.name, source=host.name, target=fabric.name, bandwidth_bps=rates.get(host.name, FAST_BPS) * scale)
        for host in (*workers, *servers)
    ]
    return Topology(name="xagg", nodes=[*workers, *servers, fabric], links=links).with_addresses()


def _server(name: str, scale: float) -> Node:
    from wiresum.topology.model import Node

    return Node(
        name=name,
        kind="ps" if name == "PS" else "aggregator",
        aggregation_rate_bps=FAST_BPS * scale,
        memory_bytes=SERVER_MEMORY_BYTES,
        cores=SERVER_CORES,
        sums_at=PARENTS.get(name),
    )
