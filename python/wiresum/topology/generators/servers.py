"""Workers and aggregation servers with equal links around a switch that only forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError

if TYPE_CHECKING:
    from wiresum.topology.model import Link, Node, Topology

SERVER_RATE_BPS = 8e9
"""A round figure for one core and packets of 736 values; `wiresum bench aggregator` measures a machine's own."""


def servers(  # noqa: PLR0917 - named on the command line, one by one
    workers: int = 4,
    servers: int = 2,
    rate_bps: float | None = 200e6,
    server_rate_bps: float | None = None,
    colocated: bool = False,
    aggregation_rate_bps: float = SERVER_RATE_BPS,
) -> Topology:
    """`workers` hosts w0… and `servers` hosts s0…, each with one link to a switch that does not sum.

    Args:
        workers: hosts that train.
        servers: hosts that sum.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.
        server_rate_bps: bit/s of the servers' links; that of the workers' where absent.
        colocated: server i runs on the host of worker i. A host is then a switch h0… with its worker and server behind
            one link, which carries the traffic of both.
        aggregation_rate_bps: bit/s of gradient that a server can add.

    Raises:
        TopologyError: more hosts than addresses, or more co-located servers than workers.

    Example:
        >>> [node.name for node in servers(workers=2, servers=1).nodes]
        ['w0', 'w1', 's0', 'fabric']
    """
    from wiresum.topology.model import MAX_HOSTS, Node, Topology

    if workers < 1 or servers < 1 or workers + servers > MAX_HOSTS:
        raise TopologyError(f"there must be 1 to {MAX_HOSTS} hosts, not {workers} workers and {servers} servers")
    if colocated and servers > workers:
        raise TopologyError(f"{servers} servers cannot run on the hosts of {workers} workers; give as many or fewer")
    training = [Node(name=f"w{rank}", kind="worker") for rank in range(workers)]
    summing = [
        Node(name=f"s{index}", kind="aggregator", aggregation_rate_bps=aggregation_rate_bps) for index in range(servers)
    ]
    fabric = Node(name="fabric", kind="switch")
    if colocated:
        return _colocated(training, summing, fabric, rate_bps)
    links = [_link(host, fabric, rate_bps) for host in training]
    links += [_link(host, fabric, server_rate_bps or rate_bps) for host in summing]
    return Topology(name="servers", nodes=[*training, *summing, fabric], links=links).with_addresses()


def _colocated(training: list[Node], summing: list[Node], fabric: Node, rate_bps: float | None) -> Topology:
    from wiresum.topology.model import Node, Topology

    hosts = [Node(name=f"h{index}", kind="switch") for index in range(len(training))]
    inside = [
        _link(node, host, None) for nodes in (training, summing) for node, host in zip(nodes, hosts, strict=False)
    ]
    outside = [_link(host, fabric, rate_bps) for host in hosts]
    nodes = [*training, *summing, *hosts, fabric]
    return Topology(name="colocated", nodes=nodes, links=[*inside, *outside]).with_addresses()


def _link(host: Node, switch: Node, rate_bps: float | None) -> Link:
    from wiresum.topology.model import Link

    return Link(id=host.name, source=host.name, target=switch.name, bandwidth_bps=rate_bps)
