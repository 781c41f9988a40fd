"""From an assignment to a plan whose switches sum: links, ways and slots beside the trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from itertools import pairwise

import numpy as np

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, SubModel
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.conversion import as_plan
from wiresum.plan.assignment.routes import Path
from wiresum.plan.fabric import UNREACHABLE, Fabric
from wiresum.plan.members import NodeChild, WorkerChild
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import parents_of, plan_node
from wiresum.plan.switching import (
    ADDRESSED,
    DEFAULT_TIMEOUT_S,
    MAX_SWITCHED_VALUES,
    NEEDS_SERVER,
    POLICIES,
    SHARING,
    FabricEnd,
    FabricLeg,
    FabricLink,
    FabricMemory,
    FabricPlace,
    FabricStream,
    FabricWay,
    PlanFabric,
    SwitchPolicy,
)

LINK_NETWORK = IPv4Address("10.98.0.0")
"""Link i has the addresses 2i and 2i + 1 from here on."""
MAX_LINKS = 1 << 15
"""Of which the network has two addresses each."""
ANYWHERE = "0.0.0.0"
"""Switches and servers receive on all of their links."""
CODEC = "fixed:1e6"
"""Where the job names no factor: sums of 64 workers are below 2³¹ for gradients below 32."""


def as_switched_plan(
    planner: str,
    assignment: Assignment,
    options: PlanOptions,
    policy: SwitchPolicy | None = None,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    slots: int | None = None,
) -> AggregationPlan:
    """A plan that a network of switches runs: each link, hop by hop, and each sum as the assignment has it.

    Each distinct tree is a stream with its sub-models' share of the bytes, and with slots for a window of it where it
    is summed. Where the assignment names no way, it is one shortest path.

    Args:
        planner: who decided.
        assignment: with a topology whose nodes have addresses.
        options: the operator's choices.
        policy: what the switches do; the planner's where absent, or else `exclusive` where each sub-model has memory of
            its own, and `register` where not.
        timeout_s: see `PlanFabric`.
        slots: of each stream where it is summed; its window where absent.

    Raises:
        PlanError: the assignment breaks a rule of its own, has a node that sums without forwarding below another, or
            does not suit the policy.
    """
    usual: SwitchPolicy = "exclusive" if assignment.allocation == "exclusive" else "register"
    chosen: SwitchPolicy = policy or POLICIES.get(planner, usual)
    assignment = _fixed(assignment)
    plan = as_plan(planner, unlimited(assignment), options.model_copy(update={"engine": "udp"}))
    wired = _Wiring(assignment, options, chosen, slots).wired(plan, timeout_s)
    _check_memory(assignment, wired)
    return wired


def _fixed(assignment: Assignment) -> Assignment:
    """The assignment of a job that switches can carry."""
    instance = assignment.instance
    job = instance.job
    codec = job.codec if job.codec.startswith("fixed:") else CODEC
    values = min(job.packet_values, MAX_SWITCHED_VALUES)
    job = job.model_copy(update={"codec": codec, "values_per_packet": values})
    return replace(assignment, instance=replace(instance, job=job))


def unlimited(assignment: Assignment) -> Assignment:
    """The assignment where memory bounds nothing: servers' slots would be in it, and here switches sum."""
    instance = assignment.instance
    nodes = [node.model_copy(update={"memory_bytes": None}) for node in instance.topology.nodes]
    topology = instance.topology.model_copy(update={"nodes": nodes})
    return replace(assignment, instance=replace(instance, topology=topology))


def _check_memory(assignment: Assignment, plan: AggregationPlan) -> None:
    topology = assignment.instance.topology
    for memory in plan.fabric.memory if plan.fabric else []:
        node = topology.node(plan.node(memory.node).name)
        needed = memory.slots * plan.job.payload_bytes
        if node.memory_bytes is not None and needed + node.memory_used_bytes > node.memory_bytes:
            raise PlanError(
                f"switch {node.name} has {node.memory_bytes - node.memory_used_bytes} bytes for fragments and the "
                f"streams' windows need {needed}; lower the job's `window`, or give fewer `slots`"
            )


