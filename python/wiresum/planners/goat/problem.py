"""GOAT's problem (Eq. 1) in arrays: which switches hold which sub-models, when every worker sends to the nearest.

    minimise    Σ_g b(g) · ( Σ_w min over open s of D_w(s)  +  Σ_s x_g^s · D_s(PS) )
    subject to  Σ_g x_g^s · b(g) ≤ B(s)                     for each switch s

With x given, the paper's y follows: a worker's sub-model goes to the nearest node that is open for it, as nothing else
bounds y. The parameter server is open for all. Workers with equal distances are one group with a number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from wiresum.plan.aggregation_plan import Solution
from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.assignment.answer import Allocation
from wiresum.plan.assignment.instance import PS
from wiresum.topology.graph import UNREACHABLE, Bools, Floats, Ints

OBJECTIVE = "link bytes"
"""Σ over links of gradient bytes on the way up: Eq. (1)'s value, and `Cost.total_bytes`."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Eq. (1). Aggregator 0 is the parameter server.

    Attributes:
        hops: (groups, aggregators) D_w(s).
        workers: (groups,) how many.
        climb: (aggregators,) D_s(PS).
        sizes: (sub-models,) b(g), bytes.
        memory: (aggregators,) B(s), bytes; infinite at the parameter server.
    """

    hops: Ints
    workers: Ints
    climb: Ints
    sizes: Ints
    memory: Floats

    @classmethod
    def of(cls, instance: Instance) -> Problem:
        """The problem of an instance.

        Raises:
            PlanError: there is no switch that sums, or a sub-model that no switch holds.
        """
        instance.require_switches()
        groups = instance.groups
        return cls(
            hops=groups.hops.astype(np.int64),
            workers=groups.size.astype(np.int64),
            climb=instance.hops_to_server.astype(np.int64),
            sizes=instance.sizes,
            memory=instance.memory_bytes,
        )

    @cached_property
    def nothing(self) -> Bools:
        """(aggregators, sub-models) only the parameter server is open."""
        opened = np.zeros((len(self.climb), len(self.sizes)), dtype=np.bool_)
        opened[PS] = True
        return opened

    @property
    def columns(self) -> int:
        """The most columns of its integer programme: a switch and as many balls as there are groups and radii."""
        radii = int(self.hops[:, PS].max(initial=0))
        return len(self.sizes) * (len(self.climb) + len(self.hops) * radii)

    @cached_property
    def useful(self) -> Ints:
        """(groups, aggregators) hops, or `UNREACHABLE` where the parameter server is nearer."""
        return np.where(self.hops <= self.hops[:, [PS]], self.hops, UNREACHABLE)

    def reach(self, opened: Bools) -> Ints:
        """(groups, sub-models) hops to the nearest open node."""
        columns = [self.useful[:, column].min(axis=1) for column in opened.T]
        return np.stack(columns, axis=1)

    def value(self, opened: Bools) -> int:
        """Eq. (1) of open nodes, in bytes × links."""
        links = self.workers @ self.reach(opened) + self.climb @ opened
        return int(links @ self.sizes)

    def excess(self, opened: Bools) -> Floats:
        """(aggregators,) bytes beyond memory."""
        held = opened @ self.sizes
        return np.maximum(0.0, np.where(np.isinf(self.memory), 0.0, held - self.memory))

    def part(self, sub_models: Ints, memory: Floats) -> Problem:
        """The same for some sub-models, with some memory."""
        return replace(self, sizes=self.sizes[sub_models], memory=memory)

    def to_json(self) -> str:
        """For a solver's standard input."""
        return json.dumps({name: getattr(self, name).tolist() for name in self.__dataclass_fields__})

    @classmethod
    def parse(cls, text: str) -> Problem:
        """What `to_json` has written."""
        content: dict[str, Any] = json.loads(text)
        memory = np.array(content.pop("memory"), dtype=np.float64)
        return cls(**{name: np.array(values, dtype=np.int64) for name, values in content.items()}, memory=memory)


def to_nearest(
    instance: Instance, opened: Bools, solution: Solution, allocation: Allocation = "exclusive"
) -> Assignment:
    """Every worker sends each sub-model to the nearest open node; to the parameter server only if that alone is it."""
    groups = instance.groups
    server_last = np.roll(np.arange(len(opened)), -1)
    nearest = [
        server_last[np.where(column[server_last], groups.hops[:, server_last], UNREACHABLE).argmin(axis=1)]
        for column in opened.T
    ]
    return Assignment(instance, np.stack(nearest, axis=1)[groups.of], solution, allocation=allocation)


def proven(value: float, bound: float | None, **fields: Any) -> Solution:
    """A solution of Eq. (1); `status` follows from the bound unless it is given."""
    if bound is None:
        return Solution(objective=OBJECTIVE, value=value, **fields)
    bound = min(bound, value)
    return Solution(
        objective=OBJECTIVE, value=value, bound=bound, gap=(value - bound) / value if value else 0.0, **fields
    )
