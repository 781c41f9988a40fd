"""Paths through a topology, and what they share."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from wiresum.errors import PlanError
from wiresum.topology.model import Link, Topology
from wiresum.topology.pairs import choice, mixed

UNLIMITED_BPS = 1e15
"""Stands for a link without a bandwidth: faster than any that has one."""


@dataclass(frozen=True, order=True)
class Capacity:
    """One direction of a link, or a node's adding.

    Attributes:
        link: the link's id; empty for a node's adding.
        source: the node that sends.
        target: the node that receives; for adding the same as `source`.
    """

    link: str
    source: str
    target: str

    @classmethod
    def of_adding(cls, node: str) -> "Capacity":
        """What a node can add, all children together."""
        return cls(link="", source=node, target=node)

    def __str__(self) -> str:
        return f"{self.link}: {self.source} → {self.target}" if self.link else f"{self.source} adds"


Capacities = Mapping[Capacity, float]
"""bit/s of each."""


Routes = Mapping[tuple[str, str], tuple[Capacity, ...]]
"""By source and target: the directions of links between them."""


class RoutedTopology:
    """A topology as a planner sees it: the way from one node to another, and how much each direction carries.

    Args:
        topology: nodes and links.
        routes: ways that were chosen; between other nodes it is a shortest.

    Attributes:
        capacities: bit/s of each direction of each link, Ethernet headers included.
    """

    def __init__(self, topology: Topology, routes: Routes | None = None) -> None:
        self.topology = topology
        self._routes = routes or {}
        self.capacities = {
            Capacity(link.id, end, link.other_end(end)): link.bandwidth_from(end) or UNLIMITED_BPS
            for link in topology.links
            for end in (link.source, link.target)
        }
        self._links: dict[str, list[Link]] = {node.name: [] for node in topology.nodes}
        for link in topology.links:
            self._links[link.source].append(link)
            self._links[link.target].append(link)
        self._index = {node.name: index for index, node in enumerate(topology.nodes)}
        self._switches = {node.name for node in topology.nodes if node.kind == "switch"}
        self._hops: dict[str, dict[str, int]] = {}

    def path(self, source: str, target: str, routes: Routes | None = None) -> tuple[Capacity, ...]:
        """The directions of links from one node to another: as chosen, or the fewest; of equal ones the network's.

        Workers and servers do not forward.

        Args:
            source: where it begins.
            target: where it ends.
            routes: ways that were chosen for these two in particular.

        Raises:
            PlanError: there is no way.
        """
        chosen = (routes or {}).get((source, target)) or self._routes.get((source, target))
        if chosen is not None:
            return chosen
        hops = self._hops_to(target)
        if source not in hops:
            raise PlanError(f"{source} does not reach {target} in topology {self.topology.name}; link them by switches")
        by = choice(self._index[source], self._index[target])
        path: list[Capacity] = []
        at = source
        while at != target:
            link = self._next(at, target, by, hops)
            path.append(Capacity(link.id, at, link.other_end(at)))
            at = link.other_end(at)
        return tuple(path)

    def _next(self, at: str, target: str, by: int, hops: Mapping[str, int]) -> Link:
        """The link that a packet takes here (`plan.hashing`)."""
        nearer = [
            link
            for link in self._links[at]
            if hops.get(other := link.other_end(at), -1) == hops[at] - 1
            and (other == target or other in self._switches)
        ]
        return nearer[mixed(by, self._index[at]) % len(nearer)]

    def ingress_bps(self, name: str) -> float:
        """bit/s that a node's links bring in, all together."""
        return sum(self.capacities[Capacity(link.id, link.other_end(name), name)] for link in self._links[name])

    def egress_bps(self, name: str) -> float:
        """bit/s that a node's links take out, all together."""
        return sum(self.capacities[Capacity(link.id, name, link.other_end(name))] for link in self._links[name])

    def reaches(self, source: str, target: str) -> bool:
        """Whether there is a way."""
        return source == target or source in self._hops_to(target)

    def _hops_to(self, target: str) -> dict[str, int]:
        """By node: links to `target`."""
        if target not in self._hops:
            self._hops[target] = self._search(target)
        return self._hops[target]

    def _search(self, target: str) -> dict[str, int]:
        self.topology.node(target)
        hops = {target: 0}
        queue = deque([target])
        while queue:
            name = queue.popleft()
            if name != target and name not in self._switches:
                continue
            for link in self._links[name]:
                other = link.other_end(name)
                if other not in hops:
                    hops[other] = hops[name] + 1
                    queue.append(other)
        return hops
