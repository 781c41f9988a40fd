"""The flows of an all-reduce: gradients up a tree, results down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wiresum.errors import PlanError
from wiresum.plan.placement import Parents
from wiresum.predict.flow import Flow
from wiresum.topology.paths import Capacity, RoutedTopology, Routes


@dataclass
class Schedule:
    """All flows of one all-reduce, over one network.

    Attributes:
        network: paths and capacities.
        upload_only: whether the results stay at the root.
        flows: so far; the numbers in `feeds` are indices into this.
        capacities: bit/s of what the flows cross.
    """

    network: RoutedTopology
    upload_only: bool = False
    flows: list[Flow] = field(default_factory=list)
    capacities: dict[Capacity, float] = field(default_factory=dict)

    def add_tree(
        self,
        parents: Parents,
        wire_bytes: float,
        *,
        starts: Mapping[str, float],
        stream: str = "values",
        lockstep: bool = False,
        adding_factor: float = 1.0,
        routes: Routes | None = None,
    ) -> None:
        """Adds the flows of a stream that is summed along a tree.

        Args:
            parents: the tree, workers included.
            wire_bytes: of the stream on each edge, in each direction.
            starts: seconds at which workers have their gradients; 0 for those that are not named.
            stream: its name.
            lockstep: as under `pool`: all edges have the rate of the slowest and begin with the latest.
            adding_factor: bytes on the wire for each byte of gradient, in which nodes' adding rates are given.
            routes: of its edges, both ways, where they were chosen.

        Raises:
            PlanError: two nodes without a path, or a node that cannot add.
        """
        self._declare_adding(parents, adding_factor)
        tree = Tree(parents)
        begin = max(starts.values(), default=0.0) if lockstep else None
        uploads: dict[str, int] = {}
        for child, parent in reversed(tree.edges):
            feeds = tuple(uploads[other] for other in tree.children_of(child))
            start = starts.get(child, 0.0) if begin is None else begin
            path = (*self.network.path(child, parent, routes), Capacity.of_adding(parent))
            uploads[child] = self._add(
                Flow(stream, "gradient", child, parent, path, wire_bytes, start, feeds, stream if lockstep else None)
            )
        if not self.upload_only:
            self._add_results(tree, uploads, routes)

    def add_shares(
        self,
        parents: Parents,
        loads: Mapping[str, tuple[float, float]],
        *,
        stream: str,
        adding_factor: float,
        routes: Routes | None = None,
    ) -> None:
        """Adds the flows of a collective whose workers send and take different amounts; ways do not wait.

        Args:
            parents: workers and the node that they meet at.
            loads: bytes of each worker, up and down.
            stream: its name.
            adding_factor: as for `add_tree`.
            routes: as for `add_tree`.

        Raises:
            PlanError: as for `add_tree`.
        """
        self._declare_adding(parents, adding_factor)
        for child, parent in Tree(parents).edges:
            up, down = loads[child]
            path = (*self.network.path(child, parent, routes), Capacity.of_adding(parent))
            self._add(Flow(stream, "gradient", child, parent, path, up))
            self._add(Flow(stream, "result", parent, child, self.network.path(parent, child, routes), down))

    def _add_results(self, tree: "Tree", uploads: Mapping[str, int], routes: Routes | None) -> None:
        """A node passes on what it gets; the root what all of its children have sent."""
        results: dict[str, int] = {}
        for child, parent in tree.edges:
            upload = self.flows[uploads[child]]
            sums = tuple(uploads[other] for other in tree.children_of(parent))
            feeds = sums if parent == tree.root else (results[parent],)
            start = upload.start_seconds if upload.lockstep else 0.0
            result = replace(
                upload, kind="result", source=parent, target=child, path=self.network.path(parent, child, routes),
                start_seconds=start, feeds=feeds,
            )  # fmt: skip
            results[child] = self._add(result)

    def bound_seconds(self) -> float:
        """What the busiest capacity needs on its own: no schedule of these flows is quicker."""
        return max(self.busy_seconds().values(), default=0.0)

    def busy_seconds(self) -> dict[Capacity, float]:
        """What each capacity needs on its own."""
        busy = dict.fromkeys(self.capacities, 0.0)
        for flow in self.flows:
            for capacity in flow.path:
                busy[capacity] += flow.wire_bytes * 8 / self.capacities[capacity]
        return busy

    def _add(self, flow: Flow) -> int:
        self.flows.append(flow)
        for capacity in flow.path:
            if capacity not in self.capacities:
                self.capacities[capacity] = self.network.capacities[capacity]
        return len(self.flows) - 1

    def _declare_adding(self, parents: Parents, factor: float) -> None:
        for name in {parent for parent in parents.values() if parent is not None}:
            rate_bps = self.network.topology.node(name).available_rate_bps
            if not rate_bps:
                raise PlanError(
                    f"node {name} of the topology adds nothing, and the plan has it sum: give it an idle core and an "
                    "`aggregation_rate_bps`, or plan anew"
                )
            self.capacities[Capacity.of_adding(name)] = rate_bps * factor


class Tree:
    """A tree by names, from the root down.

    Attributes:
        root: the node without a parent.
        edges: child and parent, each child after its parent.
    """

    def __init__(self, parents: Parents) -> None:
        self._below: dict[str | None, list[str]] = {}
        for child, parent in parents.items():
            self._below.setdefault(parent, []).append(child)
        self.root = self._below[None][0]
        self.edges: list[tuple[str, str]] = []
        order = [self.root]
        for name in order:
            self.edges.extend((child, name) for child in self.children_of(name))
            order.extend(self.children_of(name))

    def children_of(self, name: str) -> Sequence[str]:
        """Its children, in the tree's order."""
        return self._below.get(name, ())
