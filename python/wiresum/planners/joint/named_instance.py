"""From a topology to the numbers of the joint programme, and from its trees back to names and flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment.routes import Path
from wiresum.plan.assignment.traffic import Traffic
from wiresum.plan.job import Job
from wiresum.plan.placement import Parents
from wiresum.planners.forest.instance import ABSENT, Group
from wiresum.planners.forest.named_instance import nothing_in_common, room_share
from wiresum.planners.forest.solution import Forest
from wiresum.planners.joint.instance import RoutedInstance, RoutedTree
from wiresum.topology.graph import UNREACHABLE, Graph
from wiresum.topology.model import Node, Topology

Edge = tuple[int, int, Path]
"""A child's node, its parent's, and the arcs between them."""


@dataclass(frozen=True, eq=False)
class NamedInstance:
    """An instance and what its indices stand for.

    Attributes:
        instance: capacities are relative to `unit_bps`.
        graph: nodes and links.
        unit_bps: bit/s of a capacity of 1.
        groups: nodes of each group's workers.
        own_links: of each worker, the link that the group's ways begin behind; none where they begin at the worker.
    """

    instance: RoutedInstance
    graph: Graph
    unit_bps: float
    groups: Sequence[Sequence[int]]
    own_links: dict[int, int]

    @classmethod
    def of(cls, topology: Topology, workers: Sequence[Node], job: Job) -> NamedInstance:
        """The joint problem for these workers.

        Raises:
            PlanError: no node that sums is reached by every worker.
        """
        graph = Graph.of(topology)
        nodes = [graph.index[worker.name] for worker in workers]
        places = _places(topology, graph, nodes)
        slower = graph.bandwidth_bps.reshape(-1, 2).min(axis=1)
        attached, own_links = _attachments(graph, nodes)
        together: dict[int, list[int]] = {}
        for worker in nodes:
            together.setdefault(attached[worker], []).append(worker)
        own = [slower[link] for link in own_links.values()]
        cap_bps = min(own, default=np.inf)
        limited = np.flatnonzero(np.isfinite(slower))
        capacities = [*slower[limited], *graph.adding_bps[places]]
        unit_bps = float(max([*capacities, *([cap_bps] if np.isfinite(cap_bps) else [])]))
        resources = np.full(len(slower), ABSENT)
        resources[limited] = np.arange(len(limited))
        instance = RoutedInstance(
            capacities=[float(one) / unit_bps for one in capacities],
            rate_cap=float(cap_bps) / unit_bps if np.isfinite(cap_bps) else None,
            groups=[Group(len(members), [()] * len(places)) for members in together.values()],
            between=[[()] * len(places) for _ in places],
            room=[room_share(topology.nodes[place], job) for place in places],
            ends=[(int(a), int(b)) for a, b in zip(graph.source[::2], graph.target[::2], strict=True)],
            forwards=graph.forwards.tolist(),
            attached=list(together),
            places=places,
            link_resources=resources.tolist(),
            adders=list(range(len(limited), len(capacities))),
        )
        return cls(instance, graph, unit_bps, list(together.values()), own_links)

    @property
    def servers(self) -> list[str]:
        """Names of the nodes that sum."""
        return [self.graph.names[place] for place in self.instance.places]

    def parents(self, tree: RoutedTree) -> Parents:
        """A tree by names."""
        names = self.graph.names
        return {names[child]: names[parent] for child, parent, _ in self.edges(tree)} | {
            names[self.instance.places[tree.root]]: None
        }

    def edges(self, tree: RoutedTree) -> Iterator[Edge]:
        """A tree's edges and their ways; the workers of a group are seated in order."""
        places = self.instance.places
        for members, counts, ways in zip(self.groups, tree.children, tree.worker_ways, strict=True):
            seats = [server for server, count in enumerate(counts) for _ in range(count)]
            for worker, server in zip(members, seats, strict=True):
                own = [self.own_links[worker]] if worker in self.own_links else []
                yield worker, places[server], self._arcs(worker, [*own, *ways[server]])
        for server, parent in enumerate(tree.parents):
            if parent not in {ABSENT, server}:
                yield places[server], places[parent], self._arcs(places[server], tree.inner_ways[server])

    def _arcs(self, node: int, links: Sequence[int]) -> Path:
        arcs = []
        for link in links:
            arc = 2 * link + int(self.graph.source[2 * link] != node)
            node = int(self.graph.target[arc])
            arcs.append(arc)
        return tuple(arcs)

    def traffic(self, forest: Forest, gradient_bytes: int) -> Traffic:
        """The flows of a forest over its own ways."""
        flows = [
            (*edge, rate / forest.rate * gradient_bytes)
            for tree, rate in zip(forest.trees, forest.rates, strict=True)
            if isinstance(tree, RoutedTree)
            for edge in self.edges(tree)
        ]
        source, target, paths, sent = zip(*flows, strict=True)
        root = self.instance.places[forest.trees[0].root]
        return Traffic(self.graph, root, np.array(source), np.array(target), np.array(sent), paths)


def _places(topology: Topology, graph: Graph, workers: Sequence[int]) -> list[int]:
    """Nodes that sum and that every worker reaches."""
    summing = np.flatnonzero(graph.adding_bps > 0)
    hops = graph.hops_to(summing)[:, workers] if len(summing) else np.zeros((0, len(workers)))
    places = summing[(hops != UNREACHABLE).all(axis=1)]
    if not len(places):
        raise nothing_in_common(topology, [topology.node(graph.names[worker]) for worker in workers])
    return [int(place) for place in places]


def _attachments(graph: Graph, workers: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Where the ways of each worker begin, and the own link before that.

    Every tree takes a worker's only link once each way, so it bounds the common rate, and workers at one switch are
    alike whatever their own links are.
    """
    degree = np.bincount(graph.source, minlength=graph.node_count)
    first = {int(graph.source[arc]): arc for arc in range(graph.arc_count - 1, -1, -1)}
    attached, own = {}, {}
    for worker in workers:
        alone = degree[worker] == 1
        attached[worker] = int(graph.target[first[worker]]) if alone else worker
        if alone:
            own[worker] = first[worker] // 2
    return attached, own
