"""From a topology to namespaces and interfaces: names and checks, nothing that touches the machine."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from wiresum.errors import TopologyError
from wiresum.topology.model import Link, Node, Topology

NAMESPACE_PREFIX = "ws-"
"""Namespaces whose name does not start like this are not ours."""
MAX_XDP_MTU_BYTES = 3500
"""A plain XDP program on veth needs packet, headroom and metadata in one page of 4096 bytes."""
WIDEST_PREFIX = {4: 8, 6: 32}
"""A network wider than this is a mistake in the addresses."""
HOST_PREFIX = {4: 24, 6: 64}
"""The network is at least this wide."""


@dataclass(frozen=True)
class Port:
    """One end of a link.

    Attributes:
        node: name of the node.
        namespace: its network namespace.
        interface: name of the interface there.
        index: number of the port at that node.
    """

    node: str
    namespace: str
    interface: str
    index: int


@dataclass(frozen=True)
class Wire:
    """A link as a veth pair.

    Attributes:
        link: the link of the topology.
        source: the port at `link.source`.
        target: the port at `link.target`.
        shaped_at: the end at which both directions are limited.
        relay: where both ends sum in XDP: two ports of a third namespace that the link leads through, at the source's
            side and at the target's. Each limits what leaves by it, and `shaped_at` is the first.
        is_fibre: it ends at an optical switch, which is where it is shaped, outwards only: what it brings in leaves by
            another fibre, whose rate counts.
    """

    link: Link
    source: Port
    target: Port
    shaped_at: Port
    relay: tuple[Port, Port] | None = None
    is_fibre: bool = False

    @property
    def outward_bps(self) -> float | None:
        """bit/s in the direction that leaves the shaped end."""
        return self.link.bandwidth_from(self.shaped_at.node)

    @property
    def inward_bps(self) -> float | None:
        """bit/s in the direction that reaches the shaped end; None where nothing limits it there."""
        if self.is_fibre:
            return None
        return self.link.bandwidth_from(self.link.other_end(self.shaped_at.node))


@dataclass(frozen=True)
class PointToPoint:
    """What an end of a link is told where links have addresses of their own.

    Attributes:
        address: its own, with the length of the network's prefix.
        mac: its own.
        peer: address of the other end.
        peer_mac: likewise.
    """

    address: str
    mac: str
    peer: str
    peer_mac: str


@dataclass(frozen=True)
class Layout:
    """What has to be made on this machine.

    Attributes:
        topology: with an address at every host and every summing switch.
        namespaces: network namespace of each node.
        wires: one for each link.
        mtu_bytes: of every interface.
        prefix_length: of every address.
        hub: where links have addresses of their own: the namespace in which nodes meet for everything else. Otherwise
            switches bridge their links.
        ends: then, the addresses of every port: one for each link that it may ever be an end of.
    """

    topology: Topology
    namespaces: dict[str, str]
    wires: list[Wire]
    mtu_bytes: int
    prefix_length: int
    hub: str = ""
    ends: Mapping[Port, Sequence[PointToPoint]] = field(default_factory=dict)

    def ports(self, node: str) -> list[Port]:
        """The node's ports, in the order of its links."""
        return [port for wire in self.wires for port in (wire.source, wire.target) if port.node == node]

    def wire(self, link: str) -> Wire:
        """The wire of a link of the topology."""
        return next(wire for wire in self.wires if wire.link.id == link)

    def far_end(self, port: Port) -> Port:
        """The port at the other end of the wire."""
        wire = next(wire for wire in self.wires if port in (wire.source, wire.target))
        if wire.relay:
            return wire.relay[port == wire.target]
        return wire.target if port == wire.source else wire.source


