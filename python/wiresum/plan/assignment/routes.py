"""Which way gradients and sums take, where a planner decides that too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wiresum.plan.ways import Edge, NamedWays
from wiresum.topology.graph import Graph
from wiresum.topology.model import Topology
from wiresum.topology.paths import Capacity

Path = tuple[int, ...]
"""Arcs, from the first node to the last."""


@dataclass(frozen=True, eq=False)
class Routes:
    """One path for each worker, and one for each aggregator that sums.

    Attributes:
        of_workers: (workers,) to the worker's aggregator.
        of_aggregators: by aggregator, to the parameter server.
    """

    of_workers: Sequence[Path]
    of_aggregators: Mapping[int, Path]


def is_path(graph: Graph, path: Path, source: int, target: int) -> bool:
    """Whether a path leads from one node to another through nodes that forward, and visits none twice."""
    if not path:
        return False
    nodes = [int(graph.source[path[0]]), *(int(graph.target[arc]) for arc in path)]
    joined = all(graph.source[arc] == node for arc, node in zip(path, nodes, strict=False))
    passes = all(graph.forwards[node] for node in nodes[1:-1])
    return joined and passes and len(set(nodes)) == len(nodes) and (nodes[0], nodes[-1]) == (source, target)


def directions(topology: Topology, graph: Graph, path: Path) -> tuple[Capacity, ...]:
    """A path as predictions know it."""
    return tuple(
        Capacity(topology.links[arc // 2].id, graph.names[graph.source[arc]], graph.names[graph.target[arc]])
        for arc in path
    )


def arcs(topology: Topology, links: Mapping[Edge, Sequence[str]]) -> dict[Edge, Path]:
    """Named ways as paths.

    Raises:
        PlanError: one is none in this topology.
    """
    if not links:
        return {}
    ways = NamedWays(topology)
    numbers = {(link.id, link.source): 2 * index for index, link in enumerate(topology.links)}
    numbers |= {(link.id, link.target): 2 * index + 1 for index, link in enumerate(topology.links)}
    return {
        edge: tuple(numbers[one.link, one.source] for one in ways.directions(*edge, names))
        for edge, names in links.items()
    }


def link_ids(topology: Topology, path: Path) -> list[str]:
    """The links of a path, as plans name them."""
    return [topology.links[arc // 2].id for arc in path]


def reverse(path: Path) -> Path:
    """The same links the other way round."""
    return tuple(arc ^ 1 for arc in reversed(path))
