"""From an assignment to a plan whose switches sum: links, legs over these, and slots where the legs end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Address
from itertools import pairwise, takewhile

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanLeg, PlanPlace, PlanStream, agrees
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.conversion import as_plan
from wiresum.plan.assignment.routes import Path, arcs
from wiresum.plan.choices import SwitchEngine, SwitchPolicy
from wiresum.plan.fabric import (
    DEFAULT_TIMEOUT_S,
    MAX_SWITCHED_VALUES,
    FabricEnd,
    FabricLink,
    FabricMemory,
    PlanFabric,
)
from wiresum.plan.job import Job
from wiresum.plan.members import NodeChild, WorkerChild
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of, plan_node
from wiresum.plan.ways import Edge, links_of
from wiresum.topology.graph import Graph
from wiresum.topology.hashing import path
from wiresum.topology.model import Node, Topology
from wiresum.wire import COHORT_WORKERS, POLICIES

LINK_NETWORK = IPv4Address("10.98.0.0")
"""Link i has the addresses 2i and 2i + 1 from here on."""
MAX_LINKS = 1 << 15
"""The network has two addresses for each link."""
ANYWHERE = "0.0.0.0"
"""Switches and servers receive on all of their links."""
Walk = list[tuple[int, str]]
"""Links by index, each with the name of the node at its end."""
CODEC = "fixed:1e6"
"""Where the job names no factor: sums of 64 workers are below 2³¹ for gradients below 32, of 255 below 8."""


def as_switched_plan(
    planner: str,
    assignment: Assignment,
    options: PlanOptions,
    policy: SwitchPolicy | None = None,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    slots: int | None = None,
    engine: SwitchEngine = "udp",
) -> AggregationPlan:
    """A plan that a network of switches runs: each link, hop by hop, and each sum as the assignment has it.

    Each distinct tree is a stream with its sub-models' share of the bytes, and with slots for a window of it where it
    is summed, those of each cohort of 64 workers. Where the assignment names no way, it is the one that the network
    would hash to. Under a policy without a server (`pool`, `cache`) a stream ends where all of its ways have met, at
    the first switch from there on that sums; with more than a cohort it ends at the server, where cohorts meet.

    Args:
        planner: who decided.
        assignment: with a topology whose nodes have addresses.
        options: the operator's choices.
        policy: what the switches do; where absent, `exclusive` where each sub-model has memory of its own, and
            `register` where not.
        timeout_s: see `PlanFabric`.
        slots: of each stream and cohort where it is summed. Where absent, its window, under `pool` rounded up to a
            power of two, and under `cache` its fragments likewise.
        engine: what runs the switches.

    Raises:
        PlanError: the assignment breaks a rule of its own, has a node that sums without forwarding below another, or
            does not suit the policy.
    """
    usual: SwitchPolicy = "exclusive" if assignment.allocation == "exclusive" else "register"
    chosen: SwitchPolicy = policy or usual
    instance = assignment.instance
    job = switchable(instance.job)
    fixed = replace(assignment, instance=replace(instance, job=job))
    plan = as_plan(planner, unlimited(fixed), options.model_copy(update={"engine": "udp"}), is_draft=True)
    wired = switched(plan, instance.topology, job, options, chosen, timeout_s=timeout_s, slots=slots)
    return with_engine(wired, engine)


def switched(
    plan: AggregationPlan,
    topology: Topology,
    job: Job,
    options: PlanOptions,
    policy: SwitchPolicy,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    slots: int | None = None,
) -> AggregationPlan:
    """A plan of trees over switches, carried out by them.

    Args:
        plan: of a `switchable` job, on the topology `without_memory`.
        topology: with the switches' memories.
        job: the plan's.
        options: the operator's choices.
        policy: what the switches do.
        timeout_s: see `PlanFabric`.
        slots: as for `as_switched_plan`.

    Raises:
        PlanError: as for `as_switched_plan`.
    """
    wired = _Wiring(plan, topology, job, options, policy, slots).wired(timeout_s)
    _check_memory(topology, wired)
    return wired


def with_engine(plan: AggregationPlan, engine: SwitchEngine) -> AggregationPlan:
    """The plan with its switches in the kernel, or in user space; parameter servers stay in user space.

    Raises:
        PlanError: servers sum in the plan.
    """
    if plan.fabric is None:
        raise PlanError("servers sum in this plan, not switches; its planner takes the engine")
    switches = plan.derived().switches
    nodes = [node.model_copy(update={"engine": engine if node.id in switches else "udp"}) for node in plan.nodes]
    return plan.model_copy(update={"nodes": nodes})


def switchable(job: Job) -> Job:
    """The job with a codec and packets that switches can carry.

    Raises:
        PlanError: it is to carry copies, or long packets, which switches do not.
    """
    if job.copies:
        raise PlanError("job.copies: switches carry no copies; leave it out, or let servers sum")
    if job.jumbo:
        raise PlanError(f"job.jumbo: switches sum at most {MAX_SWITCHED_VALUES} values of a packet; leave it out")
    codec = CODEC if agrees(job.codec) else job.codec
    # Switches know one width for each stream.
    lanes = "int32-le" if job.lanes == "auto" else job.lanes
    values = min(job.packet_values, MAX_SWITCHED_VALUES)
    return job.model_copy(update={"codec": codec, "lanes": lanes, "values_per_packet": values})


def unlimited(assignment: Assignment) -> Assignment:
    """The assignment where memory bounds nothing."""
    instance = assignment.instance
    return replace(assignment, instance=replace(instance, topology=without_memory(instance.topology)))


def without_memory(topology: Topology) -> Topology:
    """The topology where memory bounds nothing: servers' slots would be in it, and here switches sum."""
    nodes = [node.model_copy(update={"memory_bytes": None}) for node in topology.nodes]
    return topology.model_copy(update={"nodes": nodes})


