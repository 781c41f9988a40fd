"""From a topology to the numbers of an instance, and from its trees back to names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import LANE_BYTES, SLOT_VERSIONS
from wiresum.plan.job import Job
from wiresum.plan.placement import EXPONENT_SLOTS, Parents
from wiresum.planners.forest.instance import ABSENT, Group, Instance, Tree, Uses
from wiresum.planners.forest.routes import Routes
from wiresum.topology.model import Link, Node, Topology

MIN_SLOTS = 16
"""A server with room for less is left alone: a stream needs a window."""


@dataclass(frozen=True)
class NamedInstance:
    """An instance and what its indices stand for.

    Attributes:
        instance: capacities are relative to `unit_bps`.
        unit_bps: bit/s of a capacity of 1.
        servers: summing nodes that every worker reaches.
        groups: names of each group's workers.
    """

    instance: Instance
    unit_bps: float
    servers: Sequence[str]
    groups: Sequence[Sequence[str]]

    def parents(self, tree: Tree) -> Parents:
        """A tree by names; the workers of a group are seated in order."""
        parents: dict[str, str | None] = {}
        for workers, counts in zip(self.groups, tree.children, strict=True):
            seats = [self.servers[server] for server, count in enumerate(counts) for _ in range(count)]
            parents.update(zip(workers, seats, strict=True))
        for server, parent in enumerate(tree.parents):
            if parent != ABSENT:
                parents[self.servers[server]] = None if parent == server else self.servers[parent]
        return parents


def named_instance(topology: Topology, workers: Sequence[Node], job: Job) -> NamedInstance:
    """The forest's problem for these workers.

    Raises:
        PlanError: no summing node is reached by every worker.
    """
    routes = Routes(topology)
    servers = [node for node in topology.summing_nodes if all(_joined(routes, worker, node) for worker in workers)]
    if not servers:
        raise nothing_in_common(topology, workers)
    builder = _Builder(topology, routes, [server.name for server in servers])
    grouped: dict[tuple[Uses, ...], list[str]] = {}
    for worker in workers:
        grouped.setdefault(builder.worker(worker.name), []).append(worker.name)
    between = [[builder.edge(s.name, t.name) if s is not t else () for t in servers] for s in servers]
    unit_bps = max([*builder.capacities, builder.rate_cap_bps or 0.0])
    instance = Instance(
        capacities=[capacity / unit_bps for capacity in builder.capacities],
        rate_cap=None if builder.rate_cap_bps is None else builder.rate_cap_bps / unit_bps,
        groups=[Group(len(names), uses) for uses, names in grouped.items()],
        between=between,
        room=[room_share(server, job) for server in servers],
    )
    return NamedInstance(instance, unit_bps, [s.name for s in servers], list(grouped.values()))


def nothing_in_common(topology: Topology, workers: Sequence[Node]) -> PlanError:
    """Why no node that sums is reached by every worker: the one that all but the fewest workers reach."""
    routes = Routes(topology)
    cut_off = {
        node.name: [worker.name for worker in workers if not _joined(routes, worker, node)]
        for node in topology.summing_nodes
    }
    nearest = min(cut_off, key=lambda name: len(cut_off[name]), default=None)
    without = "" if nearest is None else f" ({cut_off[nearest][0]} does not reach {nearest})"
    return PlanError(
        f"no node that sums is reached by every worker in topology {topology.name}{without}; "
        "link one to all, or give a switch an `aggregation_rate_bps`"
    )


def _joined(routes: Routes, worker: Node, server: Node) -> bool:
    both = ((worker.name, server.name), (server.name, worker.name))
    return all(routes.between(*ends) is not None for ends in both)


def room_share(server: Node, job: Job) -> float:
    """Share of the gradient that the server's memory holds; 1 if its slots are not those of a gradient."""
    if server.memory_bytes is None or job.policy == "pool" or job.slots is not None:
        return 1.0
    slots = server.memory_bytes // (SLOT_VERSIONS * LANE_BYTES * job.packet_values) - EXPONENT_SLOTS
    if slots < MIN_SLOTS:
        return 0.0
    # Slots come in powers of two; one less, as shares are cut at whole fragments.
    return min(1.0, ((1 << slots.bit_length() >> 1) - 1) / job.fragments)


@dataclass
class _Builder:
    """Numbers the resources as they are met."""

    topology: Topology
    routes: Routes
    servers: list[str]
    capacities: list[float] = field(default_factory=list)
    rate_cap_bps: float | None = None
    _numbers: dict[str, int] = field(default_factory=dict)

    def worker(self, name: str) -> tuple[Uses, ...]:
        """What a worker uses as a child of each server.

        Without its link if it has only one: every tree uses that once each way, so it bounds the common rate. So all
        workers at a switch are alike, whatever their own links are.
        """
        links = self.topology.links_of(name)
        own = links[0] if len(links) == 1 else None
        if own:
            for bandwidth_bps in (own.bandwidth_from(own.source), own.bandwidth_from(own.target)):
                self._cap(bandwidth_bps)
        return tuple(self.edge(name, server, own.id if own else None) for server in self.servers)

    def edge(self, child: str, parent: str, without: str | None = None) -> Uses:
        """What an edge of a tree uses: the ways there and back, and the parent's adder."""
        used: dict[int, float] = {}
        for route in (self.routes.between(child, parent), self.routes.between(parent, child)):
            for (link, start), amount in (route or {}).items():
                number = None if link == without else self._direction(link, start)
                if number is not None:
                    used[number] = used.get(number, 0.0) + amount
        adder = self._number(f"adder of {parent}", self.topology.node(parent).aggregation_rate_bps)
        return ((adder, 1.0), *sorted(used.items()))

    def _cap(self, bandwidth_bps: float | None) -> None:
        known = [bandwidth for bandwidth in (bandwidth_bps, self.rate_cap_bps) if bandwidth is not None]
        self.rate_cap_bps = min(known, default=None)

    def _direction(self, link_id: str, start: str) -> int | None:
        """Number of a direction of a link; None if it is unlimited."""
        link = self._links[link_id]
        bandwidth_bps = link.bandwidth_from(start)
        return None if bandwidth_bps is None else self._number(f"{link_id} from {start}", bandwidth_bps)

    def _number(self, name: str, capacity_bps: float) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.capacities)
            self.capacities.append(capacity_bps)
        return self._numbers[name]

    @cached_property
    def _links(self) -> dict[str, Link]:
        return {link.id: link for link in self.topology.links}
