"""Which switches of a data centre sum: what its generators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from wiresum.errors import TopologyError

if TYPE_CHECKING:
    from wiresum.topology.model import Link, Node, Topology

SWITCH_RATE_BPS = 3.2e12
"""bit/s of gradient that a programmable switch adds: 32 ports of 100 Gbit/s (GOAT §VII-B, InGo §VI-B)."""
MEMORY_BYTES = 64_000_000
"""For sums, of a programmable switch (GOAT §VII-C)."""
SERVER_RATE_BPS = 100e9
"""bit/s of gradient that a parameter server adds: its link's rate."""


@dataclass(frozen=True)
class Programmable:
    """A choice of switches that sum.

    Attributes:
        fraction: of the switches, rounded to a whole number of them.
        memory_bytes: memory of each; `none`: unlimited.
        seed: of the choice.
    """

    fraction: float
    memory_bytes: int | None = MEMORY_BYTES
    seed: int = 0

    def switches(self, names: Sequence[str]) -> list[Node]:
        """Switches of these names, some of which sum.

        Raises:
            TopologyError: the fraction is not from 0 to 1.
        """
        from wiresum.topology.model import Node

        if not 0 <= self.fraction <= 1:
            raise TopologyError(f"programmable: the fraction of switches that sum is 0 to 1, not {self.fraction}")
        summing = set(Random(self.seed).sample(names, round(self.fraction * len(names))))
        return [
            Node(name=name, kind="switch", aggregation_rate_bps=SWITCH_RATE_BPS, memory_bytes=self.memory_bytes)
            if name in summing
            else Node(name=name, kind="switch")
            for name in names
        ]


def with_roles(topology: Topology, server: str | None, programmable: Programmable | None) -> Topology:
    """A topology that says only what is linked, with the roles that planners of switch networks need.

    Args:
        topology: imported from elsewhere.
        server: the host that is the parameter server; as it is where absent.
        programmable: which switches sum; as it is where absent.

    Raises:
        TopologyError: there is no such host, or the fraction is not from 0 to 1.
    """
    from wiresum.topology.model import Node

    nodes = {node.name: node for node in topology.nodes}
    if programmable is not None:
        names = [node.name for node in topology.nodes if node.kind == "switch"]
        nodes.update({node.name: node for node in programmable.switches(names)})
    if server is not None:
        if topology.node(server).kind == "switch":
            raise TopologyError(f"{server} is a switch; name a host as the parameter server")
        nodes[server] = Node(name=server, kind="ps", aggregation_rate_bps=SERVER_RATE_BPS)
    return topology.model_copy(update={"nodes": list(nodes.values())})


def require_size(nodes: int, links: int) -> None:
    """Refuses networks that are too large for a topology before anything of them is made.

    Raises:
        TopologyError: there are too many nodes or links.
    """
    from wiresum.topology.model import MAX_LINKS, MAX_NODES

    if nodes > MAX_NODES or links > MAX_LINKS:
        raise TopologyError(
            f"{nodes} nodes and {links} links: a topology has at most {MAX_NODES} and {MAX_LINKS}; make it smaller"
        )


def hosts(count: int) -> list[Node]:
    """Workers w0… and, as the last host, the parameter server.

    Raises:
        TopologyError: there is no room for both.
    """
    from wiresum.topology.model import Node

    if count < 2:  # noqa: PLR2004 - a worker and a server
        raise TopologyError(f"{count} hosts leave no room for a worker and a parameter server; make it 2 or more")
    workers = [Node(name=f"w{rank}", kind="worker") for rank in range(count - 1)]
    return [*workers, Node(name="ps", kind="ps", aggregation_rate_bps=SERVER_RATE_BPS)]


def cable(source: str, target: str, rate_bps: float | None, number: int = 0) -> Link:
    """A link named after its ends; `number` tells parallel ones apart."""
    from wiresum.topology.model import Link

    suffix = f"-{number}" if number else ""
    return Link(id=f"{source}-{target}{suffix}", source=source, target=target, bandwidth_bps=rate_bps)
