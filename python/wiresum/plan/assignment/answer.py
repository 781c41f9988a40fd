"""Which node sums which worker's sub-model: the answer of every planner of switch networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment.instance import PS, Instance
from wiresum.plan.assignment.routes import Routes
from wiresum.topology.graph import Bools, Floats, Ints

Allocation = Literal["exclusive", "shared", "oversubscribed"]


@dataclass(frozen=True, eq=False)
class Assignment:
    """One aggregator for each worker and sub-model, and one above each aggregator.

    Attributes:
        instance: the question.
        target: (workers, sub-models) the aggregator that each worker sends each sub-model to.
        solution: how good it is, and how it was found.
        upstream: (aggregators, sub-models) where each aggregator sends its sum of each sub-model; the parameter server
            for all where absent, as in GOAT's and InGo's models.
        allocation: `exclusive`: an aggregator holds each of its sub-models whole; `shared`: slots are used again, and
            memory bounds nothing; `oversubscribed`: as `exclusive`, by a method that may break memory limits.
        routes: the paths, one for each worker and aggregator in use, from planners that choose them too; otherwise the
            network's shortest ones, shared evenly.
    """

    instance: Instance
    target: Ints
    solution: Solution
    upstream: Ints | None = None
    allocation: Allocation = "exclusive"
    routes: Routes | None = None

    @cached_property
    def summed_at(self) -> Bools:
        """(aggregators, sub-models) whether it sums anything of it; always at the parameter server."""
        used = np.zeros((len(self.instance.aggregators), self.target.shape[1]), dtype=np.bool_)
        used[self.target, np.arange(self.target.shape[1])] = True
        used[PS] = True
        if self.upstream is not None:
            _mark_above(used, self.upstream)
        return used

    @property
    def memory_bytes(self) -> Floats:
        """(aggregators,) that its sub-models take where each has slots of its own; without the parameter server's."""
        held: Floats = self.summed_at.astype(np.float64) @ self.instance.sizes
        held[PS] = 0.0
        return held

    def above(self, aggregator: int, sub_model: int) -> int:
        """Where an aggregator sends its sum."""
        return PS if self.upstream is None else int(self.upstream[aggregator, sub_model])


def _mark_above(used: Bools, upstream: Ints) -> None:
    """Nodes above those in use are in use; a chain has at most as many links as there are nodes."""
    for _ in range(len(used)):
        before = used.sum()
        aggregators, sub_models = np.nonzero(used)
        used[upstream[aggregators, sub_models], sub_models] = True
        if used.sum() == before:
            return
