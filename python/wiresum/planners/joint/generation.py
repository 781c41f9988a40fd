"""Column generation over routed trees: the forest's, with the cheapest paths at the prices of each round."""

from __future__ import annotations

import numpy as np

from wiresum.planners.forest.generation import Generation
from wiresum.planners.forest.instance import ABSENT, Tree, Vector
from wiresum.planners.forest.pricing import TIDINESS, Prices
from wiresum.planners.joint.instance import RoutedInstance, RoutedTree
from wiresum.planners.joint.paths import LINK_PRICE, NO_WAY, Paths
from wiresum.planners.joint.search import deep_search


class RoutedGeneration(Generation):
    """One run; `forests` yields ever better ones, of routed trees."""

    def __init__(self, instance: RoutedInstance, time_limit_s: float) -> None:
        super().__init__(instance, time_limit_s)
        self._routed_instance = instance
        self._paths = Paths.of(instance, np.zeros(len(instance.capacities)))

    def _prices(self, resources: Vector, memory: Vector, rate: float) -> Prices:
        """Prices of edges over the cheapest paths, with the parents' adders."""
        self._paths = Paths.of(self._routed_instance, resources)
        adders = np.maximum(resources, 0.0)[np.array(self._routed_instance.adders)]
        constant = rate - float(memory @ np.array(self._routed_instance.room)) - self._path_slack
        return Prices(self._paths.of_workers + adders, self._paths.of_servers + adders, memory + TIDINESS, constant)

    @property
    def _path_slack(self) -> float:
        """What `LINK_PRICE` adds to a tree at most, so that a cost is never above the true one."""
        edges = sum(group.size for group in self._routed_instance.groups) + len(self._routed_instance.servers)
        return LINK_PRICE * edges * len(self._routed_instance.ends)

    def _search(self, prices: Prices) -> list[Tree]:
        found = deep_search(self._routed_instance, prices)
        return [self._routed(tree, prices) for tree in found if self._is_possible(prices.of_tree(tree))]

    def _is_possible(self, cost: float) -> bool:
        return cost < NO_WAY

    def _routed(self, tree: Tree, prices: Prices) -> Tree:
        network, way = self._routed_instance, self._paths.way
        worker_ways = [
            [way(node, server) if count else () for server, count in enumerate(counts)]
            for node, counts in zip(network.attached, tree.children, strict=True)
        ]
        inner_ways = [
            () if parent in {ABSENT, server} else way(network.places[server], parent)
            for server, parent in enumerate(tree.parents)
        ]
        return RoutedTree(tree.parents, tree.children, worker_ways, inner_ways)
