"""The cheapest tree when every resource has a price: by a quick search, and by an integer programme with a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiresum.planners.forest.instance import ABSENT, Instance, Tree, Uses, Vector
from wiresum.planners.optimisation.programme import Programme

TIDINESS = 1e-9
"""Price of a server beside everything else, so that a tree has none that is merely free. Subtracted from the bound."""


@dataclass(frozen=True)
class Prices:
    """What a unit of rate costs, edge by edge.

    Attributes:
        worker: `worker[g, s]`: a worker of group g as a child of server s.
        inner: `inner[s, t]`: server s as a child of server t.
        member: `member[s]`: server s in the tree at all.
        constant: of every tree.
    """

    worker: Vector
    inner: Vector
    member: Vector
    constant: float

    @classmethod
    def of(cls, instance: Instance, resources: Vector, memory: Vector, rate: float) -> Prices:
        """Prices of edges from those of resources, of memory at each server, and of the common rate."""

        def price(uses: Uses) -> float:
            return float(sum(resources[resource] * amount for resource, amount in uses))

        worker = [[price(uses) for uses in group.uses] for group in instance.groups]
        inner = [[price(uses) for uses in row] for row in instance.between]
        constant = rate - float(memory @ np.array(instance.room))
        return cls(np.array(worker), np.array(inner), memory + TIDINESS, constant)

    def of_tree(self, tree: Tree) -> float:
        """What a tree costs."""
        edges = [(server, tree.parents[server]) for server in tree.members if tree.parents[server] != server]
        inner = sum(self.inner[edge] for edge in edges)
        return (
            float((self.worker * np.array(tree.children)).sum() + inner + self.member[tree.members].sum())
            + self.constant
        )


def search(instance: Instance, prices: Prices) -> list[Tree]:
    """For each root a good tree of at most two levels; those that fan-in allows.

    Starting from the root alone, the server that lowers the cost most is added while there is one.
    """
    found = (_grow(instance, prices, root) for root in instance.servers)
    return [tree for tree in found if tree]


def _grow(instance: Instance, prices: Prices, root: int) -> Tree | None:
    sizes = np.array([group.size for group in instance.groups])
    members, cheapest = [root], prices.worker[:, root]
    opening = prices.member + prices.inner[:, root]
    while len(members) < len(instance.servers):
        saved = ((cheapest[:, None] - np.minimum(cheapest[:, None], prices.worker)) * sizes[:, None]).sum(axis=0)
        gain = saved - opening
        gain[members] = -np.inf
        best = int(gain.argmax())
        crowded = sizes.sum() + len(members) - 1 > instance.fan_in * len(members)
        if gain[best] <= 0 and not crowded:
            break
        members.append(best)
        cheapest = np.minimum(cheapest, prices.worker[:, best])
    return _seat(instance, prices, root, members)


def _seat(instance: Instance, prices: Prices, root: int, members: list[int]) -> Tree | None:
    """Gives every worker the cheapest seat that is left; servers without workers leave the tree."""
    seats = dict.fromkeys(members, instance.fan_in)
    seats[root] -= len(members) - 1
    children = [[0] * len(instance.servers) for _ in instance.groups]
    for index, group in enumerate(instance.groups):
        waiting = group.size
        for server in sorted(members, key=lambda s: prices.worker[index, s]):
            children[index][server] = min(waiting, seats[server])
            seats[server] -= children[index][server]
            waiting -= children[index][server]
        if waiting:
            return None
    useful = {server for server in members if any(counts[server] for counts in children)} | {root}
    return Tree([root if server in useful else ABSENT for server in instance.servers], children)


def cheapest(instance: Instance, prices: Prices, time_limit_s: float) -> tuple[Tree | None, float]:
    """The cheapest of all trees, and a cost below which there is none.

    Variables are: server s is a member; it is the root; the workers of each group at each server; s is a child of t;
    and a flow of one unit from every member to the root, which rules out cycles.
    """
    model = _Model(instance, prices)
    outcome = model.programme.solve(time_limit_s)
    tree = None if outcome.x is None else model.tree(outcome.x)
    # The programme maximises, so its bound is that of the negative cost.
    return tree, -outcome.bound + prices.constant - TIDINESS * len(instance.servers)


class _Model:
    """The integer programme and the columns of its variables."""

    def __init__(self, instance: Instance, prices: Prices) -> None:
        servers, groups = len(instance.servers), instance.groups
        blocks = (servers, servers, len(groups) * servers, servers * servers, servers * servers)
        ends = np.cumsum(blocks)
        columns = np.split(np.arange(ends[-1]), ends[:-1])
        self.member, self.root = columns[0], columns[1]
        self.worker = columns[2].reshape(len(groups), servers)
        self.edge, self.flow = columns[3].reshape(servers, servers), columns[4].reshape(servers, servers)
        costs = np.zeros(ends[-1])
        costs[self.member], costs[self.worker], costs[self.edge] = -prices.member, -prices.worker, -prices.inner
        upper = np.ones(ends[-1])
        upper[self.worker] = np.array([group.size for group in groups])[:, None]
        upper[self.flow] = servers - 1
        upper[np.diag(self.edge)] = 0
        integral = np.ones(ends[-1], dtype=bool)
        integral[self.flow] = False
        self.programme = Programme(costs, upper, [bool(whole) for whole in integral])
        self._tree_rows(instance.servers)
        self._worker_rows(instance)

    def _tree_rows(self, servers: range) -> None:
        """One root; every other member has a parent that is a member; flow reaches the root."""
        row, most = self.programme.row, len(servers) - 1
        row([(self.root[s], 1.0) for s in servers], 1, 1)
        for s in servers:
            others = [t for t in servers if t != s]
            row([(self.root[s], 1.0), (self.member[s], -1.0)], high=0)
            above = [(self.edge[s, t], 1.0) for t in others]
            row([*above, (self.root[s], 1.0), (self.member[s], -1.0)], 0, 0)
            row_of_flow = [(self.flow[s, t], 1.0) for t in others] + [(self.flow[t, s], -1.0) for t in others]
            row([*row_of_flow, (self.member[s], -1.0), (self.root[s], float(len(servers)))], low=0)
            for t in others:
                row([(self.edge[s, t], 1.0), (self.member[t], -1.0)], high=0)
                row([(self.flow[s, t], 1.0), (self.edge[s, t], -float(most))], high=0)

    def _worker_rows(self, instance: Instance) -> None:
        """Every worker has a parent that is a member, and no member has more children than it can have."""
        row = self.programme.row
        for index, group in enumerate(instance.groups):
            row([(self.worker[index, s], 1.0) for s in instance.servers], group.size, group.size)
            for s in instance.servers:
                row([(self.worker[index, s], 1.0), (self.member[s], -float(group.size))], high=0)
        for s in instance.servers:
            children = [(column, 1.0) for column in (*self.worker[:, s], *np.delete(self.edge[:, s], s))]
            row([*children, (self.member[s], -float(instance.fan_in))], high=0)

    def tree(self, x: Vector) -> Tree:
        """The tree of a point."""
        chosen: NDArray[np.bool_] = x > 0.5  # noqa: PLR2004 - binaries are whole within a tolerance
        servers = range(len(self.member))
        parents = [ABSENT] * len(servers)
        for s in servers:
            if chosen[self.root[s]]:
                parents[s] = s
            elif chosen[self.member[s]]:
                parents[s] = int(chosen[self.edge[s]].argmax())
        return Tree(parents, np.rint(x[self.worker]).astype(int).tolist())
