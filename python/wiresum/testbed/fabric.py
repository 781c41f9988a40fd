"""Namespaces for a plan whose switches sum: links with addresses of their own, hop by hop.

Nothing is bridged or routed: every datagram goes from one end of a link to the other, and the processes at the switches
decide what goes on. So there may be circles, parallel links, and hosts with several. What is not gradient (the process
group's store, Gloo) has a network of its own, which is not shaped and not counted.

XDP sends past the queues that limit a link, and takes packets before those that would count them. So a link between two
switches in the kernel leads through the hub, whose two ports for it limit and count what it carries.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, ip_address
from typing import Self

from wiresum.errors import TestbedError, TopologyError
from wiresum.plan.aggregation_plan import AggregationPlan, parse_socket_address
from wiresum.plan.choices import DEFAULT_LOSS_SEED
from wiresum.plan.fabric import FabricEnd, FabricLink, PlanFabric
from wiresum.testbed import namespaces, optical, xdp_pass
from wiresum.testbed.layout import NAMESPACE_PREFIX, Layout, PointToPoint, Port, Wire, check_mtu, prefix_length
from wiresum.testbed.networks import LaidOutNetwork, require_xdp_ports, xdp_nodes
from wiresum.topology.circuits import fibres
from wiresum.topology.model import Link, Topology
from wiresum.topology.optical import Circuit

HUB = "hub"
"""Name of the node, in no topology, at which the network for everything else meets."""
LATER_NETWORK = IPv4Address("10.97.0.0")
"""Addresses of circuits of plans that come later, beside those of plans' own links (10.98.0.0/16)."""
LINK_PREFIX = 31
"""Length of the prefix of a link with two ends (RFC 3021)."""

OTHER_LINKS = "the plan's links are not those of this testbed; take it down, and make it with this plan"


class SwitchedNetwork(LaidOutNetwork):
    """Namespaces, veth pairs and shapers for fabrics: of one plan, of plans that take its place, or of many jobs."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        fabrics: Sequence[PlanFabric],
        mtu_bytes: int,
        in_kernel: Collection[str] = (),
        *,
        loss_seed: int = DEFAULT_LOSS_SEED,
    ) -> None:
        self._fabric, *later = fabrics
        self._xdp_nodes = set(in_kernel)
        self._lit = optical.lit_in(topology, self._fabric)
        self._addresses = addresses_of(fabrics)
        fabrics = [_addressed(one, self._addresses) for one in later]
        layout = lay_out(name, topology, self._fabric, mtu_bytes, self._xdp_nodes, later=fabrics)
        super().__init__(layout, {**layout.namespaces, HUB: layout.hub}, loss_seed)

    @classmethod
    def of_plans(
        cls,
        name: str,
        topology: Topology,
        plans: Sequence[AggregationPlan],
        mtu_bytes: int,
        *,
        loss_seed: int = DEFAULT_LOSS_SEED,
    ) -> Self:
        """For a plan, and others that may take its place.

        Raises:
            TestbedError: servers sum in one.
            TopologyError: one is for other links, or something that namespaces cannot be.
        """
        in_kernel = set().union(*map(xdp_nodes, plans))
        return cls(name, topology, list(map(_fabric_of, plans)), mtu_bytes, in_kernel, loss_seed=loss_seed)

    def create(self) -> None:
        """Makes namespaces, links and shapers; puts a passing program opposite every port that will sum."""
        namespaces.create(self.layout)
        xdp_pass.attach_opposite(self.layout, self._xdp_nodes)
        self.lose()
        self.optical_switches = optical.of_layout(self.layout, self._lit)

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """The plan with the addresses that its circuits have here; links that are no circuits have the plan's own.

        Raises:
            TestbedError: its links are others, or more of its switches are in the kernel.
        """
        require_xdp_ports(plan, self._xdp_nodes)
        fabric = _fabric_of(plan)
        if not {link.id for link in fabric.links} <= set(self._addresses):
            raise TestbedError(OTHER_LINKS)
        adapted = _addressed(fabric, self._addresses)
        own = {link.id for link in self.layout.topology.links}
        if [one for one in _wiring(fabric) if one[0] in own] != [one for one in _wiring(self._fabric) if one[0] in own]:
            raise TestbedError(OTHER_LINKS)
        return plan.model_copy(update={"fabric": adapted})

    def light_up(self, plan: AggregationPlan) -> None:
        """Lights the circuits of the plan's links."""
        lit = optical.lit_in(self.layout.topology, _fabric_of(plan))
        for switch in self.optical_switches.values():
            switch.light_up(lit)

    def host_interface(self, node: str) -> str:
        """The interface of the network for everything else."""
        self.layout.topology.node(node)
        return namespaces.HUB_PORT

    def shaper(self, link: str, towards: str) -> tuple[str, str]:
        """As elsewhere, but for links that lead through the hub."""
        wire = self.layout.wire(link)
        if wire.relay:
            return HUB, wire.relay[towards == wire.target.node].interface
        if wire.is_fibre and towards == wire.shaped_at.node:
            raise TestbedError(
                f"fibre {link} has no limit towards {towards}; name the fibre by which light leaves {towards}"
            )
        return super().shaper(link, towards)

    def close(self) -> None:
        """Ends what counts, at optical switches too."""
        super().close()
        for switch in self.optical_switches.values():
            switch.close()
        self.optical_switches = {}


