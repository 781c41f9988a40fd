"""Paths through a topology, and what they share."""

from collections import deque
from collections.abc import Mapping

from wiresum.errors import PlanError
from wiresum.plan.predict.flow import Capacity
from wiresum.plan.topology import Link, Topology

UNLIMITED_BPS = 1e15
"""Stands for a link without a bandwidth: faster than any that has one."""


Routes = Mapping[tuple[str, str], tuple[Capacity, ...]]
"""By source and target: the directions of links between them."""


class Network:
    """A topology as a planner sees it: the way from one node to another, and how much each direction carries.

    Args:
        topology: nodes and links.
        routes: ways that were chosen; between other nodes it is the shortest.

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
        self._switches = {node.name for node in topology.nodes if node.kind == "switch"}
        self._trees: dict[str, dict[str, Capacity]] = {}

    def path(self, source: str, target: str) -> tuple[Capacity, ...]:
        """The directions of links from one node to another: as chosen, or the fewest, the first among equals.

        Workers and servers do not forward.

        Raises:
            PlanError: there is no way.
        """
        if (source, target) in self._routes:
            return self._routes[source, target]
        arrivals = self._arrivals(source)
        if target not in arrivals:
            raise PlanError(f"{source} does not reach {target} in topology {self.topology.name}; link them by switches")
        path: list[Capacity] = []
        while target != source:
            path.append(arrivals[target])
            target = arrivals[target].source
        return tuple(reversed(path))

    def ingress_bps(self, name: str) -> float:
        """bit/s that a node's links bring in, all together."""
        return sum(self.capacities[Capacity(link.id, link.other_end(name), name)] for link in self._links[name])

    def egress_bps(self, name: str) -> float:
        """bit/s that a node's links take out, all together."""
        return sum(self.capacities[Capacity(link.id, name, link.other_end(name))] for link in self._links[name])

    def reaches(self, source: str, target: str) -> bool:
        """Whether there is a way."""
        return source == target or target in self._arrivals(source)

    def _arrivals(self, source: str) -> dict[str, Capacity]:
        """By node: the last direction on the way from `source`."""
        if source not in self._trees:
            self._trees[source] = self._search(source)
        return self._trees[source]

    def _search(self, source: str) -> dict[str, Capacity]:
        self.topology.node(source)
        arrivals: dict[str, Capacity] = {}
        queue = deque([source])
        while queue:
            name = queue.popleft()
            if name != source and name not in self._switches:
                continue
            for link in self._links[name]:
                other = link.other_end(name)
                if other != source and other not in arrivals:
                    arrivals[other] = Capacity(link.id, name, other)
                    queue.append(other)
        return arrivals
