"""Plans whose nodes or links are gone: every child without a way to its parent gets another parent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream, Tree
from wiresum.plan.placement import Parents, parents_of
from wiresum.plan.trees import with_tree, without_lost_ways
from wiresum.planners.xagg.selection import server, why_not
from wiresum.predict import bound_tree
from wiresum.topology.model import Topology
from wiresum.topology.paths import Capacity, RoutedTopology

MAX_ROOTS = 8
"""Roots that are tried in the place of a lost one: nodes of the tree first, then the best that are free."""
UNIT_BYTES = 1.0
"""Trees are compared by the time of their busiest link, of whatever gradient."""


def mend(plan: AggregationPlan, topology: Topology) -> tuple[AggregationPlan, list[str]]:
    """The plan without what is gone, and what that was; the plan itself if nothing is.

    A child whose parent is gone, does not sum any more or is out of reach goes to the node of its tree over whose way
    the busiest link stays the least busy; or all children of a lost node go to one free server in its place, if the
    tree's busiest link is then done sooner. A lost root is replaced by a node of the tree, or a free server. Ways that
    the plan names stay while they lead from child to parent.

    Args:
        plan: so far.
        topology: now, with addresses.

    Raises:
        PlanError: a worker is gone or cut off, or no node is left that can sum.
    """
    network = RoutedTopology(topology)
    known = {node.name for node in topology.nodes}
    gone = next((worker.name for worker in plan.workers if worker.name not in known), None)
    if gone is not None:
        raise PlanError(f"worker {gone} is not in topology {topology.name}; plan anew for the workers that are left")
    plan, reasons = without_lost_ways(plan, topology)
    changed = plan
    for tree in _distinct(plan):
        streams = [one for one in plan.streams if one.tree == tree]
        broken = _Broken(plan, network, streams, parents_of(plan, streams[0]))
        if broken.is_whole:
            continue
        options = list(broken.options())
        if not options:
            raise PlanError(broken.hopeless())
        best = min(options, key=lambda parents: _busiest_seconds(topology, parents))
        changed = with_tree(changed, topology, tree, best)
        reasons += broken.reasons()
    return changed, list(dict.fromkeys(reasons))


def _busiest_seconds(topology: Topology, parents: Parents) -> float:
    """Seconds of the busiest link; infinite with a server that cannot add, which is moved for its load afterwards."""
    able = {node.name for node in topology.nodes if node.available_rate_bps}
    inner = {parent for parent in parents.values() if parent is not None}
    return bound_tree(topology, parents, UNIT_BYTES) if inner <= able else inf


def _distinct(plan: AggregationPlan) -> list[Tree]:
    return list(dict.fromkeys(stream.tree for stream in plan.streams))


@dataclass(frozen=True, eq=False)
class _Broken:
    """A tree of which something may be gone."""

    plan: AggregationPlan
    network: RoutedTopology
    streams: Sequence[PlanStream]
    parents: Parents

    @property
    def lost(self) -> list[str]:
        """Servers that are gone, or do not sum."""
        sums = {node.name for node in self.network.topology.summing_nodes}
        return [name for name in self.parents if name not in sums and name not in self._workers]

    @property
    def cut(self) -> list[str]:
        """Children that do not reach their parent although both are there."""
        lost = set(self.lost)
        edges = [(child, parent) for child, parent in self.parents.items() if parent is not None]
        both = [edge for edge in edges if not lost & set(edge)]
        return [child for child, parent in both if not self.network.reaches(child, parent)]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is gone."""
        return not self.lost and not self.cut

    @property
    def _workers(self) -> set[str]:
        return {worker.name for worker in self.plan.workers}

    def reasons(self) -> list[str]:
        """What is gone."""
        known = {node.name for node in self.network.topology.nodes}
        lost = [f"{name} {'does not sum any more' if name in known else 'is gone'}" for name in self.lost]
        return [*lost, *(f"{name} does not reach {self.parents[name]} any more" for name in self.cut)]

    def hopeless(self) -> str:
        """Why there is no other tree."""
        what = "; ".join(self.reasons())
        return f"{what}: no node that sums is left for its children; mend the network, or add a server that they reach"

    def options(self) -> Iterator[Parents]:
        """Whole trees."""
        top = next(name for name, parent in self.parents.items() if parent is None)
        inner = [name for name in self.parents if name not in self._workers and name not in self.lost]
        free = self._free()
        for root in [top] if top in inner else [*inner, *free][:MAX_ROOTS]:
            hung = self._hung(root)
            if hung is not None:
                yield hung
        for other in free[:MAX_ROOTS]:
            for name in self.lost[:1]:
                renamed = {child: other if parent == name else parent for child, parent in self.parents.items()}
                placed = {other if child == name else child: parent for child, parent in renamed.items()}
                hung = _Broken(self.plan, self.network, self.streams, placed)._hung(None)
                if hung is not None:
                    yield hung

    def _free(self) -> list[str]:
        """Servers without a place in the plan, that have memory and cores; the best first."""
        needed = sum(stream.slot_bytes(self.plan.job.payload_bytes) for stream in self.streams)
        taken = {node.name for node in self.plan.nodes}
        nodes = [node for node in self.network.topology.summing_nodes if node.name not in taken]
        able = [server(self.network, node) for node in nodes if why_not(self.network, node, needed, []) is None]
        return [one.name for one in sorted(able, key=lambda one: -one.bandwidth_bps)]

    def _hung(self, root: str | None) -> Parents | None:
        """With every orphan below some node of the tree, the larger parts first; None if one finds no place."""
        lost = set(self.lost)
        top = root or next(name for name, parent in self.parents.items() if parent is None)
        if top in lost:
            return None
        kept = {child: parent for child, parent in self.parents.items() if child not in lost and child != top}
        tree: dict[str, str | None] = {top: None}
        tree |= {child: parent for child, parent in kept.items() if parent in {*kept, top} and child not in self.cut}
        hanging = _Hanging(self.network, tree, [name for name in (top, *kept) if name not in self._workers])
        orphans = [child for child in kept if child not in tree]
        for child in sorted(orphans, key=lambda name: name in self._workers):
            parent = hanging.place(child)
            if parent is None:
                return None
            tree[child] = parent
        return _useful({name: tree[name] for name in (top, *kept)}, self._workers)


