"""Bytes from node to node: what an assignment, or any plan, sends towards the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.instance import PS
from wiresum.plan.assignment.routes import Path
from wiresum.plan.fabric import Fabric, Floats, Ints, summed_by
from wiresum.plan.placement import parents_of


@dataclass(frozen=True, eq=False)
class Traffic:
    """One round on the way up. Results take the same ways down, so a link carries as much in its other direction.

    Attributes:
        fabric: where.
        root: the node that has the result first.
        source: (flows,) nodes that send.
        target: (flows,) nodes that receive.
        bytes: (flows,) of gradient, without headers.
        paths: (flows,) where they are chosen; otherwise over the shortest, shared evenly where there are several.
    """

    fabric: Fabric
    root: int
    source: Ints
    target: Ints
    bytes: Floats
    paths: Sequence[Path] | None = None

    @cached_property
    def arc_bytes(self) -> Floats:
        """(arcs,) gradient bytes."""
        total = np.zeros(self.fabric.arc_count)
        if self.paths is not None:
            for path, sent in zip(self.paths, self.bytes, strict=True):
                total[list(path)] += sent
            return total
        targets = np.unique(self.target)
        for target, hops in zip(targets, self.fabric.hops_to(targets), strict=True):
            flows = self.target == target
            sent = summed_by(self.source[flows], self.bytes[flows], self.fabric.node_count)
            total += self.fabric.loads(int(target), sent, hops)
        return total

    @property
    def root_ingress_bytes(self) -> float:
        """What arrives at the root."""
        return float(self.bytes[self.target == self.root].sum())

    @property
    def ingress_bytes(self) -> Floats:
        """(nodes,) what each node adds."""
        return summed_by(self.target, self.bytes, self.fabric.node_count)

    @property
    def total_bytes(self) -> float:
        """Σ over links (GOAT's communication overhead)."""
        return float(self.arc_bytes.sum())

    @cached_property
    def busy_seconds(self) -> Floats:
        """(arcs,) that each arc is busy with gradients in its direction and results of the other's."""
        carried = self.arc_bytes + self.arc_bytes.reshape(-1, 2)[:, ::-1].ravel()
        return carried * 8 / self.fabric.bandwidth_bps


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
        fabric=instance.fabric,
        root=instance.server,
        source=np.concatenate([instance.workers[worker], instance.aggregators[lower]]),
        target=np.concatenate([instance.aggregators[first], instance.aggregators[upper]]),
        bytes=np.concatenate([sent[worker, first], up[lower, upper]]),
        paths=None if routes is None else [*routes.of_workers, *(routes.of_aggregators[int(one)] for one in lower)],
    )


def traffic_of_plan(fabric: Fabric, plan: AggregationPlan, gradient_bytes: int) -> Traffic:
    """The flows of a plan, of any planner; the exponents are left out. With several trees, the first has the root."""
    edges = [
        (fabric.index[child], fabric.index[parent], sub_model.share * gradient_bytes)
        for sub_model in plan.sub_models
        if sub_model.role == "values"
        for child, parent in parents_of(plan, sub_model).items()
        if parent is not None
    ]
    source, target, sent = zip(*edges, strict=True)
    first = next(one for one in plan.sub_models if one.role == "values")
    root = fabric.index[plan.node(first.tree[0].node).name]
    return Traffic(fabric, root, np.array(source), np.array(target), np.array(sent, dtype=np.float64))
