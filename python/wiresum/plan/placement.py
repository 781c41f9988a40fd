"""From trees of names to a plan: what every planner does after it has decided who sums what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import (
    FORMAT,
    LANE_BYTES,
    SLOT_VERSIONS,
    AggregationPlan,
    Child,
    NodeChild,
    PlanJob,
    PlanLeg,
    PlanNode,
    PlanPlace,
    PlanStream,
    PlanWorker,
    Solution,
    WorkerChild,
)
from wiresum.plan.bandwidth import bandwidths
from wiresum.plan.exchanges import exchange_streams
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.topology.model import Node, Topology

EXPONENT_SLOTS = 64
EXPONENT_WINDOW = 32
"""One packet of exponents describes 736 packets of values, so a few are enough to stay ahead of them."""

Parents = Mapping[str, str | None]
"""A tree by names: the parent of each worker and of each aggregator above it; None at the root."""

ShardWays = Mapping[str, Sequence[str]]
"""By child: ids of the links to its parent, from the child on."""


@dataclass(frozen=True)
class Shard:
    """A part of every collective, and the tree that sums it.

    Attributes:
        parents: the tree.
        share: fraction of the values; those of all shards add up to 1.
        window: fragments of this shard that a worker has sent without an acknowledgement; the job's where absent.
        ways: of children, the links to their parents; the network's own where absent.
    """

    parents: Parents
    share: float = 1.0
    window: int | None = None
    ways: ShardWays | None = None


def participants(topology: Topology, job: Job) -> list[Node]:
    """The job's workers in rank order.

    Raises:
        PlanError: there are none, or one of the job's is not a worker.
    """
    known = {node.name: node for node in topology.nodes}
    named = None if job.workers is None else [known.get(name) or topology.node(name) for name in job.workers]
    chosen = topology.workers if named is None else named
    stranger = next((node.name for node in chosen if node.kind != "worker"), None)
    if stranger is not None:
        raise PlanError(f"job.workers: {stranger} is not a worker of topology {topology.name}; name workers only")
    if job.workers is not None and not chosen:
        raise PlanError("job.workers is empty; name at least one worker, or leave it out for all of the topology")
    twice = next((name for name, count in Counter(job.workers or ()).items() if count > 1), None)
    if twice is not None:
        raise PlanError(f"job.workers: {twice} is named twice; a worker has one rank")
    if not chosen:
        raise PlanError(f"topology {topology.name} has no workers; add nodes of the kind `worker`")
    return chosen


def assemble(
    planner: str,
    topology: Topology,
    job: Job,
    options: PlanOptions,
    shards: Sequence[Shard],
    *,
    solution: Solution | None = None,
    is_draft: bool = False,
) -> AggregationPlan:
    """A plan with one stream of values for each shard; the exponents take the tree of the first.

    Args:
        planner: who decided, and what people should know about it.
        topology: with addresses.
        job: what is placed.
        options: the operator's choices.
        shards: at least one; in each tree every worker has a parent.
        solution: how good the planner's answer is, where that is known.
        is_draft: it is to become a plan of switches, and is held to the rules for these then.

    Raises:
        PlanError: a tree has several roots or a cycle, the plan breaks a rule of `spec/plan.md`, or a node has too
            little memory for its slots.
    """
    workers = participants(topology, job)
    ranks = [worker.name for worker in workers]
    names = list(dict.fromkeys(name for shard in shards for name in _root_first(shard.parents, ranks)))
    ids = {name: index for index, name in enumerate(names)}
    fields: dict[str, Any] = {
        "format": FORMAT,
        "planner": planner,
        "solution": solution,
        "job": _job(job, len(workers)),
        "nodes": [plan_node(topology, topology.node(name), index, options) for index, name in enumerate(names)],
        "workers": [
            PlanWorker(
                rank=rank, name=worker.name, address=worker.address, egress_bps=bandwidths(topology, worker.name).egress
            )
            for rank, worker in enumerate(workers)
        ],
        "streams": _streams(job, shards, ids, ranks),
    }
    plan = AggregationPlan.model_construct(**fields) if is_draft else AggregationPlan.build(**fields)
    check_memory(topology, plan)
    return plan


def numbered_legs(
    parents: Parents, ids: Mapping[str, int], workers: Sequence[str], ways: ShardWays | None = None
) -> list[PlanLeg]:
    """A tree in numbers: at each node, workers come before nodes.

    Args:
        parents: the tree by names.
        ids: of its aggregators.
        workers: names in rank order.
        ways: of children, the links to their parents.

    Raises:
        PlanError: it has several roots or none.
    """
    children: dict[str, Child] = {name: WorkerChild(worker=rank) for rank, name in enumerate(workers)}
    children |= {name: NodeChild(node=ids[name]) for name in _root_first(parents, workers)[1:]}
    return [
        PlanLeg(child=child, parent=ids[str(parents[name])], links=list(links) if links else None)
        for name, child in children.items()
        for links in ((ways or {}).get(name),)
        if parents[name] in ids  # Validation names a worker that hangs on a cycle beside the tree.
    ]


def _root_first(parents: Parents, workers: Sequence[str]) -> list[str]:
    """Aggregators, each after its parent."""
    aggregators = [name for name in parents if name not in workers]
    roots = [name for name in aggregators if parents[name] is None]
    if len(roots) != 1:
        found = f"{', '.join(roots)} are all roots" if roots else f"{', '.join(aggregators)} form a cycle"
        raise PlanError(
            f"the sums must meet in one root, but {found}; set `sums_at` of all aggregators but one, or "
            "take another planner"
        )
    order = roots
    for name in order:
        order.extend(child for child in aggregators if parents[child] == name)
    return order


def _job(job: Job, workers: int) -> PlanJob:
    return PlanJob(
        id=job.id,
        secret=job.secret,
        values_per_packet=job.packet_values,
        lanes=job.lanes_of(workers),
        codec=job.codec,
        exponents=job.exponents,
        sealed=job.sealed,
        proven=job.proven,
        groups=job.groups_of(workers),
        threads=job.threads,
    )


def plan_node(topology: Topology, node: Node, number: int, options: PlanOptions) -> PlanNode:
    """A node of the topology as an aggregator of a plan.

    Raises:
        PlanError: it has no address.
    """
    if node.address is None:
        raise PlanError(f"node {node.name} has no address; give it one in the topology")
    address = f"[{node.address}]" if ":" in node.address else node.address
    bandwidth = bandwidths(topology, node.name)
    return PlanNode(
        id=number, name=node.name, address=f"{address}:{options.port}", engine=options.engine,
        ingress_bps=bandwidth.ingress, egress_bps=bandwidth.egress,
    )  # fmt: skip


def _streams(job: Job, shards: Sequence[Shard], ids: Mapping[str, int], ranks: Sequence[str]) -> list[PlanStream]:
    def stream(index: int, shard: Shard, **fields: Any) -> PlanStream:
        slots = fields.pop("slots")
        order = _root_first(shard.parents, ranks)
        places = [PlanPlace(node=ids[name], slots=slots) for name in order]
        legs = numbered_legs(shard.parents, ids, ranks, shard.ways)
        return PlanStream(id=index, places=places, legs=legs, **fields)

    exponents = stream(
        0, shards[0], name="exponents", role="exponents", share=0.0, policy="pool", slots=EXPONENT_SLOTS,
        window=EXPONENT_WINDOW,
    )  # fmt: skip
    values = [
        stream(
            index, shard, name="values" if len(shards) == 1 else f"values{index}", role="values", share=shard.share,
            policy=job.policy, slots=job.slots_of(shard.share, shard.window or job.window),
            window=shard.window or job.window,
        )
        for index, shard in enumerate(shards, start=1)
    ]  # fmt: skip
    dense = [exponents, *values]
    return [*dense, *exchange_streams(job, dense, {values[0].root: 1.0})] if job.copies else dense


def needed_bytes(job: Job) -> int:
    """Memory for values at each node of a tree, that of the exponents included."""
    return SLOT_VERSIONS * (EXPONENT_SLOTS + job.value_slots) * job.packet_values * LANE_BYTES


def check_memory(topology: Topology, plan: AggregationPlan) -> None:
    """Whether every node has room for its slots.

    Raises:
        PlanError: one has not.
    """
    for node in plan.nodes:
        placed = [stream for stream in plan.streams if stream.place(node.id)]
        needed = sum(stream.slot_bytes(plan.job.payload_bytes) for stream in placed)
        server = topology.node(node.name)
        if server.memory_bytes is not None and needed + server.memory_used_bytes > server.memory_bytes:
            raise PlanError(
                f"node {node.name} has {server.memory_bytes - server.memory_used_bytes} bytes for slots and the job "
                f"needs {needed}; lower `gradient_bytes` or `slots`, or use the policy `pool`"
            )


def parents_of(plan: AggregationPlan, stream: PlanStream) -> dict[str, str | None]:
    """The tree of a plan's stream by names, the inverse of `assemble`: parents before their children, then the workers.

    Example:
        >>> from wiresum.plan.job import Job
        >>> from wiresum.planners import plan
        >>> from wiresum.topology.generators.star import star
        >>> made = plan(star(2), Job())
        >>> parents_of(made, made.streams[1])
        {'switch': None, 'w0': 'switch', 'w1': 'switch'}
    """
    names = {node.id: node.name for node in plan.nodes}
    below: dict[int, list[int]] = {}
    above: dict[int, str] = {}
    for leg in stream.legs:
        if isinstance(leg.child, WorkerChild):
            above[leg.child.worker] = names[leg.parent]
        else:
            below.setdefault(leg.parent, []).append(leg.child.node)
    parents: dict[str, str | None] = {names[stream.root]: None}
    order = [stream.root]
    for node in order:
        order += below.get(node, [])
        parents |= {names[child]: names[node] for child in below.get(node, [])}
    return parents | {worker.name: above[worker.rank] for worker in plan.workers}
