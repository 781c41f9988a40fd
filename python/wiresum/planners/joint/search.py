"""Good trees of three levels, quickly: what `forest.pricing.search` finds, with sums of sums where they pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wiresum.planners.forest.instance import ABSENT, Instance, Tree
from wiresum.planners.forest.pricing import Prices, search
from wiresum.topology.graph import Ints

KEPT = 12
"""Trees of one search, the cheapest: more make the master programme slow, and hardly better."""


def deep_search(instance: Instance, prices: Prices) -> list[Tree]:
    """The cheapest of the trees that are found, for different roots."""
    found = [deepened(instance, tree, prices) for tree in search(instance, prices)]
    return sorted(found, key=prices.of_tree)[:KEPT]


def deepened(instance: Instance, tree: Tree, prices: Prices) -> Tree:
    """A tree of two levels with servers between its root and others, as long as one lowers the cost.

    A server that is added becomes a child of the root, and takes those that it is nearer to.
    """
    root, parents = tree.root, np.array(tree.parents)
    while True:
        best, gain = _best_between(parents, root, prices)
        if gain <= 0:
            break
        movers = list(_nearer(parents, root, best, prices))
        parents[best] = root
        parents[movers] = best
    made = replace(tree, parents=parents.tolist())
    return made if all(made.fan_in(server) <= instance.fan_in for server in made.members) else tree


def _best_between(parents: Ints, root: int, prices: Prices) -> tuple[int, float]:
    """The server that lowers the cost most as a child of the root with others below it, and by how much."""
    inner = np.flatnonzero((parents != ABSENT) & (np.arange(len(parents)) != root))
    if not len(inner):
        return root, 0.0
    now = prices.inner[inner, parents[inner]]
    saved = np.maximum(0.0, now[:, None] - prices.inner[inner])
    saved[np.arange(len(inner)), inner] = 0.0
    # Who has someone below him stays, or there would be circles.
    above = np.isin(inner, parents)
    saved[above & (parents[inner] == root)] = 0.0
    opening = np.where(parents == ABSENT, prices.member + prices.inner[:, root], 0.0)
    possible = (parents == ABSENT) | (parents == root)
    possible[root] = False
    gain = np.where(possible, saved.sum(axis=0) - opening, -np.inf)
    best = int(gain.argmax())
    return best, float(gain[best])


def _nearer(parents: Ints, root: int, server: int, prices: Prices) -> Iterator[int]:
    above = set(parents[(parents != ABSENT) & (parents != root)].tolist())
    for one in np.flatnonzero(parents != ABSENT).tolist():
        is_free = one not in {root, server} and one not in above
        if is_free and prices.inner[one, server] < prices.inner[one, parents[one]]:
            yield one
