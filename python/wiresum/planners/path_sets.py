"""Path sets: which ways planners of routes choose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from wiresum.plan.assignment.routes import Path
from wiresum.topology.graph import UNREACHABLE, Graph, Hops


@dataclass(frozen=True, eq=False)
class PathSets:
    """The shortest simple paths between two nodes, fewest links first.

    Attributes:
        graph: the network.
        count: most paths between two nodes (k).
        detour_hops: links that a path may have beyond the shortest; 0 leaves those of equal cost (ECMP).
    """

    graph: Graph
    count: int
    detour_hops: int

    def between(self, source: int, target: int, hops: Hops) -> list[Path]:
        """The k shortest; none if there is no way.

        Takes O(paths × length) where most partial paths can be completed, as in fat-trees and meshes: a search goes
        only where the target is near enough.

        Args:
            source: where they begin.
            target: where they end.
            hops: (nodes,) links from each node to the target.
        """
        found: list[Path] = []
        shortest = int(hops[source])
        if shortest == UNREACHABLE:
            return found
        for length in range(shortest, shortest + self.detour_hops + 1):
            for path in self._of_length(source, target, length, hops):
                found.append(path)
                if len(found) == self.count:
                    return found
        return found

    @cached_property
    def _leaving(self) -> Sequence[Sequence[tuple[int, int]]]:
        """The arcs of each node and where they lead."""
        leaving: list[list[tuple[int, int]]] = [[] for _ in range(self.graph.node_count)]
        for arc, (source, target) in enumerate(zip(self.graph.source, self.graph.target, strict=True)):
            leaving[source].append((arc, int(target)))
        return leaving

    def _of_length(self, source: int, target: int, length: int, hops: Hops) -> Iterator[Path]:
        stack: list[tuple[int, Path, frozenset[int]]] = [(source, (), frozenset([source]))]
        while stack:
            node, path, seen = stack.pop()
            if node == target:
                if len(path) == length:
                    yield path
                continue
            if path and not self.graph.forwards[node]:
                continue
            left = length - len(path) - 1
            stack += [
                (other, (*path, arc), seen | {other})
                for arc, other in reversed(self._leaving[node])
                if hops[other] <= left and other not in seen
            ]