def _check_memory(topology: Topology, plan: AggregationPlan) -> None:
    for memory in plan.fabric.memory if plan.fabric else []:
        node = topology.node(plan.node(memory.node).name)
        copies = POLICIES[plan.streams[0].policy].copies
        needed = copies * memory.slots * plan.job.payload_bytes
        if node.memory_bytes is not None and needed + node.memory_used_bytes > node.memory_bytes:
            raise PlanError(
                f"switch {node.name} has {node.memory_bytes - node.memory_used_bytes} bytes for fragments and the "
                f"streams' windows need {needed}; lower the job's `window`, or give fewer `slots`"
            )


@dataclass
class _Wiring:
    """Numbers of nodes, ways, and slots that are taken.

    Attributes:
        plan: what is carried out.
        topology: where.
        job: the plan's.
        options: the operator's choices.
        policy: of the switches.
        slots: of each stream where it is summed; its window where absent.
        taken: slots in use, by node id.
    """

    plan: AggregationPlan
    topology: Topology
    job: Job
    options: PlanOptions
    policy: SwitchPolicy
    slots: int | None = None
    taken: dict[int, int] = field(default_factory=dict)

    @cached_property
    def _graph(self) -> Graph:
        return Graph.of(self.topology)

    def wired(self, timeout_s: float) -> AggregationPlan:
        """The plan with a fabric, and with every switch among its nodes."""
        plan, topology = self.plan, self.topology
        inner = [node for node in topology.nodes if node.kind != "worker"]
        numbers = {node.id: node.name for node in plan.nodes}
        others = [node for node in inner if node.name not in numbers.values()]
        numbers |= {len(numbers) + index: node.name for index, node in enumerate(others)}
        ids = {name: number for number, name in numbers.items()}
        address = f"{ANYWHERE}:{self.options.port}"
        nodes = [
            plan_node(topology, _addressed(topology.node(name)), number, self.options).model_copy(
                update={"address": address, "engine": "udp", "ingress_bps": None, "egress_bps": None}
            )
            for number, name in numbers.items()
        ]
        ranks = {worker.name: worker.rank for worker in plan.workers}
        streams = [self._stream(self._held(stream), ids, ranks) for stream in plan.streams]
        memory = [FabricMemory(node=node, slots=slots) for node, slots in sorted(self.taken.items())]
        fabric = PlanFabric(timeout_s=timeout_s, links=self._links(ids, ranks), memory=memory)
        changed = {
            "nodes": [node.model_dump() for node in nodes],
            "streams": [stream.model_dump() for stream in streams],
            "fabric": fabric.model_dump(),
        }
        return AggregationPlan.build(**{**plan.model_dump(), **changed})

    def _held(self, stream: PlanStream) -> PlanStream:
        """With the window that the policy's slots allow."""
        if POLICIES[self.policy].is_clocked:
            return stream.model_copy(update={"window": min(stream.window, self._slots(stream))})
        if self.policy != "exclusive" or stream.role == "exponents":
            return stream
        # A slot is an offset into the window, which is no longer than what a collective needs.
        return stream.model_copy(update={"window": min(stream.window, self._fragments(stream))})

    def _fragments(self, stream: PlanStream) -> int:
        """Fragments of the largest collective."""
        return max(1, math.ceil(stream.share * self.job.fragments))

    def _slots(self, stream: PlanStream) -> int:
        """Slots of a stream, where it is summed."""
        if not POLICIES[self.policy].is_clocked:
            return self.slots or stream.window
        whole = self.policy == "cache" and stream.role != "exponents"
        wanted = self.slots or max(stream.window, self._fragments(stream) if whole else 1)
        return 1 << (wanted - 1).bit_length() if self.slots is None else 1 << (wanted.bit_length() - 1)

    def _links(self, ids: Mapping[str, int], ranks: Mapping[str, int]) -> list[FabricLink]:
        links = self.topology.links
        if len(links) > MAX_LINKS:
            raise PlanError(f"{len(links)} links are more than {MAX_LINKS} with addresses; plan for a smaller network")

        def end(name: str, number: int) -> FabricEnd:
            at = WorkerChild(worker=ranks[name]) if name in ranks else NodeChild(node=ids[name])
            return FabricEnd(at=at, address=f"{LINK_NETWORK + number}:{self.options.port}")

        idle = [link.id for link in links for name in (link.source, link.target) if name not in {*ids, *ranks}]
        if idle:
            raise PlanError(f"link {idle[0]} has a worker that is not in the job; remove both from the topology")
        return [
            FabricLink(id=link.id, ends=[end(link.source, 2 * index), end(link.target, 2 * index + 1)])
            for index, link in enumerate(links)
        ]

    def _stream(self, stream: PlanStream, ids: Mapping[str, int], ranks: Mapping[str, int]) -> PlanStream:
        parents = parents_of(self.plan, stream)
        root = next(name for name, parent in parents.items() if parent is None)
        top = self._top(root)
        is_check = stream.role == "exponents"
        chains = [[name, top or root] if is_check else _chain(parents, name) for name in ranks]
        chosen = {} if is_check else arcs(self.topology, links_of(self.plan, stream))
        paths = [[self._path(edge, chosen) for edge in pairwise(chain)] for chain in chains]
        sums = {name for chain in chains for name in chain[1:-1]}
        self._check_hosts(sums)
        if POLICIES[self.policy].is_addressed:
            legs = {
                source: self._walk([part])
                for chain, parts in zip(chains, paths, strict=True)
                for (source, _), part in zip(pairwise(chain), parts, strict=True)
            }
        else:
            walks = [self._walk(parts) for parts in paths]
            if top is not None:
                walks = [walk[: 1 + [name for _, name in walk].index(top)] for walk in walks]
                sums |= {top}
            legs = _cut(dict(zip(ranks, walks, strict=True)), sums)
        ends = {leg[-1][1] for leg in legs.values()}
        cohorts = _cohorts(legs, ranks)
        places = [
            self._place(ids[name], stream, len(cohorts[name])) for name in sorted(sums & ends, key=ids.__getitem__)
        ]
        if root in ends - sums:
            places.append(PlanPlace(node=ids[root]))
        numbered = [
            PlanLeg(
                child=WorkerChild(worker=ranks[name]) if name in ranks else NodeChild(node=ids[name]),
                parent=ids[leg[-1][1]],
                links=[self.topology.links[link].id for link, _ in leg],
            )
            for name, leg in legs.items()
        ]
        return stream.model_copy(update={"policy": self.policy, "places": places, "legs": numbered})

    def _check_hosts(self, sums: Set[str]) -> None:
        hosts = sorted(name for name in sums if self.topology.node(name).kind != "switch")
        if hosts:
            raise PlanError(f"{hosts[0]} sums below another node, and is no switch; leave it out, or let servers sum")

    def _top(self, root: str) -> str | None:
        """The switch that has the results, where no server does: `segment` needs none where one switch sums all.

        Raises:
            PlanError: the policy wants a server, and the plan ends at a switch; or none, and the ways do not meet.
        """
        trees = [
            (parents_of(self.plan, stream), arcs(self.topology, links_of(self.plan, stream)))
            for stream in self.plan.streams
            if stream.role == "values"
        ]
        chains = [(_chain(parents, worker.name), ways) for parents, ways in trees for worker in self.plan.workers]
        flat = {len(chain) for chain, _ in chains}
        if len(self.plan.workers) > COHORT_WORKERS:
            if self.topology.node(root).kind == "switch":
                raise PlanError(
                    f"a switch tells {COHORT_WORKERS} workers apart, and sums of {len(self.plan.workers)} meet at a "
                    f"server, not at {root}; choose a planner of switch networks (hash, register), or fewer workers"
                )
            return None
        if self.topology.node(root).kind == "switch":
            needs_server = POLICIES[self.policy].needs_server
            if flat != {len(("worker", "switch"))} if needs_server is None else needs_server:
                raise PlanError(f"{self.policy} needs a server for these sums, and {root} is a switch; use pool")
            return root
        if POLICIES[self.policy].needs_server is None:
            above = {chain[1] for chain, _ in chains}
            is_all = len(above) == 1 and flat == {len(("worker", "switch", "server"))}
            return above.pop() if is_all else None
        if POLICIES[self.policy].needs_server is not False:
            return None
        walks = [self._walk([self._path(edge, ways) for edge in pairwise(chain)]) for chain, ways in chains]
        return self._meeting(walks, root)

    def _walk(self, paths: Sequence[Path]) -> Walk:
        """Every link of a worker's values with the node that it leads to."""
        graph = self._graph
        return [(arc // 2, graph.names[graph.target[arc]]) for part in paths for arc in part]

    def _meeting(self, walks: Sequence[Walk], root: str) -> str:
        """Where sums without a server end: the first switch that sums from where all ways have met on.

        Raises:
            PlanError: there is none before the server.
        """
        topology = self.topology
        backwards = zip(*([name for _, name in reversed(walk)] for walk in walks), strict=False)
        shared: list[str] = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, backwards)]
        found = [name for name in reversed(shared) if name != root and topology.node(name).kind == "switch"]
        top = next((name for name in found if topology.node(name).sums), None)
        if top is None:
            met = f"only {', '.join(found)}, which does not sum" if found else "no switch"
            raise PlanError(
                f"{self.policy} ends its sums at a switch that all workers' ways lead over, and before {root} they "
                f"share {met}; link {root} to one switch that sums, or choose the planner `switchml` or a policy with "
                "a server (hash, register)"
            )
        return top

    def _place(self, node: int, stream: PlanStream, cohorts: int) -> PlanPlace:
        is_shared = POLICIES[self.policy].shares_slots
        base = 0 if is_shared else self.taken.get(node, 0)
        slots = self._slots(stream)
        self.taken[node] = max(self.taken.get(node, 0), base + slots * (1 if is_shared else cohorts))
        return PlanPlace(node=node, base=base, slots=slots)

    def _path(self, edge: Edge, chosen: Mapping[Edge, Path]) -> Path:
        """As the plan has it, or as the network does where nobody chooses."""
        graph = self._graph
        source, target = edge
        found = chosen.get(edge) or path(graph, graph.index[source], graph.index[target])
        if not found:
            raise PlanError(f"{source} does not reach {target}; link them by switches")
        return found


