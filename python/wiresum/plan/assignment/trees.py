"""An assignment as trees: sub-models that are summed in the same places are one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.instance import PS
from wiresum.topology.graph import Ints


@dataclass(frozen=True)
class SumTree:
    """A tree and what is summed along it.

    Attributes:
        parents: by name: of each worker and each aggregator above it; None at the parameter server.
        sub_models: by index.
        bytes: of all of them.
    """

    parents: Mapping[str, str | None]
    sub_models: Ints
    bytes: int


def trees_of(assignment: Assignment) -> list[SumTree]:
    """The distinct trees, by their first sub-model.

    A parameter server that gets nothing but one sum stays the root: it has the model.
    """
    columns = assignment.target
    if assignment.upstream is not None:  # Where unused aggregators would send tells no trees apart.
        columns = np.vstack([columns, np.where(assignment.summed_at, assignment.upstream, PS)])
    _, first, of = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    trees = []
    for number in np.argsort(first):
        members = np.flatnonzero(of.ravel() == number)
        size = int(assignment.instance.sizes[members].sum())
        trees.append(SumTree(_parents(assignment, int(members[0])), members, size))
    return trees


def _parents(assignment: Assignment, sub_model: int) -> dict[str, str | None]:
    instance = assignment.instance
    parents: dict[str, str | None] = {instance.name(PS): None}
    for aggregator in np.flatnonzero(assignment.summed_at[:, sub_model]):
        if aggregator != PS:
            parents[instance.name(int(aggregator))] = instance.name(assignment.above(int(aggregator), sub_model))
    for worker, target in zip(instance.workers, assignment.target[:, sub_model], strict=True):
        parents[instance.graph.names[worker]] = instance.name(int(target))
    return parents
