"""What R-InGo chooses from: for each worker a way to an aggregator, for each aggregator a way to the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment import Instance
from wiresum.plan.assignment.instance import PS
from wiresum.plan.assignment.routes import Path
from wiresum.planners.path_sets import PathSets
from wiresum.topology.graph import UNREACHABLE, Floats

UNIT_BPS = 1e9
"""Capacities of about 1 to 100 serve the solver's tolerances best."""


@dataclass(frozen=True)
class Way:
    """A path and the aggregator at its end.

    Attributes:
        aggregator: index, as in the instance.
        resources: what it takes one share of each: its arcs, and the aggregator's adder.
    """

    aggregator: int
    resources: tuple[int, ...]

    @property
    def path(self) -> Path:
        """Its arcs."""
        return self.resources[:-1]


@dataclass(frozen=True, eq=False)
class Choices:
    """All ways; resources are the graph's arcs, and from `arc_count` on the aggregators' adders.

    Attributes:
        capacity: (resources,) in units of `UNIT_BPS`; infinite where unlimited.
        of_workers: of each worker, to every aggregator within its reach, the server included.
        of_aggregators: of each aggregator, to the server; none of the server itself.
    """

    capacity: Floats
    of_workers: Sequence[Sequence[Way]]
    of_aggregators: Sequence[Sequence[Way]]

    @classmethod
    def of(cls, instance: Instance, paths: PathSets, reach_hops: int | None = None) -> Choices:
        """The ways of an instance.

        Args:
            instance: the question.
            paths: which paths.
            reach_hops: most links from a worker to an aggregator, the server apart; 3 in a fat-tree leaves the
                switches of a worker's own pod and the core (InGo §VI-C). None: any.
        """
        graph = instance.graph
        hops = graph.hops_to(instance.aggregators)
        limit = UNREACHABLE - 1 if reach_hops is None else reach_hops

        def ways(node: int, aggregator: int) -> list[Way]:
            target = int(instance.aggregators[aggregator])
            adder = graph.arc_count + aggregator
            return [Way(aggregator, (*path, adder)) for path in paths.between(node, target, hops[aggregator])]

        near = [[PS, *(1 + np.flatnonzero(row[1:] <= limit))] for row in instance.hops]
        return cls(
            capacity=capacities(instance),
            of_workers=[
                [way for aggregator in reached for way in ways(int(worker), int(aggregator))]
                for worker, reached in zip(instance.workers, near, strict=True)
            ],
            of_aggregators=[ways(int(node), PS) if node != instance.server else [] for node in instance.aggregators],
        )

    def to_json(self) -> str:
        """One line for the solver's process."""
        numbered = [
            [[(way.aggregator, way.resources) for way in ways] for ways in side]
            for side in (self.of_workers, self.of_aggregators)
        ]
        return json.dumps([self.capacity.tolist(), *numbered])

    @classmethod
    def parse(cls, text: str) -> Choices:
        """Reads that line."""
        capacity, *sides = json.loads(text)
        workers, aggregators = (
            [[Way(aggregator, tuple(resources)) for aggregator, resources in ways] for ways in side] for side in sides
        )
        return cls(np.array(capacity), workers, aggregators)


def capacities(instance: Instance) -> Floats:
    """(resources,) of the arcs, then of the aggregators' adders, in units of `UNIT_BPS`."""
    graph = instance.graph
    return np.concatenate([graph.bandwidth_bps, graph.adding_bps[instance.aggregators]]) / UNIT_BPS
