"""The linear programme over trees, as numbers without names of things: what the solver's process is given.

Let x_T be the rate (bit/s) at which every worker sends into tree T, and receives from it. The forest is

    maximise    f = Σ x_T                                   the common sending rate; T's share is x_T / f
    subject to  Σ uses(T, r) · x_T ≤ capacity(r)            for each direction of a link and each adder
                Σ x_T ≤ rate_cap                            the workers' own links
                Σ over T at server s of x_T ≤ room(s) · f   memory under `cache`: s holds at most this share

An edge from a child to its parent carries the sums up and the results down, so it uses both directions of its links,
and the parent's adder once. A server with one link thus has (children + has_parent) flows on it in each direction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wiresum.wire import MAX_CONTRIBUTORS

Uses = Sequence[tuple[int, float]]
"""What a flow of rate 1 takes of each resource: pairs of the resource's index and an amount."""
Vector = NDArray[np.float64]
ABSENT = -1
"""Parent of a server that is not in the tree."""
WEIGHT = 10
"""Weight of a column: programmes over trees are hard for their size, and there are many of them."""


@dataclass(frozen=True)
class Group:
    """Workers that are alike: their ways to every server differ only in links of their own.

    Attributes:
        size: how many.
        uses: of one worker that is a child of each server.
    """

    size: int
    uses: Sequence[Uses]


@dataclass(frozen=True)
class Tree:
    """A tree over servers by index.

    Attributes:
        parents: of each server; its own index at the root, `ABSENT` if it is not in the tree.
        children: for each group, how many of its workers are children of each server.
    """

    parents: Sequence[int]
    children: Sequence[Sequence[int]]

    @property
    def members(self) -> list[int]:
        """Servers of the tree."""
        return [server for server, parent in enumerate(self.parents) if parent != ABSENT]

    @property
    def root(self) -> int:
        """The server whose sum is the result."""
        return next(server for server in self.members if self.parents[server] == server)

    def fan_in(self, server: int) -> int:
        """Children of a server, workers and servers."""
        inner = sum(parent == server and child != server for child, parent in enumerate(self.parents))
        return inner + sum(counts[server] for counts in self.children)


@dataclass(frozen=True)
class Instance:
    """One forest to be found.

    Attributes:
        capacities: of each resource (direction of a link, adder), in any unit.
        rate_cap: most that every worker can send over its own links, in the same unit; None: no bound.
        groups: the workers.
        between: what server s as a child of server t uses: `between[s][t]`.
        room: share of the gradient that each server's memory holds; 1 or more: all.
        fan_in: most children of a server.
    """

    capacities: Sequence[float]
    rate_cap: float | None
    groups: Sequence[Group]
    between: Sequence[Sequence[Uses]]
    room: Sequence[float]
    fan_in: int = MAX_CONTRIBUTORS

    @property
    def servers(self) -> range:
        """Indices of the servers."""
        return range(len(self.between))

    @property
    def columns(self) -> int:
        """Columns of its programme, about, weighted."""
        return WEIGHT * len(self.servers) * (len(self.servers) + len(self.groups))

    def uses(self, tree: Tree) -> Vector:
        """What a tree takes of each resource at rate 1."""
        total = np.zeros(len(self.capacities))
        for group, counts in zip(self.groups, tree.children, strict=True):
            for server, count in enumerate(counts):
                _add(total, group.uses[server], count)
        for server in tree.members:
            if tree.parents[server] != server:
                _add(total, self.between[server][tree.parents[server]], 1)
        return total

    def rate_of(self, tree: Tree) -> float:
        """The rate of this tree alone."""
        uses = self.uses(tree)
        limits = np.divide(self.capacities, uses, out=np.full(len(uses), np.inf), where=uses > 0)
        return float(min(limits.min(initial=np.inf), np.inf if self.rate_cap is None else self.rate_cap))

    def to_json(self) -> str:
        """For the solver's standard input."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `to_json` has written."""
        content: dict[str, Any] = json.loads(text)
        groups = [Group(**group) for group in content.pop("groups")]
        return cls(groups=groups, **content)


def _add(total: Vector, uses: Iterable[tuple[int, float]], times: int) -> None:
    for resource, amount in uses:
        total[resource] += amount * times
