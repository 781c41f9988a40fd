"""Workers around one switch that sums, with servers beside them or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

SWITCH_RATE_BPS = 8e9
"""A round figure for one core and packets of 736 values; `wiresum bench aggregator` measures a machine's own."""


def star(
    workers: int = 4,
    rate_bps: float | None = 500e6,
    aggregation_rate_bps: float = SWITCH_RATE_BPS,
    servers: int = 0,
) -> Topology:
    """`workers` hosts w0…, each with one link to a switch that sums.

    Args:
        workers: number of hosts that train.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.
        aggregation_rate_bps: bit/s of gradient that the switch can add, and each server.
        servers: number of hosts s0… that keep tables, each with such a link.

    Raises:
        TopologyError: no workers, or more hosts than addresses.

    Example:
        >>> [node.name for node in star(workers=2).nodes]
        ['w0', 'w1', 'switch']
    """
    from wiresum.topology.model import MAX_HOSTS, Link, Node, Topology

    if workers < 1 or servers < 0 or workers + servers > MAX_HOSTS:
        raise TopologyError(f"a star has 1 to {MAX_HOSTS} hosts, not {workers} workers and {servers} servers")
    hosts = [Node(name=f"w{rank}", kind="worker") for rank in range(workers)]
    hosts += [Node(name=f"s{index}", kind="ps", aggregation_rate_bps=aggregation_rate_bps) for index in range(servers)]
    switch = Node(name="switch", kind="switch", aggregation_rate_bps=aggregation_rate_bps)
    links = [Link(id=host.name, source=host.name, target=switch.name, bandwidth_bps=rate_bps) for host in hosts]
    return Topology(name="star", nodes=[*hosts, switch], links=links).with_addresses()
