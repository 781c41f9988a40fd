"""What has crossed each link."""

import json
from dataclasses import dataclass

from wiresum.testbed.layout import Layout, Wire
from wiresum.testbed.namespaces import run_tool
from wiresum.testbed.shaping import ifb_name


@dataclass(frozen=True)
class Direction:
    """One direction of a link.

    Attributes:
        bytes: that crossed, Ethernet headers included.
        packets: that crossed.
        dropped: packets that the queue before the link had no room for.
    """

    bytes: int = 0
    packets: int = 0
    dropped: int = 0

    def since(self, earlier: "Direction") -> "Direction":
        """What was added after `earlier`."""
        return Direction(self.bytes - earlier.bytes, self.packets - earlier.packets, self.dropped - earlier.dropped)


@dataclass(frozen=True)
class LinkTraffic:
    """Both directions of a link.

    Attributes:
        forward: from the link's source to its target.
        backward: from its target to its source.
    """

    forward: Direction
    backward: Direction

    @property
    def busiest_bytes(self) -> int:
        """Bytes of the direction that carried more."""
        return max(self.forward.bytes, self.backward.bytes)

    def since(self, earlier: "LinkTraffic") -> "LinkTraffic":
        """What was added after `earlier`."""
        return LinkTraffic(self.forward.since(earlier.forward), self.backward.since(earlier.backward))


def read(layout: Layout) -> dict[str, LinkTraffic]:
    """Counters of every link by its id.

    A shaped direction is counted at its shaper, where a packet takes its time on the link; an unshaped one at the
    interface.
    """
    namespaces = sorted({wire.shaped_at.namespace for wire in layout.wires})
    shapers = {namespace: _shapers(namespace) for namespace in namespaces}
    interfaces = {namespace: _interfaces(namespace) for namespace in namespaces}
    return {wire.link.id: _traffic(wire, shapers, interfaces) for wire in layout.wires}


Counters = dict[str, dict[str, Direction]]


def _traffic(wire: Wire, shapers: Counters, interfaces: Counters) -> LinkTraffic:
    if wire.relay:
        here = wire.shaped_at.namespace
        backward, forward = (shapers[here].get(port.interface, interfaces[here][port.interface]) for port in wire.relay)
        return LinkTraffic(forward, backward)
    namespace, interface = wire.shaped_at.namespace, wire.shaped_at.interface
    outward = shapers[namespace].get(interface, interfaces[namespace][interface])
    inward = shapers[namespace].get(ifb_name(interface), interfaces[namespace][ifb_name(interface)])
    from_source = wire.shaped_at == wire.source
    return LinkTraffic(outward, inward) if from_source else LinkTraffic(inward, outward)


def _shapers(namespace: str) -> dict[str, Direction]:
    queues = json.loads(run_tool(["tc", "-n", namespace, "-s", "-j", "qdisc", "show"]))
    return {
        queue["dev"]: Direction(queue["bytes"], queue["packets"], queue["drops"])
        for queue in queues
        if queue["kind"] == "tbf"
    }


def _interfaces(namespace: str) -> dict[str, Direction]:
    """What each interface sent, by its name, and what it received, under the name of its ifb."""
    links = json.loads(run_tool(["ip", "-n", namespace, "-s", "-j", "link", "show"]))
    counted: dict[str, Direction] = {}
    for link in links:
        sent, received = link["stats64"]["tx"], link["stats64"]["rx"]
        counted[link["ifname"]] = Direction(sent["bytes"], sent["packets"], sent["dropped"])
        counted.setdefault(
            ifb_name(link["ifname"]), Direction(received["bytes"], received["packets"], received["dropped"])
        )
    return counted
