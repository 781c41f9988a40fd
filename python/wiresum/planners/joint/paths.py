"""The cheapest paths from every node to every server when links have prices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wiresum.planners.joint.instance import RoutedInstance, Way
from wiresum.topology.graph import Bools, Floats, Ints

LINK_PRICE = 1e-10
"""Price of every link beside its own: of ways that cost the same, the one over fewer links is taken, and none goes
round. A tree has some thousand links at most, so its cost is right to some 10⁻⁷."""
NO_WAY = 1e4
"""Price of an edge that does not exist: far above 1, below which a tree has to be to be taken."""


@dataclass(frozen=True, eq=False)
class Paths:
    """Prices of ways.

    Attributes:
        instance: the network.
        links: (links,) prices, `LINK_PRICE` included.
        distance: (servers, nodes) price of the cheapest way from a node to a server; infinite where there is none.
    """

    instance: RoutedInstance
    links: Floats
    distance: Floats

    @classmethod
    def of(cls, instance: RoutedInstance, resources: Floats) -> Paths:
        """The paths at these prices of resources. Takes O(servers × links × longest path)."""
        priced = np.append(np.maximum(resources, 0.0), 0.0)  # the last is that of unlimited links (`ABSENT`)
        links = priced[np.array(instance.link_resources, dtype=np.int64)] + LINK_PRICE
        return cls(instance, links, _distances(instance, links))

    @property
    def of_workers(self) -> Floats:
        """(groups, servers) price of a worker's way."""
        return self._ending(np.array(self.instance.attached), np.array(self.instance.forwards)).T

    @property
    def of_servers(self) -> Floats:
        """(servers, servers) price of the way from one to another."""
        places = np.array(self.instance.places)
        return self._ending(places, np.ones(len(self.instance.forwards), dtype=np.bool_)).T

    def _ending(self, nodes: Ints, passes: Bools) -> Floats:
        """(servers, nodes) prices; of a node that nothing passes, only its own."""
        possible = passes[nodes][None, :] | (np.array(self.instance.places)[:, None] == nodes[None, :])
        found = np.where(possible, self.distance[:, nodes], np.inf)
        return np.where(np.isfinite(found), found, NO_WAY)

    def way(self, node: int, server: int) -> Way:
        """The links of the cheapest way, from the node on."""
        distance, way = self.distance[server], []
        target = self.instance.places[server]
        while node != target:
            steps = [step for step in self._neighbours[node] if step[1] == target or self.instance.forwards[step[1]]]
            link, node = min(steps, key=lambda step: (distance[step[1]] + self.links[step[0]], step[0]))
            way.append(link)
        return way

    @cached_property
    def _neighbours(self) -> list[list[tuple[int, int]]]:
        """The links of each node and where they lead."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.instance.forwards]
        for link, (one, other) in enumerate(self.instance.ends):
            found[one].append((link, other))
            found[other].append((link, one))
        return found


def _distances(instance: RoutedInstance, links: Floats) -> Floats:
    """Bellman and Ford's, from all servers at once; a path has at most as many links as there are nodes."""
    ends = np.array(instance.ends, dtype=np.int64).reshape(-1, 2)
    source, target = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    price = np.concatenate([links, links])
    order = np.argsort(target, kind="stable")
    source, price = source[order], price[order]
    reached, starts = np.unique(target[order], return_index=True)
    servers, places = np.arange(len(instance.places)), np.array(instance.places)
    distance = np.full((len(places), len(instance.forwards)), np.inf)
    distance[servers, places] = 0.0
    closed = ~np.array(instance.forwards)
    for _ in range(len(instance.forwards)):
        leaving = distance.copy()
        leaving[:, closed] = np.inf  # Hosts do not forward, and only the server itself begins.
        leaving[servers, places] = 0.0
        nearer = np.minimum(distance[:, reached], np.minimum.reduceat(leaving[:, source] + price, starts, axis=1))
        if np.array_equal(nearer, distance[:, reached]):
            break
        distance[:, reached] = nearer
    return distance
