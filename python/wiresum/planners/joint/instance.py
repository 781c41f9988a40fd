"""The forest's programme where every edge of a tree may take any way.

An edge from a child to its parent carries sums up and results down the same links, so it takes as much of both
directions of a link: a link is one resource, as large as its slower direction. Trees that differ in a way only are
different columns of `forest.instance`'s programme; at given prices, the best ways are the cheapest paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.planners.forest.instance import ABSENT, Instance, Tree, Vector

Way = Sequence[int]
"""Links, by index."""


@dataclass(frozen=True)
class RoutedTree(Tree):
    """A tree and its ways.

    Attributes:
        worker_ways: of each group, the way of its workers to each server; empty where there are none.
        inner_ways: of each server in the tree, the way to its parent; empty at the root.
    """

    worker_ways: Sequence[Sequence[Way]] = ()
    inner_ways: Sequence[Way] = ()


@dataclass(frozen=True)
class RoutedInstance(Instance):
    """One network; `groups` and `between` say nothing about uses.

    Attributes:
        ends: of each link, two nodes.
        forwards: of each node, whether ways lead through it.
        attached: of each group, the node where ways begin: behind the workers' own link, if they have only one.
        places: of each server, its node.
        link_resources: of each link; `ABSENT` where it is unlimited.
        adders: of each server, its resource.
    """

    ends: Sequence[tuple[int, int]] = ()
    forwards: Sequence[bool] = ()
    attached: Sequence[int] = ()
    places: Sequence[int] = ()
    link_resources: Sequence[int] = ()
    adders: Sequence[int] = ()

    def uses(self, tree: Tree) -> Vector:
        """What a tree takes of each resource at rate 1."""
        assert isinstance(tree, RoutedTree)
        total = np.zeros(len(self.capacities))
        for counts, ways in zip(tree.children, tree.worker_ways, strict=True):
            for server, count in enumerate(counts):
                self._add(total, ways[server] if count else (), count)
        for way in tree.inner_ways:
            self._add(total, way, 1)
        fan_in = np.array([tree.fan_in(server) for server in self.servers], dtype=np.float64)
        np.add.at(total, np.array(self.adders), fan_in)
        return total

    def _add(self, total: Vector, way: Iterable[int], times: int) -> None:
        for resource, crossings in Counter(self.link_resources[link] for link in way).items():
            if resource != ABSENT:
                total[resource] += crossings * times
