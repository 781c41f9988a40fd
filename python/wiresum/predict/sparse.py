"""What a sparse round puts on every link, by the tier of each row: linear in what is counted of a trace.

A row that one worker touches with probability p is on a worker's link up with p in every tier. Down it is with p where
it is pulled, and with 1 − (1 − p)ᴺ where it is broadcast. A server gets it N · p times where nobody sums,
1 − (1 − p)ᴺ times where its sum is complete on the way, and not at all where replicas are kept. What a row takes on the
wire is in `forms`. Workers that push more rows than others have as much more on their links.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wiresum.errors import PlanError
from wiresum.predict.forms import Form, Forms, packets, tcp
from wiresum.sparse.counts import Counts
from wiresum.topology.graph import UNREACHABLE, Floats, Graph, Ints
from wiresum.topology.hashing import loads, steps
from wiresum.topology.model import Topology


class Quantity(NamedTuple):
    """Something that is counted of a round.

    Attributes:
        together: workers whose distinct rows are meant.
        form: how they travel.
    """

    together: int
    form: Form

    def up_to(self, counts: Counts) -> Floats:
        """(seen + 1,) bytes of the first so many rows by popularity."""
        return counts.bytes_up_to(self.together, self.form.bytes_of)


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
        forms: how rows travel.
        rivals: how the rows of push/pull travel, which is compared with.
        scales: (workers,) rows that each worker pushes, over the mean; all alike where absent.
    """

    topology: Topology
    servers: Sequence[str]
    forms: Forms = field(default_factory=packets)
    rivals: Forms = field(default_factory=tcp)
    scales: Sequence[float] | None = None
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

    def of(self, counts: Counts) -> SparseNetwork:
        """The same network, with workers as uneven as they were counted."""
        return replace(self, scales=counts.scales, _trees={})

    @cached_property
    def rival(self) -> SparseNetwork:
        """The same network, with the rows of push/pull."""
        return replace(self, forms=self.rivals, _trees={})

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
            self._trees[target] = _grow(self.graph, self._scaled, target)
        return self._trees[target]

    # The tiers.

    def replicated(self, root: int) -> Load:
        """Tier A: summed at a root, and broadcast from there."""
        tree, total = self.tree(root), len(self.workers)
        load = _Sum()
        for together, times in tree.up.items():
            load.add(Quantity(together, self.forms.hot_rows), times)
        load.add(Quantity(total, self.forms.hot_sums), tree.down)
        return load.total

    def summed(self) -> Load:
        """Tier B: summed on the way to the server, and pulled from there."""
        load = _Sum(self._pulled())
        for server in self.server_nodes:
            for together, times in self.tree(server).up.items():
                form = self.forms.push if together == 1 else self.forms.row_sums
                load.add(Quantity(together, form), times / len(self.servers))
        return load.total

    def direct(self) -> Load:
        """Tier C: straight to the server, and pulled from there."""
        load = _Sum(self._pulled())
        load.add(Quantity(1, self.forms.push), self._to_servers + self._adding)
        return load.total

    def gathered(self, node: int) -> tuple[Load, Load]:
        """Tiers A and B where one node alone sums, and each worker gets results of its own, as switches do live."""
        up, total = self._between(self.workers, [node], self._shares), len(self.workers)
        down = self._between([node], self.workers)
        up[self.graph.arc_count + node] += total
        replicated, summed = _Sum(), _Sum(self._pulled())
        replicated.add(Quantity(1, self.forms.hot_rows), up)
        summed.add(Quantity(1, self.forms.push), up)
        replicated.add(Quantity(total, self.forms.hot_sums), down)
        self._add_onward(summed, node)
        return replicated.total, summed.total

    def merged(self, root: int) -> tuple[Load, Load]:
        """Tiers A and B where each node that sums on the way to a root does, and results are copied where ways part."""
        tree, total = self.tree(root), len(self.workers)
        replicated, summed = _Sum(), _Sum(self._pulled())
        for together, times in tree.up.items():
            hot, far = (self.forms.hot_rows, self.forms.push) if together == 1 else 2 * (self.forms.partial_sums,)
            replicated.add(Quantity(together, hot), times)
            summed.add(Quantity(together, far), times)
        replicated.add(Quantity(total, self.forms.hot_sums), tree.down)
        self._add_onward(summed, root)
        return replicated.total, summed.total

    def dense(self, root: int | None) -> Floats:
        """How often each capacity carries the dense gradient: summed at a root, or at the servers without one."""
        if root is None:
            even = replace(self, scales=None, _trees={})
            return self.forms.dense * (even._to_servers + even._adding + even._from_servers)
        tree = _grow(self.graph, dict.fromkeys(self.workers, 1.0), root)
        return np.asarray(self.forms.dense * (sum(tree.up.values()) + tree.down))

    def parents(self, root: int) -> dict[str, str | None]:
        """The tree to a root by names: the next node that sums on the way of each worker, and of each such node."""
        summing, first = {root, *self.tree(root).sums_at}, _first_arcs(self.graph, root)

        def above(node: int) -> int:
            node = int(self.graph.target[first[node]])
            return node if node in summing else above(node)

        names = self.graph.names
        tree: dict[str, str | None] = {names[root]: None}
        return tree | {names[node]: names[above(node)] for node in [*self.workers, *summing] if node != root}

    def sums_below(self, nodes: Sequence[int]) -> set[int]:
        """Nodes that hold hot rows on the way to these."""
        return {node for target in nodes for node in self.tree(target).sums_at}

    @cached_property
    def server_nodes(self) -> list[int]:
        """The servers, by index."""
        return [self.graph.index[name] for name in self.servers]

    def _pulled(self) -> Load:
        """Requests up, values down."""
        return {Quantity(1, self.forms.pull): self._to_servers, Quantity(1, self.forms.weights): self._from_servers}

    def _add_onward(self, summed: _Sum, node: int) -> None:
        """Whole sums from a node to their servers."""
        for server in self.server_nodes:
            onward = self._between([node], [server]) if server != node else np.zeros(len(self.capacities_bps))
            onward[self.graph.arc_count + server] += 1
            summed.add(Quantity(len(self.workers), self.forms.row_sums), onward / len(self.servers))

    @property
    def _scaled(self) -> dict[int, float]:
        """Workers, with how much each pushes over the mean."""
        scales = self.scales or [1.0] * len(self.workers)
        return dict(zip(self.workers, scales, strict=True))

    @property
    def _shares(self) -> Floats:
        return np.array(list(self._scaled.values()))

    @cached_property
    def _to_servers(self) -> Floats:
        return self._between(self.workers, self.server_nodes, self._shares) / len(self.servers)

    @cached_property
    def _from_servers(self) -> Floats:
        return self._between(self.server_nodes, self.workers, self._shares) / len(self.servers)

    @cached_property
    def _adding(self) -> Floats:
        """What workers push is added at the servers."""
        times = np.zeros(len(self.capacities_bps))
        for server in self.server_nodes:
            times[self.graph.arc_count + server] += len(self.workers) / len(self.servers)
        return times

    def _between(self, sources: Sequence[int], targets: Sequence[int], of_worker: Floats | None = None) -> Floats:
        """How often each capacity carries what all sources send to all targets.

        Args:
            sources: nodes.
            targets: nodes.
            of_worker: how much, by worker, where the workers are one of both.
        """
        pairs = np.array([(source, target) for source in sources for target in targets])
        times = np.ones(len(pairs))
        if of_worker is not None:
            is_up = list(sources) == self.workers
            times = np.repeat(of_worker, len(targets)) if is_up else np.tile(of_worker, len(sources))
        carried = loads(self.graph, pairs[:, 0], pairs[:, 1], times)
        return np.concatenate([carried, np.zeros(self.graph.node_count)])


