"""What a sparse round puts on every link, by the tier of each row: linear in what is counted of a trace.

A row that one worker touches with probability p is on a worker's link up with p in every tier. Down it is with p where
it is pulled, and with 1 − (1 − p)ᴺ where it is broadcast. A server gets it N · p times where nobody sums,
1 − (1 − p)ᴺ times where its sum is complete on the way, and not at all where replicas are kept. Headers of packets
(some 3.5 % with many rows in each), acknowledgements and preambles are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wiresum.errors import PlanError
from wiresum.sparse.counts import Counts
from wiresum.topology.graph import UNREACHABLE, Floats, Graph, Ints
from wiresum.topology.hashing import loads, steps
from wiresum.topology.model import Topology

POSITION_BYTES = 2
"""What tells a hot row in a packet of hot rows: its distance from the packet's first."""
KEY_BYTES = 4
"""What tells a cold row of a table."""
RIVAL_KEY_BYTES = 8
"""What ps-lite sends with every row, and asks by."""


class Quantity(NamedTuple):
    """Something that is counted of a round.

    Attributes:
        together: workers whose distinct rows are meant.
        key_bytes: of each row.
        has_values: whether the row's values are with its key.
    """

    together: int
    key_bytes: int
    has_values: bool = True

    def up_to(self, counts: Counts) -> Floats:
        """(seen + 1,) bytes of the first so many rows by popularity."""
        if self.has_values:
            return counts.bytes_up_to(self.together, self.key_bytes)
        return counts.rows_up_to(self.together) * self.key_bytes


Load = Mapping[Quantity, Floats]
"""How often each capacity carries each quantity."""


@dataclass(frozen=True)
class Tree:
    """Ways of all workers to one node, which are merged where a node sums.

    Attributes:
        up: by the number of workers whose sum it is: how many such flows each capacity carries on the way up.
        down: copies of the result that each capacity carries, as results are copied where sums were made.
        sums_at: nodes below the target that sum.
    """

    up: Mapping[int, Floats]
    down: Floats
    sums_at: Sequence[int]


