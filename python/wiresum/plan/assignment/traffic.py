"""Bytes from node to node: what an assignment, or any plan, sends towards the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.instance import PS
from wiresum.plan.assignment.routes import Path, arcs
from wiresum.plan.placement import parents_of
from wiresum.plan.ways import links_of
from wiresum.topology.graph import Floats, Graph, Ints, summed_by
from wiresum.topology.hashing import loads
from wiresum.topology.model import Topology


@dataclass(frozen=True, eq=False)
class Traffic:
    """One round: gradients and sums on the way up, and results down between the same nodes.

    Attributes:
        graph: where.
        root: the node that has the result first.
        source: (flows,) nodes that send.
        target: (flows,) nodes that receive.
        bytes: (flows,) of gradient, without headers.
        paths: (flows,) where they are chosen; otherwise a shortest, by the network's hash (`plan.hashing`).
    """

    graph: Graph
    root: int
    source: Ints
    target: Ints
    bytes: Floats
    paths: Sequence[Path | None] | None = None

    @cached_property
    def arc_bytes(self) -> Floats:
        """(arcs,) gradient bytes."""
        return self._chosen_bytes + loads(self.graph, *self._others(self.source, self.target))

    @cached_property
    def result_bytes(self) -> Floats:
        """(arcs,) the same of results: back over the paths that were chosen, or as the network hashes."""
        back = self._chosen_bytes.reshape(-1, 2)[:, ::-1].ravel()
        return back + loads(self.graph, *self._others(self.target, self.source))

    @cached_property
    def _chosen_bytes(self) -> Floats:
        total = np.zeros(self.graph.arc_count)
        for path, sent in zip(self.paths or (), self.bytes, strict=False):
            total[list(path or ())] += sent
        return total

    def _others(self, source: Ints, target: Ints) -> tuple[Ints, Ints, Floats]:
        """Flows without a path of their own."""
        if self.paths is None:
            return source, target, self.bytes
        left = np.array([path is None for path in self.paths], dtype=np.bool_)
        return source[left], target[left], self.bytes[left]

    @property
    def root_ingress_bytes(self) -> float:
        """What arrives at the root."""
        return float(self.bytes[self.target == self.root].sum())

    @property
    def ingress_bytes(self) -> Floats:
        """(nodes,) what each node adds."""
        return summed_by(self.target, self.bytes, self.graph.node_count)

    @property
    def total_bytes(self) -> float:
        """Σ over links (GOAT's communication overhead)."""
        return float(self.arc_bytes.sum())

    @cached_property
    def busy_seconds(self) -> Floats:
        """(arcs,) that each arc is busy with gradients and results."""
        return (self.arc_bytes + self.result_bytes) * 8 / self.graph.bandwidth_bps


def traffic_of(assignment: Assignment) -> Traffic:
    """The flows of an assignment: from workers to aggregators, and from these upwards."""
    instance, routes = assignment.instance, assignment.routes
    sizes = instance.sizes.astype(np.float64)
    count = len(instance.aggregators)
    workers = len(instance.workers)
    pairs = (assignment.target + count * np.arange(workers)[:, None]).ravel()
    sent = summed_by(pairs, np.tile(sizes, workers), workers * count).reshape(workers, count)
    up = np.zeros((count, count))
    below, which = np.nonzero(assignment.summed_at)
    above = np.full(len(below), PS) if assignment.upstream is None else assignment.upstream[below, which]
    np.add.at(up, (below, above), sizes[which])
    np.fill_diagonal(up, 0.0)
    worker, first = np.nonzero(sent)
    lower, upper = np.nonzero(up)
    return Traffic(
        graph=instance.graph,
        root=instance.server,
        source=np.concatenate([instance.workers[worker], instance.aggregators[lower]]),
        target=np.concatenate([instance.aggregators[first], instance.aggregators[upper]]),
        bytes=np.concatenate([sent[worker, first], up[lower, upper]]),
        paths=None if routes is None else [*routes.of_workers, *(routes.of_aggregators[int(one)] for one in lower)],
    )


def traffic_of_plan(topology: Topology, plan: AggregationPlan, gradient_bytes: int) -> Traffic:
    """The flows of a plan, of any planner; the exponents are left out. With several trees, the first has the root.

    Raises:
        PlanError: a way that the plan names is none in this topology.
    """
    graph = Graph.of(topology)
    values = [one for one in plan.streams if one.role == "values"]
    edges = [
        (graph.index[child], graph.index[parent], stream.share * gradient_bytes, chosen.get((child, parent)))
        for stream in values
        for chosen in (arcs(topology, links_of(plan, stream)),)
        for child, parent in parents_of(plan, stream).items()
        if parent is not None
    ]
    source, target, sent, paths = zip(*edges, strict=True)
    root = graph.index[plan.node(values[0].root).name]
    return Traffic(graph, root, np.array(source), np.array(target), np.array(sent, dtype=np.float64), paths)