def _useful(tree: Parents, workers: set[str]) -> Parents:
    """Without servers that have no child any more."""
    while True:
        idle = set(tree) - workers - set(tree.values())
        if not idle:
            return tree
        tree = {child: parent for child, parent in tree.items() if child not in idle}


class _Hanging:
    """A tree that grows, and the load of its ways."""

    def __init__(self, network: RoutedTopology, tree: Mapping[str, str | None], servers: Sequence[str]) -> None:
        self._network, self._tree, self._servers = network, tree, servers
        self._load: Counter[Capacity] = Counter()
        for child, parent in tree.items():
            if parent is not None:
                self._load.update(network.path(child, parent))

    def place(self, child: str) -> str | None:
        """The parent over whose way the busiest link stays the least busy; the nearest of equals."""
        children = Counter(self._tree.values())
        roomy = [one for one in self._servers if children[one] < wire.MAX_CONTRIBUTORS and self._hangs(one)]
        able = [one for one in roomy if self._network.reaches(child, one)]
        best = min(able, key=lambda one: self._busiest(child, one), default=None)
        if best is not None:
            self._load.update(self._network.path(child, best))
        return best

    def _hangs(self, server: str) -> bool:
        """Whether the server hangs on the root already, so that no orphan is above it."""
        node = server
        for _ in range(len(self._tree)):
            above = self._tree.get(node, server)
            if above is None:
                return True
            node = above
        return False

    def _busiest(self, child: str, parent: str) -> tuple[float, int]:
        path = self._network.path(child, parent)
        return max((self._load[one] + 1) / self._network.capacities[one] for one in path), len(path)