def _addressed(node: Node) -> Node:
    """Switches that only forward have no address of their own, and receive on their links' all the same."""
    return node.model_copy(update={"address": node.address or ANYWHERE})


def _cut(walks: Mapping[str, Walk], sums: Set[str]) -> dict[str, Walk]:
    """Legs by where they begin: the first walk that leads on from a node that sums is the way of its sums."""
    legs: dict[str, Walk] = {}
    for worker, walk in walks.items():
        begin, passed = worker, Walk()
        for link, name in walk:
            if begin in legs:
                break
            passed.append((link, name))
            if name in sums:
                legs[begin] = passed
                begin, passed = name, []
        if passed:
            legs[begin] = passed
    return legs


def _cohorts(legs: Mapping[str, Walk], ranks: Mapping[str, int]) -> dict[str, set[int]]:
    """By node that legs end at, the cohorts of the workers that are summed there."""
    found: dict[str, set[int]] = {}
    for worker, rank in ranks.items():
        at = worker
        while at in legs:
            at = legs[at][-1][1]
            found.setdefault(at, set()).add(rank // COHORT_WORKERS)
    return found


def _chain(parents: Mapping[str, str | None], worker: str) -> list[str]:
    chain = [worker]
    while (above := parents[chain[-1]]) is not None:
        chain.append(above)
    return chain