def lay_out(
    name: str,
    topology: Topology,
    fabric: PlanFabric,
    mtu_bytes: int,
    in_kernel: Collection[str] = (),
    *,
    later: Sequence[PlanFabric] = (),
) -> Layout:
    """Decides names, and gives each end of each link the address that the plan has for it.

    Args:
        name: of the testbed; part of every namespace's name.
        topology: what to build.
        fabric: of its plan.
        mtu_bytes: of every interface.
        in_kernel: names of the nodes that sum in XDP.
        later: of other plans, with addresses that are no other circuit's.

    Raises:
        TopologyError: the plan is for other links, or something that namespaces cannot be.
    """
    topology = topology.with_addresses(unlit=True)
    for one in (fabric, *later):
        _check(topology.with_circuits(optical.lit_in(topology, one)), one)
    check_mtu(mtu_bytes, in_kernel)
    hub = f"{NAMESPACE_PREFIX}{name}-{HUB}"
    spaces = {node.name: f"{NAMESPACE_PREFIX}{name}-{node.name}" for node in topology.nodes}
    counts = dict.fromkeys(spaces, 0)
    wires: list[Wire] = []
    for number, link in enumerate(topology.links):
        ports = []
        for node in (link.source, link.target):
            ports.append(Port(node, spaces[node], f"p{counts[node]}", counts[node]))
            counts[node] += 1
        wires.append(_wire(link, ports, topology, in_kernel, _relay(number, hub)))
        if wires[-1].is_fibre and (link.loss or link.reverse_loss):
            raise TopologyError(f"links.{link.id}.loss: fibres lose nothing on purpose; set it to 0")
    ends: dict[Port, list[PointToPoint]] = {}
    macs = _macs(wires)
    for one in (fabric, *later):
        joined = _joined(topology, wires, optical.lit_in(topology, one))
        for planned, ports in zip(one.links, joined, strict=True):
            for port, end in _ends(planned, ports, macs):
                known = ends.setdefault(port, [])
                known.extend([end] if end not in known else [])
    return Layout(topology, spaces, wires, mtu_bytes, prefix_length(topology), hub, ends)


def _joined(topology: Topology, wires: list[Wire], lit: list[Circuit]) -> list[list[Port]]:
    """The two ends of every link that packets see: of links first, then of circuits, each from unit to unit."""
    fibre_of = {fibre.link.id: fibre for fibre in fibres(topology)}
    near = {
        wire.link.id: wire.source if wire.source.node == fibre_of[wire.link.id].unit else wire.target
        for wire in wires
        if wire.is_fibre
    }
    ordinary = [[wire.source, wire.target] for wire in wires if not wire.is_fibre]
    return ordinary + [[near[link] for link in one.links] for one in lit]


