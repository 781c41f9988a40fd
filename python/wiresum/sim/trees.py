"""What planners say about switch networks, as the simulator takes it: trees, their shares and ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment import Assignment, Path
from wiresum.plan.assignment.routes import arcs
from wiresum.plan.assignment.trees import trees_of
from wiresum.plan.placement import Parents, parents_of
from wiresum.plan.ways import links_of
from wiresum.topology.graph import Graph
from wiresum.topology.model import Topology

WaysByEdge = Mapping[tuple[str, str], Path]
"""From one node to another, by name: arcs, which simulations number alike."""


@dataclass(frozen=True)
class Tree:
    """Where a part of a gradient is summed.

    Attributes:
        parents: by name, of each worker and each node above it; None at the root.
        share: of the gradient.
        ways: between children and parents, where someone chose them.
    """

    parents: Parents
    share: float
    ways: WaysByEdge = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The node that has no parent."""
        return next(name for name, parent in self.parents.items() if parent is None)

    def above(self, name: str) -> list[str]:
        """A node and those above it, up to the root."""
        chain = [name]
        while (parent := self.parents[chain[-1]]) is not None:
            chain.append(parent)
        return chain

    @property
    def workers(self) -> list[str]:
        """The leaves of the tree, which nobody sends to, in rank order."""
        above = set(self.parents.values())
        return [name for name in self.parents if name not in above]

    @property
    def summing(self) -> list[str]:
        """Nodes that sum, the root apart."""
        return sorted({parent for parent in self.parents.values() if parent is not None} - {self.root})

    def without_root(self) -> Tree:
        """The tree below its root, where that has one child: who has no server keeps the sum there."""
        children = [name for name, parent in self.parents.items() if parent == self.root]
        if len(children) != 1:
            return self
        kept = {name: parent for name, parent in self.parents.items() if name != self.root}
        return Tree({**kept, children[0]: None}, self.share, self.ways)


def of_assignment(assignment: Assignment) -> list[Tree]:
    """The distinct trees of an assignment, with its ways if it has some."""
    ways = ways_of(assignment)
    model_bytes = assignment.instance.model_bytes
    return [Tree(tree.parents, tree.bytes / model_bytes, ways) for tree in trees_of(assignment)]


def of_plan(plan: AggregationPlan, topology: Topology) -> list[Tree]:
    """The trees of a plan's values, with the ways that it names.

    Raises:
        PlanError: a way is none in this topology.
    """
    values = [stream for stream in plan.streams if stream.role == "values"]
    return [Tree(parents_of(plan, one), one.share, arcs(topology, links_of(plan, one))) for one in values]


def ways_of(assignment: Assignment) -> dict[tuple[str, str], Path]:
    """The chosen ways of an assignment by their ends; none where ways are the network's."""
    if assignment.routes is None:
        return {}
    instance, routes = assignment.instance, assignment.routes
    targets = {int(worker): int(target) for worker, target in enumerate(_first_targets(assignment))}
    ways = {}
    for worker, path in enumerate(routes.of_workers):
        name = instance.graph.names[instance.workers[worker]]
        ways[name, instance.name(targets[worker])] = tuple(path)
    for aggregator, path in routes.of_aggregators.items():
        ways[instance.name(aggregator), _end(instance.graph, path)] = tuple(path)
    return ways


def _first_targets(assignment: Assignment) -> Sequence[int]:
    """By worker, where its way leads; planners of ways choose one for all sub-models."""
    return [int(target) for target in np.asarray(assignment.target)[:, 0]]


def _end(graph: Graph, path: Path) -> str:
    return graph.names[int(graph.target[path[-1]])]


def resolved_ways(ways: WaysByEdge, sites: Mapping[str, int]) -> list[dict[str, Any]]:
    """Ways as the simulator takes them."""
    return [
        {"from": sites[source], "to": sites[target], "directions": [int(arc) for arc in path]}
        for (source, target), path in ways.items()
    ]
