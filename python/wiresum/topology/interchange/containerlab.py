"""A containerlab file: the same nodes and links, as containers and virtual Ethernet."""

from __future__ import annotations

import json
from collections import Counter

from wiresum.topology.model import Topology

IMAGE = "alpine:latest"
"""Image of every node, until its user names another."""


def to_containerlab(topology: Topology) -> str:
    """Writes it. Interfaces are eth1… in the order of the links; rates and delays are left to the user, in comments.

    Example:
        >>> from wiresum.topology.generators.star import star
        >>> print(to_containerlab(star(2)).splitlines()[-1].strip())
        - endpoints: ["w1:eth1", "switch:eth2"] # 500 Mbit/s
    """
    lines = [f"name: {json.dumps(topology.name)}", "topology:", "  kinds:", "    linux:", f"      image: {IMAGE}"]
    lines.append("  nodes:")
    lines += [f"    {json.dumps(node.name)}: {{kind: linux, group: {node.kind}}}" for node in topology.nodes]
    lines.append("  links:")
    used: Counter[str] = Counter()
    for link in topology.links:
        used.update((link.source, link.target))
        ends = [f"{end}:eth{used[end]}" for end in (link.source, link.target)]
        rate = "" if link.bandwidth_bps is None else f" # {link.bandwidth_bps / 1e6:g} Mbit/s"
        lines.append(f"    - endpoints: {json.dumps(ends)}{rate}")
    return "\n".join(lines) + "\n"