@dataclass
class _Wiring:
    """Numbers of nodes, ways, and slots that are taken.

    Attributes:
        assignment: what is carried out.
        options: the operator's choices.
        policy: of the switches.
        slots: of each stream where it is summed; its window where absent.
        taken: slots in use, by node id.
    """

    assignment: Assignment
    options: PlanOptions
    policy: SwitchPolicy
    slots: int | None = None
    taken: dict[int, int] = field(default_factory=dict)

    def wired(self, plan: AggregationPlan, timeout_s: float) -> AggregationPlan:
        """The plan with a fabric, and with every switch among its nodes."""
        topology = self.assignment.instance.topology
        inner = [node for node in topology.nodes if node.kind != "worker"]
        numbers = {node.id: node.name for node in plan.nodes}
        others = [node for node in inner if node.name not in numbers.values()]
        numbers |= {len(numbers) + index: node.name for index, node in enumerate(others)}
        ids = {name: number for number, name in numbers.items()}
        address = f"{ANYWHERE}:{self.options.port}"
        nodes = [
            plan_node(topology, topology.node(name), number, self.options).model_copy(
                update={"address": address, "engine": "udp", "ingress_bps": None, "egress_bps": None}
            )
            for number, name in numbers.items()
        ]
        ranks = {worker.name: worker.rank for worker in plan.workers}
        sub_models = [self._held(sub_model) for sub_model in plan.sub_models]
        streams = [self._stream(plan, sub_model, ids) for sub_model in sub_models]
        memory = [FabricMemory(node=node, slots=slots) for node, slots in sorted(self.taken.items())]
        fabric = PlanFabric(
            policy=self.policy, timeout_s=timeout_s, links=self._links(ids, ranks), memory=memory, streams=streams
        )
        changed = {
            "nodes": [node.model_dump() for node in nodes],
            "sub_models": [sub_model.model_dump() for sub_model in sub_models],
            "fabric": fabric.model_dump(),
        }
        return AggregationPlan.build(**{**plan.model_dump(), **changed})

    def _held(self, sub_model: SubModel) -> SubModel:
        """Where a slot is an offset into the window, the window is no longer than what a collective needs."""
        if self.policy != "exclusive" or sub_model.role == "exponents":
            return sub_model
        needed = math.ceil(sub_model.share * self.assignment.instance.job.fragments)
        return sub_model.model_copy(update={"window": max(1, min(sub_model.window, needed))})

    def _links(self, ids: Mapping[str, int], ranks: Mapping[str, int]) -> list[FabricLink]:
        links = self.assignment.instance.topology.links
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

    def _stream(self, plan: AggregationPlan, sub_model: SubModel, ids: Mapping[str, int]) -> FabricStream:
        parents = parents_of(plan, sub_model)
        root = next(name for name, parent in parents.items() if parent is None)
        is_check = sub_model.role == "exponents"
        below = [worker.name for worker in plan.workers]
        chains = [[name, root] if is_check else _chain(parents, name) for name in below]
        if (top := self._top(plan)) is not None:
            chains = [[name, top] if is_check else chain[:-1] for name, chain in zip(below, chains, strict=True)]
            sums = sorted({name for chain in chains for name in chain[1:]}, key=ids.__getitem__)
        else:
            sums = sorted({name for chain in chains for name in chain[1:-1]}, key=ids.__getitem__)
        places = [self._place(ids[name], sub_model) for name in sums]
        ways = [FabricWay(worker=rank, legs=self._legs(chain, ids)) for rank, chain in enumerate(chains)]
        return FabricStream(sub_model=sub_model.id, places=places, ways=ways)

    def _top(self, plan: AggregationPlan) -> str | None:
        """The switch that has the results, where no server does: `segment` needs none where one switch sums all."""
        trees = [parents_of(plan, sub_model) for sub_model in plan.sub_models if sub_model.role == "values"]
        chains = [_chain(parents, worker.name) for parents in trees for worker in plan.workers]
        tops = {chain[-2] for chain in chains if len(chain) > 2}  # noqa: PLR2004 - a worker and a server
        is_one = len(tops) == 1 and all(len(chain) > 2 for chain in chains)  # noqa: PLR2004
        if self.policy == "segment":
            return tops.pop() if is_one and all(len(chain) == 3 for chain in chains) else None  # noqa: PLR2004
        if NEEDS_SERVER.get(self.policy, True):
            return None
        if not is_one:
            raise PlanError(
                f"{self.policy} has no server: its sums need one switch at the top, and a plan of {plan.planner} has "
                "none; choose another policy, or the planner `switchml`"
            )
        return tops.pop()

    def _place(self, node: int, sub_model: SubModel) -> FabricPlace:
        base = 0 if self.policy in SHARING else self.taken.get(node, 0)
        slots = self.slots or sub_model.window
        if not NEEDS_SERVER.get(self.policy, True):
            # Positions are taken modulo twice the slots.
            slots = 1 << (slots - 1).bit_length()
        self.taken[node] = max(self.taken.get(node, 0), base + slots)
        return FabricPlace(node=node, base=base, slots=slots)

    def _legs(self, chain: Sequence[str], ids: Mapping[str, int]) -> list[FabricLeg]:
        paths = [self._path(source, target) for source, target in pairwise(chain)]
        if self.policy in ADDRESSED:
            return [
                FabricLeg(node=ids[target], links=[arc // 2 for arc in path])
                for target, path in zip(chain[1:], paths, strict=True)
            ]
        return [FabricLeg(links=[arc // 2 for path in paths for arc in path])]

    def _path(self, source: str, target: str) -> Path:
        """As the planner has it, or one shortest."""
        instance, routes = self.assignment.instance, self.assignment.routes
        fabric = instance.fabric
        begin, end = fabric.index[source], fabric.index[target]
        if routes is not None:
            chosen = [*routes.of_workers, *routes.of_aggregators.values()]
            for path in chosen:
                if path and (fabric.source[path[0]], fabric.target[path[-1]]) == (begin, end):
                    return path
        return shortest(fabric, begin, end)


def _chain(parents: Mapping[str, str | None], worker: str) -> list[str]:
    chain = [worker]
    while (above := parents[chain[-1]]) is not None:
        chain.append(above)
    return chain


def shortest(fabric: Fabric, begin: int, end: int) -> Path:
    """One shortest path: of several, the one over the links that come first in the topology.

    Raises:
        PlanError: there is none.
    """
    hops = fabric.hops_to(np.array([end]))[0]
    if hops[begin] == UNREACHABLE:
        raise PlanError(f"{fabric.names[begin]} does not reach {fabric.names[end]}; link them by switches")
    path: list[int] = []
    at = begin
    while at != end:
        arcs = np.flatnonzero(fabric.source == at)
        ahead = [int(arc) for arc in arcs if hops[fabric.target[arc]] == hops[at] - 1]
        path.append(ahead[0])
        at = int(fabric.target[ahead[0]])
    return tuple(path)
