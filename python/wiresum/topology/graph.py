"""A topology as arrays: distances and loads of networks with ten thousand nodes in a second.

`Topology` is for files and people, `Graph` for planners. A link is two *arcs*, one for each direction: arc 2i goes
from link i's source to its target, arc 2i + 1 back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wiresum.topology.model import Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Hops = NDArray[np.int16]

UNREACHABLE = np.iinfo(np.int16).max
"""Distance of nodes without a way between them."""
MAX_TARGETS_AT_ONCE = 64
"""Targets of one breadth-first search: 64 × the arcs of a fat-tree of 32-port switches are 3 MB."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes and arcs by index.

    Attributes:
        names: of the nodes.
        forwards: (nodes,) whether traffic passes through; workers and servers are ends.
        source: (arcs,) node that sends.
        target: (arcs,) node that receives.
        bandwidth_bps: (arcs,) bit/s, infinite where unlimited.
        memory_bytes: (nodes,) free for sums, infinite where unlimited.
        adding_bps: (nodes,) bit/s of gradient that the node's idle cores can add; 0: it does not sum.
    """

    names: Sequence[str]
    forwards: Bools
    source: Ints
    target: Ints
    bandwidth_bps: Floats
    memory_bytes: Floats
    adding_bps: Floats

    @classmethod
    def of(cls, topology: Topology) -> Graph:
        """The arrays of a topology; nodes and links keep their order.

        Raises:
            TopologyError: it has an optical switch, and no circuits.
        """
        topology.require_packets()
        names = [node.name for node in topology.nodes]
        index = {name: number for number, name in enumerate(names)}
        ends = np.array([(index[link.source], index[link.target]) for link in topology.links], dtype=np.int64)
        ends = ends.reshape(-1, 2)
        rates = [
            rate or np.inf
            for link in topology.links
            for rate in (link.bandwidth_from(link.source), link.bandwidth_from(link.target))
        ]
        memory = [
            np.inf if node.memory_bytes is None else max(0, node.memory_bytes - node.memory_used_bytes)
            for node in topology.nodes
        ]
        return cls(
            names=names,
            forwards=np.array([node.kind == "switch" for node in topology.nodes]),
            source=ends.ravel(),
            target=ends[:, ::-1].ravel(),
            bandwidth_bps=np.array(rates),
            memory_bytes=np.array(memory, dtype=np.float64),
            adding_bps=np.array([node.available_rate_bps for node in topology.nodes]),
        )

    @property
    def node_count(self) -> int:
        """Nodes."""
        return len(self.names)

    @property
    def arc_count(self) -> int:
        """Directions of links."""
        return len(self.source)

    @cached_property
    def index(self) -> dict[str, int]:
        """Nodes by name."""
        return {name: number for number, name in enumerate(self.names)}

    def arc_name(self, arc: int) -> str:
        """As `w0 → leaf0`."""
        return f"{self.names[self.source[arc]]} → {self.names[self.target[arc]]}"

    def hops_to(self, targets: Ints) -> Hops:
        """Links of the shortest path from each node to each target, (targets, nodes); `UNREACHABLE` without one.

        Takes O(targets × arcs × diameter).
        """
        rows = [
            self._search(targets[start : start + MAX_TARGETS_AT_ONCE])
            for start in range(0, len(targets), MAX_TARGETS_AT_ONCE)
        ]
        return np.concatenate(rows) if rows else np.zeros((0, self.node_count), dtype=np.int16)

    def _search(self, targets: Ints) -> Hops:
        """A breadth-first search from several targets at once, against the direction of traffic."""
        by_source = np.argsort(self.source, kind="stable")
        ahead = self.target[by_source]
        senders, starts = np.unique(self.source[by_source], return_index=True)
        hops = np.full((len(targets), self.node_count), UNREACHABLE, dtype=np.int16)
        reached = np.zeros(hops.shape, dtype=np.bool_)
        reached[np.arange(len(targets)), targets] = True
        hops[reached] = 0
        frontier, distance = reached, 0
        while frontier.any() and len(senders):
            distance += 1
            found = np.zeros_like(reached)
            found[:, senders] = np.logical_or.reduceat(frontier[:, ahead], starts, axis=1)
            found &= hops == UNREACHABLE
            hops[found] = distance
            frontier = found & self.forwards
        return hops


def summed_by(index: Ints, values: Floats, count: int) -> Floats:
    """Σ of the values of each index from 0 to `count` − 1."""
    return np.asarray(np.bincount(index, weights=values, minlength=count), dtype=np.float64)