def lay_out(name: str, topology: Topology, mtu_bytes: int, xdp_nodes: Collection[str] = ()) -> Layout:
    """Decides names and where each link is shaped.

    `XDP_TX` and `XDP_REDIRECT` bypass the queueing discipline of the interface, and XDP sees packets before ingress
    filters do. So a link is shaped at the end whose packets cross the ordinary stack, the host's where both do.

    Args:
        name: of the testbed; part of every namespace's name.
        topology: what to build.
        mtu_bytes: of every interface.
        xdp_nodes: names of the nodes that sum in XDP.

    Raises:
        TopologyError: something that namespaces cannot be; the message says what to change.
    """
    topology = topology.with_addresses()
    _check(topology)
    check_mtu(mtu_bytes, xdp_nodes)
    namespaces = {node.name: f"{NAMESPACE_PREFIX}{name}-{node.name}" for node in topology.nodes}
    port_counts = dict.fromkeys(namespaces, 0)

    def new_port(node: Node) -> Port:
        index = port_counts[node.name]
        port_counts[node.name] += 1
        interface = f"p{index}" if node.kind == "switch" else "e0"
        return Port(node.name, namespaces[node.name], interface, index)

    wires = []
    for link in topology.links:
        source, target = new_port(topology.node(link.source)), new_port(topology.node(link.target))
        wires.append(Wire(link, source, target, _shaped_end(topology, link, source, target, xdp_nodes)))
    return Layout(topology, namespaces, wires, mtu_bytes, prefix_length(topology))


def check_mtu(mtu_bytes: int, xdp_nodes: Collection[str]) -> None:
    """Asserts that XDP can have packets of this length, where it is to run.

    Raises:
        TopologyError: it cannot.
    """
    if xdp_nodes and mtu_bytes > MAX_XDP_MTU_BYTES:
        raise TopologyError(
            f"an MTU of {mtu_bytes} bytes is too large for XDP on veth; use at most {MAX_XDP_MTU_BYTES}"
        )


def _shaped_end(topology: Topology, link: Link, source: Port, target: Port, xdp_nodes: Collection[str]) -> Port:
    ordinary = [port for port in (source, target) if port.node not in xdp_nodes]
    if not ordinary:
        raise TopologyError(
            f"link {link.id} joins {link.source} and {link.target}, which both sum in XDP, so nothing on it can be "
            "shaped; use the engine `udp`, or put a switch that only forwards between them"
        )
    hosts = [port for port in ordinary if topology.node(port.node).kind != "switch"]
    return (hosts or ordinary)[0]


def _check(topology: Topology) -> None:
    for node in topology.nodes:
        links = topology.links_of(node.name)
        if node.kind != "switch" and len(links) != 1:
            raise TopologyError(f"{node.kind} {node.name} has {len(links)} links; in a testbed every host has one")
    for link in topology.links:
        if link.delay_from(link.source) or link.delay_from(link.target):
            raise TopologyError(f"links.{link.id}.delay_s: a testbed cannot delay packets; set it to 0")
    if len(topology.links) >= len(topology.nodes):
        raise TopologyError(f"topology {topology.name} has a cycle, and a testbed's switches flood; remove a link")
    reached = {node.name for node in topology.by_distance(_centre(topology))}
    apart = [node.name for node in topology.nodes if node.name not in reached]
    if apart:
        raise TopologyError(f"{', '.join(apart)} cannot be reached from {_centre(topology)}; add links")


def _centre(topology: Topology) -> str:
    return next((node.name for node in topology.nodes if node.kind == "switch"), topology.nodes[0].name)


def prefix_length(topology: Topology) -> int:
    """The narrowest network that holds every address."""
    addresses = [ip_address(node.address) for node in topology.nodes if node.address]
    versions = {address.version for address in addresses}
    if len(versions) != 1:
        raise TopologyError(f"topology {topology.name} mixes IPv4 and IPv6 addresses; use one of them")
    version = versions.pop()
    for length in range(HOST_PREFIX[version], WIDEST_PREFIX[version] - 1, -1):
        network: IPv4Network | IPv6Network = ip_network((addresses[0], length), strict=False)
        if all(address in network for address in addresses):
            return length
    raise TopologyError(f"the addresses of topology {topology.name} are too far apart; take them from one network")
