"""Column generation: the linear programme over all trees, of which only those that help are ever written down.

The master programme knows some trees and finds their best rates; its dual values price every resource. A tree that
costs less than 1 at these prices raises the rate, so it joins. With z the master's value and c the cost of the cheapest
of all trees, prices / c are feasible in the dual of the whole programme, so no forest is faster than z / c (Farley's
bound). When c is 1, the master's rates are optimal over all trees.

The programme and the name of each quantity: `instance`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from wiresum.planners.forest.instance import Instance, Tree, Vector
from wiresum.planners.forest.pricing import Prices, cheapest, search
from wiresum.planners.forest.solution import Forest
from wiresum.planners.optimisation.programme import INFINITY, Programme, SolverOutcome

GAP = 1e-6
"""Between rate and bound, relative: less is optimal. In the end rates are shares of some thousand packets."""
SEARCH_SHARE = 0.5
"""Share of the time limit after which only exact pricing is done, so that there is a bound in the end."""
MAX_ROUNDS = 10_000
"""Rounds of pricing; each adds a tree that was not there before, so it ends by itself, but far beyond any use."""


class Generation:
    """One run of column generation.

    Args:
        instance: what to solve. Capacities of about 1 serve the solver's tolerances best.
        time_limit_s: after which it ends with what it has.
    """

    def __init__(self, instance: Instance, time_limit_s: float) -> None:
        self._instance = instance
        self._started_s = time.monotonic()
        self._time_limit_s = time_limit_s
        self._trees: list[Tree] = []
        self._uses: list[Vector] = []
        self._bound = INFINITY if instance.rate_cap is None else instance.rate_cap  # No forest is faster than that.
        self._rounds = 0

    def forests(self) -> Iterator[Forest]:
        """Ever better ones; the last is the answer."""
        self._add(self._first())
        if not self._trees:
            yield Forest([], [], None)
            return
        while self._rounds < MAX_ROUNDS and self._left_s() > 0:
            self._rounds += 1
            master = self._master()
            yield self._forest(master)
            if self._bound <= master.value * (1 + GAP):
                break
            better = self._price(master)
            if not better or self._bound <= master.value * (1 + GAP):
                break
            self._add(better)
        yield self._tidy()

    def _first(self) -> list[Tree]:
        """Trees to begin with: good ones when the price of every resource is as one over its capacity."""
        free = np.zeros(len(self._instance.servers))
        scarcity = 1 / np.array(self._instance.capacities)
        prices = self._prices(scarcity / max(1.0, scarcity.sum()), free, 0.0)
        found = self._search(prices)
        if found:
            return found
        tree, _ = cheapest(self._instance, prices, self._left_s())
        return [self._routed(tree, prices)] if tree and self._is_possible(prices.of_tree(tree)) else []

    def _left_s(self) -> float:
        return self._time_limit_s - (time.monotonic() - self._started_s)

    def _prices(self, resources: Vector, memory: Vector, rate: float) -> Prices:
        return Prices.of(self._instance, resources, memory, rate)

    def _search(self, prices: Prices) -> list[Tree]:
        """Good trees, found quickly."""
        return search(self._instance, prices)

    def _routed(self, tree: Tree, prices: Prices) -> Tree:
        """The tree with the ways that these prices are of; here they are the network's."""
        return tree

    def _is_possible(self, cost: float) -> bool:
        """Whether a tree of this cost only has edges that exist."""
        return True

    def _least(self, prices: Prices) -> float:
        """A cost below which there is no tree, found without a search."""
        sizes = np.array([group.size for group in self._instance.groups])
        return float(sizes @ prices.worker.min(axis=1)) + prices.constant

    def _add(self, trees: Sequence[Tree]) -> None:
        self._trees += trees
        self._uses += [self._instance.uses(tree) for tree in trees]

    def _price(self, master: SolverOutcome) -> list[Tree]:
        """Trees that cost less than 1, best first; none if there is none, or no time to find one."""
        resources, memory, rate = np.split(master.prices, self._row_ends())
        prices = self._prices(resources, memory, float(rate.sum()))
        if self._left_s() > (1 - SEARCH_SHARE) * self._time_limit_s:
            found = [tree for tree in self._search(prices) if prices.of_tree(tree) < 1 - GAP]
            if found:
                return found
        self._prove(master, self._least(prices))
        if self._bound <= master.value * (1 + GAP):
            return []
        tree, least = cheapest(self._instance, prices, self._left_s())
        self._prove(master, least)
        return [self._routed(tree, prices)] if tree and prices.of_tree(tree) < 1 - GAP / 10 else []

    def _prove(self, master: SolverOutcome, least: float) -> None:
        """Farley's bound, of a cost below which there is no tree."""
        if least > 0:
            self._bound = min(self._bound, master.value / least)

    def _row_ends(self) -> list[int]:
        resources = len(self._instance.capacities)
        return [resources, resources + len(self._instance.servers)]

    def _master(self, objective: Vector | None = None, least: float = 0.0) -> SolverOutcome:
        """The best rates of the known trees; with an objective, those that maximise it at a common rate of `least`."""
        count = len(self._trees)
        ones = np.ones(count)
        programme = Programme(ones if objective is None else objective, np.full(count, INFINITY))
        uses = np.array(self._uses).reshape(count, len(self._instance.capacities))
        for resource, capacity in enumerate(self._instance.capacities):
            programme.row(_terms(uses[:, resource]), high=capacity)
        for server in self._instance.servers:
            held = np.array([tree.parents[server] >= 0 for tree in self._trees], dtype=np.float64)
            programme.row(_terms(held - self._instance.room[server]), high=0)
        cap = INFINITY if self._instance.rate_cap is None else self._instance.rate_cap
        programme.row(_terms(ones), low=least, high=cap)
        return programme.solve(INFINITY)

    def _forest(self, master: SolverOutcome, left_out: float = 0.0) -> Forest:
        rates = [] if master.x is None else [float(rate) for rate in master.x]
        used = sorted((i for i, rate in enumerate(rates) if rate > 0), key=lambda i: -rates[i])
        bound = None if self._bound == INFINITY else self._bound
        return Forest([self._trees[i] for i in used], [rates[i] for i in used], bound, left_out, self._rounds)

    def _tidy(self) -> Forest:
        """The trees that reach the best rate with the least traffic, without those that are too many or too small."""
        best = self._master()
        traffic = np.array([uses.sum() for uses in self._uses])
        lean = self._forest(self._master(-traffic, best.value * (1 - GAP))).trimmed()
        self._trees, self._uses = [], []
        self._add(lean.trees)
        kept = self._master()
        lost = best.value - kept.value
        return self._forest(kept, left_out=lost if lost > GAP * best.value else 0.0)


def _terms(coefficients: Vector) -> list[tuple[int, float]]:
    return [(int(index), float(coefficients[index])) for index in np.flatnonzero(coefficients)]