def _wire(
    link: Link, ports: list[Port], topology: Topology, in_kernel: Collection[str], relay: tuple[Port, Port]
) -> Wire:
    """Limited at a host's end, or at that of a switch in user space; else between the two. Fibres at their far end."""
    far = next((port for port in ports if topology.node(port.node).kind == "oxc"), None)
    if far is not None:
        return Wire(link, ports[0], ports[1], far, is_fibre=True)
    ordinary = [port for port in ports if port.node not in in_kernel]
    hosts = [port for port in ordinary if topology.node(port.node).kind != "switch"]
    if not ordinary:
        return Wire(link, ports[0], ports[1], relay[0], relay)
    return Wire(link, ports[0], ports[1], (hosts or ordinary)[0])


def _relay(number: int, hub: str) -> tuple[Port, Port]:
    """Ports of the hub for a link."""
    near, far = (Port(HUB, hub, f"l{number}{side}", 2 * number + index) for index, side in enumerate("ab"))
    return near, far


def _macs(wires: list[Wire]) -> dict[Port, str]:
    """Known beforehand, so that no address has to be resolved on a link whose bytes are counted."""
    return {
        port: f"02:00:00:{number >> 8:02x}:{number & 0xFF:02x}:{end:02x}"
        for number, wire in enumerate(wires)
        for end, port in enumerate((wire.source, wire.target))
    }


def _ends(link: FabricLink, ports: list[Port], macs: Mapping[Port, str]) -> Iterator[tuple[Port, PointToPoint]]:
    near, far = (str(parse_socket_address(end.address)[0]) for end in link.ends)
    for port, other, own, peer in ((ports[0], ports[1], near, far), (ports[1], ports[0], far, near)):
        yield port, PointToPoint(f"{own}/{LINK_PREFIX}", macs[port], peer, macs[other])


def addresses_of(fabrics: Sequence[PlanFabric]) -> dict[str, tuple[str, str]]:
    """Addresses of the two ends of every link: those of the first plan that has it, if no other link has them.

    Plans number their links, so circuits of several plans would have the same addresses; later ones get new ones.
    """
    found: dict[str, tuple[str, str]] = {}
    taken: set[tuple[str, str]] = set()
    for link in (link for fabric in fabrics for link in fabric.links if link.id not in found):
        own = (link.ends[0].address, link.ends[1].address)
        if own in taken:
            low = LATER_NETWORK + 2 * len(found)
            own = (_moved(own[0], low), _moved(own[1], low + 1))
        found[link.id] = own
        taken.add(own)
    return found


def _moved(address: str, to: IPv4Address) -> str:
    return f"{to}:{parse_socket_address(address)[1]}"


def _addressed(fabric: PlanFabric, addresses: Mapping[str, tuple[str, str]]) -> PlanFabric:
    def end_of(link: FabricLink, index: int) -> FabricEnd:
        return link.ends[index].model_copy(update={"address": addresses[link.id][index]})

    links = [link.model_copy(update={"ends": [end_of(link, 0), end_of(link, 1)]}) for link in fabric.links]
    return fabric.model_copy(update={"links": links})


def _check(topology: Topology, fabric: PlanFabric) -> None:
    if [link.id for link in topology.links] != [link.id for link in fabric.links]:
        raise TopologyError(f"the plan has other links than topology {topology.name}; plan again for this topology")
    for link in topology.links:
        if link.delay_from(link.source) or link.delay_from(link.target):
            raise TopologyError(f"links.{link.id}.delay_s: a testbed cannot delay packets; set it to 0")
    for wired in fabric.links:
        low, high = (int(ip_address(parse_socket_address(end.address)[0])) for end in wired.ends)
        if low ^ high != 1:
            problem = f"the two addresses are not those of one /{LINK_PREFIX} network"
            raise TopologyError(f"fabric.links.{wired.id}: {problem}; plan again for this topology")
    if any(node.name == HUB for node in topology.nodes):
        raise TopologyError(f"nodes.{HUB}: that name is the testbed's own; choose another")


def _wiring(fabric: PlanFabric) -> list[tuple[str, list[str]]]:
    """What is made of a fabric: addresses, whoever has which number in the plan."""
    return [(link.id, [end.address for end in link.ends]) for link in fabric.links]


def _fabric_of(plan: AggregationPlan) -> PlanFabric:
    if plan.fabric is None:
        raise TestbedError("servers sum in this plan, not switches; make one with `wiresum plan --switched`")
    return plan.fabric
