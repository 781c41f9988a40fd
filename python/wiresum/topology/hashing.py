"""Which of several equally short ways a network takes that nobody tells: one for each pair of nodes, by a hash (ECMP).

Predictions, costs, plans and the simulator (`crates/sim/src/network/routes.rs`) choose alike; tests hold them together.
Switches of other makes hash otherwise, and more than the pair: what is said of one network is an example of what comes
out, and what is on average is no better. A plan that names its ways leaves nothing to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiresum.topology.graph import UNREACHABLE, Floats, Graph, Hops, Ints
from wiresum.topology.pairs import FOLD, KEPT, OF_MIX, OF_PLACE, OF_SOURCE, OF_TARGET, U32

DOORS_AT_ONCE = 64
"""Distances to as many are kept: 64 × 10,000 nodes are 1.3 MB."""
NO_ARC = -1

Words = NDArray[np.uint64]


def steps(graph: Graph, source: Ints, target: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The arcs of many flows: again and again those flows that take a step, and over which arc.

    A flow's arcs come in the order of its way. Flows that do not reach their target take none. Takes a search for each
    target, or for all targets that hang on the same switch by one link.

    Args:
        graph: the network.
        source: (flows,) nodes.
        target: (flows,) nodes.
    """
    if not graph.arc_count:
        return
    chosen = _choices(source, target)
    last = _only_arcs(graph)[target]
    last = np.where(source == target, NO_ARC, last)
    door = np.where(last == NO_ARC, target, graph.source[last])
    order = np.argsort(door, kind="stable")
    doors, begins = np.unique(door[order], return_index=True)
    ends = np.append(begins[1:], len(order))
    for first in range(0, len(doors), DOORS_AT_ONCE):
        among = slice(first, first + DOORS_AT_ONCE)
        hops = graph.hops_to(doors[among])
        for one, begin, end, distance in zip(doors[among], begins[among], ends[among], hops, strict=True):
            flows = order[begin:end]
            flows = flows[distance[source[flows]] != UNREACHABLE]
            yield from _to(_Closer.of(graph, int(one), distance), flows, source[flows], chosen[flows])
            through = flows[last[flows] != NO_ARC]
            if len(through):
                yield through, last[through]


def _only_arcs(graph: Graph) -> Ints:
    """(nodes,) the arc to each node that has one link, to a switch; `NO_ARC` to others."""
    degree = np.bincount(graph.target, minlength=graph.node_count)
    arcs = np.full(graph.node_count, NO_ARC)
    single = np.flatnonzero((degree[graph.target] == 1) & graph.forwards[graph.source])
    arcs[graph.target[single]] = single
    return arcs


@dataclass(frozen=True, eq=False)
class _Closer:
    """Arcs that bring a packet closer to a target: from node n on, `count[n]` of them from `begin[n]` on."""

    target: int
    arcs: Ints
    ends: Ints
    begin: Ints
    count: Ints

    @classmethod
    def of(cls, graph: Graph, target: int, distance: Hops) -> _Closer:
        closer = (distance[graph.source] == distance[graph.target] + 1) & (
            graph.forwards[graph.target] | (graph.target == target)
        )
        arcs = np.flatnonzero(closer)
        arcs = arcs[np.argsort(graph.source[arcs], kind="stable")]
        count = np.bincount(graph.source[arcs], minlength=graph.node_count)
        return cls(target, arcs, graph.target, np.cumsum(count) - count, count)


def _to(closer: _Closer, flows: Ints, at: Ints, chosen: Words) -> Iterator[tuple[Ints, Ints]]:
    while True:
        left = at != closer.target
        flows, at, chosen = flows[left], at[left], chosen[left]
        if not len(flows):
            return
        taken = closer.arcs[closer.begin[at] + _mixed(chosen, at) % closer.count[at]]
        yield flows, taken
        at = closer.ends[taken]


def loads(graph: Graph, source: Ints, target: Ints, sent: Floats) -> Floats:
    """(arcs,) bytes when each flow takes its way; (flows,) arguments."""
    total = np.zeros(graph.arc_count)
    for flows, arcs in steps(graph, source, target):
        np.add.at(total, arcs, sent[flows])
    return total


def path(graph: Graph, source: int, target: int) -> tuple[int, ...]:
    """The arcs of one flow; none if it does not reach its target."""
    return tuple(int(arcs[0]) for _, arcs in steps(graph, np.array([source]), np.array([target])))


def _choices(source: Ints, target: Ints) -> Words:
    of_source, of_target = (
        node.astype(np.uint64) * np.uint64(factor) & np.uint64(U32)
        for node, factor in ((source, OF_SOURCE), (target, OF_TARGET))
    )
    return np.asarray(of_source ^ of_target, dtype=np.uint64)


def _mixed(chosen: Words, at: Ints) -> Ints:
    x = (chosen << np.uint64(32) | at.astype(np.uint64)) * np.uint64(OF_PLACE)
    x = (x ^ x >> np.uint64(FOLD)) * np.uint64(OF_MIX)
    return (x >> np.uint64(KEPT)).astype(np.int64)