class _Sum:
    """Loads that add up."""

    def __init__(self, begin: Load | None = None) -> None:
        self.total: dict[Quantity, Floats] = dict(begin or {})

    def add(self, quantity: Quantity, times: Floats) -> None:
        self.total[quantity] = self.total[quantity] + times if quantity in self.total else times


def _grow(graph: Graph, workers: Mapping[int, float], target: int) -> Tree:
    """Merges ways from the farthest node on; each node has one way, the network's own.

    Args:
        graph: the network.
        workers: how much each sends, over the mean.
        target: where the ways end.
    """
    hops = graph.hops_to(np.array([target]))[0]
    arcs = graph.arc_count
    up: dict[int, Floats] = defaultdict(lambda: np.zeros(arcs + graph.node_count))
    down = np.zeros(arcs + graph.node_count)
    first = _first_arcs(graph, target)
    arrived: dict[int, Counter[tuple[int, float]]] = defaultdict(Counter)
    for worker, scale in workers.items():
        if hops[worker] == UNREACHABLE:
            raise PlanError(f"{graph.names[worker]} does not reach {graph.names[target]}; link them by switches")
        arrived[worker][1, scale] += 1
    sums_at: list[int] = []
    while nodes := [node for node in arrived if node != target]:
        node = max(nodes, key=lambda one: (hops[one], one))
        flows = arrived.pop(node)
        if graph.adding_bps[node] > 0 and flows.total() > 1:
            sums_at.append(node)
            for (together, scale), count in flows.items():
                up[together][arcs + node] += scale * count
            flows = Counter({(sum(together * count for (together, _), count in flows.items()), 1.0): 1})
        arc = int(first[node])
        for (together, scale), count in flows.items():
            up[together][arc] += scale * count
        down[arc ^ 1] += flows.total()
        arrived[int(graph.target[arc])] += flows
    for (together, scale), count in arrived[target].items():
        up[together][arcs + target] += scale * count
    return Tree(dict(up), down, sums_at)


def _first_arcs(graph: Graph, target: int) -> Ints:
    """(nodes,) the arc by which each node sends to a target."""
    nodes = np.arange(graph.node_count)
    first = np.full(graph.node_count, -1)
    for flows, arcs in steps(graph, nodes, np.full(graph.node_count, target)):
        new = first[flows] < 0
        first[flows[new]] = arcs[new]
    return first
