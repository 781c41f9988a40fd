"""Paths that still lead where they led stay; others are the least loaded of the shortest."""

from __future__ import annotations

import numpy as np

from wiresum.plan.assignment import Assignment, Path, Routes
from wiresum.plan.assignment.instance import PS
from wiresum.plan.assignment.routes import is_path
from wiresum.planners.path_sets import PathSets
from wiresum.topology.graph import Floats, Graph, Ints
from wiresum.topology.model import Topology

CHOICES = 16
"""Shortest paths that are looked at for each way that is lost."""


def rerouted(before: Assignment, now: Assignment, where: Ints) -> tuple[Routes | None, int]:
    """The routes, and how many changed although their ends did not; none where the assignment had none.

    Args:
        before: with its routes.
        now: without them.
        where: (aggregators before,) their indices now.
    """
    if before.routes is None:
        return None, 0
    arcs = _arcs(before.instance.topology, now.instance.topology)
    kept = [_translated(path, arcs) for path in before.routes.of_workers]
    kept_sums = {int(where[one]): _translated(path, arcs) for one, path in before.routes.of_aggregators.items()}
    return _Paths(now).routes(kept, kept_sums)


def _arcs(before: Topology, now: Topology) -> dict[int, int]:
    """By arc before: the arc of the same link now."""
    links = {(link.id, link.source, link.target): number for number, link in enumerate(now.links)}
    numbers = [(index, links.get((link.id, link.source, link.target))) for index, link in enumerate(before.links)]
    return {2 * old + way: 2 * new + way for old, new in numbers if new is not None for way in (0, 1)}


def _translated(path: Path, arcs: dict[int, int]) -> Path | None:
    return tuple(arcs[arc] for arc in path) if all(arc in arcs for arc in path) else None


class _Paths:
    """Ways as they are chosen, and what they load."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._graph: Graph = assignment.instance.graph
        self._sets = PathSets(self._graph, CHOICES, 0)
        self._load: Floats = np.zeros(self._graph.arc_count)

    def routes(self, kept: list[Path | None], kept_sums: dict[int, Path | None]) -> tuple[Routes, int]:
        """All ways; kept ones first, so that others find links with little load."""
        instance, target = self._assignment.instance, self._assignment.target[:, 0]
        ends = [
            (int(worker), int(instance.aggregators[one])) for worker, one in zip(instance.workers, target, strict=True)
        ]
        used = [int(one) for one in np.flatnonzero(self._assignment.summed_at[:, 0]) if one != PS]
        ends += [(int(instance.aggregators[one]), instance.server) for one in used]
        ways = [*kept, *(kept_sums.get(one) for one in used)]
        good = [way if way and is_path(self._graph, way, *end) else None for way, end in zip(ways, ends, strict=True)]
        for way in good:
            self._load[list(way or ())] += 1
        made = [way or self._lightest(*end) for way, end in zip(good, ends, strict=True)]
        changed = sum(way is None for way in good)
        count = len(instance.workers)
        return Routes(made[:count], dict(zip(used, made[count:], strict=True))), changed

    def _lightest(self, source: int, target: int) -> Path:
        """The shortest path whose busiest link stays the least busy."""
        hops = self._graph.hops_to(np.array([target]))[0]
        weight = (self._load + 1) / self._graph.bandwidth_bps
        best = min(self._sets.between(source, target, hops), key=lambda path: float(weight[list(path)].max()))
        self._load[list(best)] += 1
        return best