@dataclass(frozen=True, eq=False)
class SparseNetwork:
    """A topology, with the servers that keep tables.

    Capacities are the arcs of the graph and, after them, its nodes, by what they can add.

    Attributes:
        topology: nodes and links.
        servers: names of the nodes that keep equal shares of all rows; workers, too, where a shard runs beside one.
    """

    topology: Topology
    servers: Sequence[str]
    _trees: dict[int, Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topology.workers:
            raise PlanError(f"topology {self.topology.name} has no worker; add some")
        known = {node.name: node for node in self.topology.nodes}
        for name in self.servers:
            if name not in known or known[name].kind == "switch":
                raise PlanError(f"servers: {name} is not a host of topology {self.topology.name}; name one")
        if not self.servers:
            raise PlanError(f"servers: topology {self.topology.name} has none; add some, or keep shards beside workers")
        if len(set(self.servers)) < len(self.servers):
            raise PlanError("servers: one is named twice; leave it out")

    @cached_property
    def graph(self) -> Graph:
        """The topology as arrays."""
        return Graph.of(self.topology)

    @cached_property
    def workers(self) -> list[int]:
        """Nodes that train, in rank order."""
        return [self.graph.index[node.name] for node in self.topology.workers]

    @cached_property
    def capacities_bps(self) -> Floats:
        """(arcs + nodes,) bit/s; infinite for nodes whose adding is not limited, as workers'."""
        adding = np.where(self.graph.adding_bps > 0, self.graph.adding_bps, np.inf)
        return np.concatenate([self.graph.bandwidth_bps, adding])

    def name(self, capacity: int) -> str:
        """The link's direction, or whose adding it is."""
        arcs = self.graph.arc_count
        return self.graph.arc_name(capacity) if capacity < arcs else f"{self.graph.names[capacity - arcs]} adds"

    def roots(self) -> list[int]:
        """Nodes that can sum for all workers, those with the shortest ways first."""
        sums = np.flatnonzero(self.graph.adding_bps > 0)
        hops = self.graph.hops_to(sums)[:, self.workers]
        reached = hops.max(axis=1) < UNREACHABLE
        return [int(node) for node in sums[reached][np.argsort(hops[reached].sum(axis=1), kind="stable")]]

    def tree(self, target: int) -> Tree:
        """The ways of all workers to a node."""
        if target not in self._trees:
            self._trees[target] = _grow(self.graph, self.workers, target)
        return self._trees[target]

    # The tiers.

    def replicated(self, root: int) -> Load:
        """Tier A: summed at a root, and broadcast from there."""
        tree, total = self.tree(root), len(self.workers)
        load = _Sum()
        for together, times in tree.up.items():
            load.add(Quantity(together, POSITION_BYTES), times)
        load.add(Quantity(total, POSITION_BYTES), tree.down)
        return load.total

    def summed(self) -> Load:
        """Tier B: summed on the way to the server, and pulled from there. Its rows are too far apart for positions."""
        load = _Sum(self._pulled(KEY_BYTES))
        for server in self.server_nodes:
            for together, times in self.tree(server).up.items():
                load.add(Quantity(together, KEY_BYTES), times / len(self.servers))
        return load.total

    def direct(self, key_bytes: int = KEY_BYTES) -> Load:
        """Tier C: straight to the server, and pulled from there."""
        load = _Sum(self._pulled(key_bytes))
        load.add(Quantity(1, key_bytes), self._to_servers + self._adding)
        return load.total

    def dense(self, root: int | None) -> Floats:
        """How often each capacity carries the dense gradient: summed at a root, or at the servers without one."""
        if root is None:
            return self._to_servers + self._adding + self._from_servers
        tree = self.tree(root)
        return np.asarray(sum(tree.up.values()) + tree.down)

    def sums_below(self, nodes: Sequence[int]) -> set[int]:
        """Nodes that hold hot rows on the way to these."""
        return {node for target in nodes for node in self.tree(target).sums_at}

    @cached_property
    def server_nodes(self) -> list[int]:
        """The servers, by index."""
        return [self.graph.index[name] for name in self.servers]

    def _pulled(self, key_bytes: int) -> Load:
        """Requests up, values down."""
        return {Quantity(1, key_bytes, has_values=False): self._to_servers, Quantity(1, key_bytes): self._from_servers}

    @cached_property
    def _to_servers(self) -> Floats:
        return self._between(self.workers, self.server_nodes)

    @cached_property
    def _from_servers(self) -> Floats:
        return self._between(self.server_nodes, self.workers)

    @cached_property
    def _adding(self) -> Floats:
        """What workers push is added at the servers."""
        times = np.zeros(len(self.capacities_bps))
        for server in self.server_nodes:
            times[self.graph.arc_count + server] += len(self.workers) / len(self.servers)
        return times

    def _between(self, sources: Sequence[int], targets: Sequence[int]) -> Floats:
        pairs = np.array([(source, target) for source in sources for target in targets])
        times = loads(self.graph, pairs[:, 0], pairs[:, 1], np.full(len(pairs), 1 / len(self.servers)))
        return np.concatenate([times, np.zeros(self.graph.node_count)])


class _Sum:
    """Loads that add up."""

    def __init__(self, begin: Load | None = None) -> None:
        self.total: dict[Quantity, Floats] = dict(begin or {})

    def add(self, quantity: Quantity, times: Floats) -> None:
        self.total[quantity] = self.total[quantity] + times if quantity in self.total else times


def _grow(graph: Graph, workers: Sequence[int], target: int) -> Tree:
    """Merges ways from the farthest node on; each node has one way, the network's own."""
    hops = graph.hops_to(np.array([target]))[0]
    arcs = graph.arc_count
    up: dict[int, Floats] = defaultdict(lambda: np.zeros(arcs + graph.node_count))
    down = np.zeros(arcs + graph.node_count)
    first = _first_arcs(graph, target)
    arrived: dict[int, Counter[int]] = defaultdict(Counter)
    for worker in workers:
        if hops[worker] == UNREACHABLE:
            raise PlanError(f"{graph.names[worker]} does not reach {graph.names[target]}; link them by switches")
        arrived[worker][1] += 1
    sums_at: list[int] = []
    while nodes := [node for node in arrived if node != target]:
        node = max(nodes, key=lambda one: (hops[one], one))
        flows = arrived.pop(node)
        if graph.adding_bps[node] > 0 and flows.total() > 1:
            sums_at.append(node)
            for together, count in flows.items():
                up[together][arcs + node] += count
            flows = Counter({sum(together * count for together, count in flows.items()): 1})
        arc = int(first[node])
        for together, count in flows.items():
            up[together][arc] += count
        down[arc ^ 1] += flows.total()
        arrived[int(graph.target[arc])] += flows
    for together, count in arrived[target].items():
        up[together][arcs + target] += count
    return Tree(dict(up), down, sums_at)


def _first_arcs(graph: Graph, target: int) -> Ints:
    """(nodes,) the arc by which each node sends to a target."""
    nodes = np.arange(graph.node_count)
    first = np.full(graph.node_count, -1)
    for flows, arcs in steps(graph, nodes, np.full(graph.node_count, target)):
        new = first[flows] < 0
        first[flows[new]] = arcs[new]
    return first
