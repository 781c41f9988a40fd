"""Hosts of one network that know each other without asking, where they are many.

A kernel keeps at most 1024 neighbours that it has asked for (`net.ipv4.neigh.default.gc_thresh3`), those of all
namespaces together. 33 hosts that all talk to each other need 1056: then it refuses packets, with ENOBUFS and
EHOSTUNREACH. Permanent neighbours do not count.
"""

from wiresum.testbed.layout import Layout
from wiresum.topology.model import Node

MOST_ASKED = 16
"""Nodes that may ask for each other: 240 entries, so that four testbeds have room beside each other."""


def commands(layout: Layout, node: Node, device: str) -> list[str]:
    """What gives a node's device in the common network its MAC address and its neighbours; nothing where they are few.

    Args:
        layout: with all nodes.
        node: one with an address.
        device: which has that address.
    """
    known = {one.name: _mac(index) for index, one in enumerate(layout.topology.nodes) if one.address}
    if len(known) <= MOST_ASKED:
        return []
    others = [one for one in layout.topology.nodes if one.address and one.name != node.name]
    own = f"link set dev {device} address {known[node.name]}"
    return [
        own,
        *(f"neigh replace {one.address} lladdr {known[one.name]} dev {device} nud permanent" for one in others),
    ]


def _mac(index: int) -> str:
    """A local one; those of links with addresses of their own have another second byte."""
    return f"02:01:00:00:{index >> 8:02x}:{index & 0xFF:02x}"
