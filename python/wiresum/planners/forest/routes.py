"""Which links a flow between two nodes crosses."""

from collections import defaultdict, deque
from collections.abc import Mapping

from wiresum.topology.model import Link, Topology

Route = Mapping[tuple[str, str], float]
"""Fraction of the flow on each direction of a link: by link id and the node that the direction leaves."""


class Routes:
    """Shortest paths of a topology; a flow is split evenly over equal ones at every hop (ECMP).

    Workers and servers do not forward, so paths go through switches. Takes O(links) per pair of nodes.
    """

    def __init__(self, topology: Topology) -> None:
        self._links: dict[str, list[Link]] = defaultdict(list)
        for link in topology.links:
            self._links[link.source].append(link)
            self._links[link.target].append(link)
        self._forwards = {node.name for node in topology.nodes if node.kind == "switch"}
        self._distances: dict[str, dict[str, int]] = {}

    def between(self, source: str, target: str) -> Route | None:
        """The route from one node to another; None if there is none."""
        hops = self._hops_to(target)
        if source not in hops:
            return None
        carried: dict[tuple[str, str], float] = {}
        arriving = {source: 1.0}
        while arriving:
            leaving: dict[str, float] = defaultdict(float)
            for node, flow in arriving.items():
                nearer = [link for link in self._links[node] if hops.get(link.other_end(node)) == hops[node] - 1]
                for link in nearer:
                    carried[link.id, node] = flow / len(nearer)
                    leaving[link.other_end(node)] += flow / len(nearer)
            arriving = leaving
        return carried

    def _hops_to(self, target: str) -> dict[str, int]:
        """Links on the way to `target`, from every node that reaches it."""
        if target in self._distances:
            return self._distances[target]
        hops, queue = {target: 0}, deque([target])
        while queue:
            node = queue.popleft()
            if node != target and node not in self._forwards:
                continue
            for neighbour in (link.other_end(node) for link in self._links[node]):
                if neighbour not in hops:
                    hops[neighbour] = hops[node] + 1
                    queue.append(neighbour)
        self._distances[target] = hops
        return hops
