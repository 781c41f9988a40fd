"""From trees of names to a plan: what every planner does after it has decided who sums what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import (
    FORMAT,
    LANE_BYTES,
    SLOT_VERSIONS,
    AggregationPlan,
    Child,
    NodeChild,
    PlanJob,
    PlanNode,
    PlanWorker,
    Solution,
    SubModel,
    TreeNode,
    TreeWay,
    WorkerChild,
)
from wiresum.plan.bandwidth import bandwidths
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.topology.model import Node, Topology

EXPONENT_SLOTS = 64
EXPONENT_WINDOW = 32
"""One packet of exponents describes 736 packets of values, so a few are enough to stay ahead of them."""

Parents = Mapping[str, str | None]
"""A tree by names: the parent of each worker and of each aggregator above it; None at the root."""

Ways = Mapping[str, Sequence[str]]
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
    ways: Ways | None = None


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
) -> AggregationPlan:
    """A plan with one stream of values for each shard; the exponents take the tree of the first.

    Args:
        planner: who decided, and what people should know about it.
        topology: with addresses.
        job: what is placed.
        options: the operator's choices.
        shards: at least one; in each tree every worker has a parent.
        solution: how good the planner's answer is, where that is known.

    Raises:
        PlanError: a tree has several roots or a cycle, the plan breaks a rule of `spec/plan.md`, or a node has too
            little memory for its slots.
    """
    workers = participants(topology, job)
    ranks = [worker.name for worker in workers]
    names = list(dict.fromkeys(name for shard in shards for name in _root_first(shard.parents, ranks)))
    ids = {name: index for index, name in enumerate(names)}
    trees = [numbered_tree(shard.parents, ids, ranks) for shard in shards]
    plan = AggregationPlan.build(
        format=FORMAT,
        planner=planner,
        solution=solution,
        job=_job(job),
        nodes=[plan_node(topology, topology.node(name), index, options) for index, name in enumerate(names)],
        workers=[
            PlanWorker(
                rank=rank, name=worker.name, address=worker.address, egress_bps=bandwidths(topology, worker.name).egress
            )
            for rank, worker in enumerate(workers)
        ],
        sub_models=_streams(job, trees, shards, [_ways(shard, ids, ranks) for shard in shards]),
    )
    _check_memory(topology, plan)
    return plan


def numbered_tree(parents: Parents, ids: Mapping[str, int], workers: Sequence[str]) -> list[TreeNode]:
    """A tree in numbers, root first.

    Args:
        parents: the tree by names.
        ids: of its aggregators.
        workers: names in rank order.

    Raises:
        PlanError: it has several roots or none.
    """
    order = _root_first(parents, workers)
    children: dict[str, list[Child]] = {name: [] for name in order}
    for rank, worker in enumerate(workers):
        above = parents[worker]
        if above in children:  # Validation names a worker that hangs on a cycle beside the tree.
            children[above].append(WorkerChild(worker=rank))
    for name in order[1:]:
        children[str(parents[name])].append(NodeChild(node=ids[name]))
    return [TreeNode(node=ids[name], parent=_id_of(parents[name], ids), children=children[name]) for name in order]


def _root_first(parents: Parents, workers: Sequence[str]) -> list[str]:
    """Aggregators, each after its parent."""
    aggregators = [name for name in parents if name not in workers]
    roots = [name for name in aggregators if parents[name] is None]
    if len(roots) != 1:
        found = f"{', '.join(roots)} are all roots" if roots else f"{', '.join(aggregators)} form a cycle"
        raise PlanError(f"the sums must meet in one root, but {found}; set `sums_at` of all aggregators but one")
    order = roots
    for name in order:
        order.extend(child for child in aggregators if parents[child] == name)
    return order


def _id_of(name: str | None, ids: Mapping[str, int]) -> int | None:
    return None if name is None else ids[name]


def _job(job: Job) -> PlanJob:
    return PlanJob(
        id=job.id,
        secret=job.secret,
        values_per_packet=job.packet_values,
        lanes=job.lanes,
        codec=job.codec,
        exponents=job.exponents,
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


def _ways(shard: Shard, ids: Mapping[str, int], ranks: Sequence[str]) -> list[TreeWay] | None:
    if shard.ways is None:
        return None
    rank_of = {name: rank for rank, name in enumerate(ranks)}
    return [
        TreeWay(
            child=WorkerChild(worker=rank_of[name]) if name in rank_of else NodeChild(node=ids[name]), links=list(links)
        )
        for name, links in shard.ways.items()
    ]


def _streams(
    job: Job, trees: Sequence[list[TreeNode]], shards: Sequence[Shard], ways: Sequence[list[TreeWay] | None]
) -> list[SubModel]:
    exponents = SubModel(
        id=0, name="exponents", role="exponents", share=0.0, policy="pool",
        slots=EXPONENT_SLOTS, window=EXPONENT_WINDOW, tree=trees[0], ways=ways[0],
    )  # fmt: skip
    values = [
        SubModel(
            id=index, name="values" if len(trees) == 1 else f"values{index}", role="values", share=shard.share,
            policy=job.policy, slots=job.slots_of(shard.share, shard.window or job.window),
            window=shard.window or job.window, tree=tree, ways=chosen,
        )
        for index, (tree, shard, chosen) in enumerate(zip(trees, shards, ways, strict=True), start=1)
    ]  # fmt: skip
    return [exponents, *values]


def needed_bytes(job: Job) -> int:
    """Memory for values at each node of a tree, that of the exponents included."""
    return SLOT_VERSIONS * (EXPONENT_SLOTS + job.value_slots) * job.packet_values * LANE_BYTES


def _check_memory(topology: Topology, plan: AggregationPlan) -> None:
    for node in plan.nodes:
        placed = [sub_model for sub_model in plan.sub_models if sub_model.place(node.id)]
        needed = sum(sub_model.slot_bytes(plan.job.payload_bytes) for sub_model in placed)
        server = topology.node(node.name)
        if server.memory_bytes is not None and needed + server.memory_used_bytes > server.memory_bytes:
            raise PlanError(
                f"node {node.name} has {server.memory_bytes - server.memory_used_bytes} bytes for slots and the job "
                f"needs {needed}; lower `gradient_bytes` or `slots`, or use the policy `pool`"
            )


def parents_of(plan: AggregationPlan, sub_model: SubModel) -> dict[str, str | None]:
    """The tree of a plan's stream by names, the inverse of `assemble`: parents before their children, then the workers.

    Example:
        >>> from wiresum.plan.job import Job
        >>> from wiresum.planners import plan
        >>> from wiresum.topology.generators.star import star
        >>> made = plan(star(2), Job())
        >>> parents_of(made, made.sub_models[1])
        {'switch': None, 'w0': 'switch', 'w1': 'switch'}
    """
    names = {node.id: node.name for node in plan.nodes}
    parents: dict[str, str | None] = {
        names[place.node]: None if place.parent is None else names[place.parent] for place in sub_model.tree
    }
    above = {
        child.worker: names[place.node]
        for place in sub_model.tree
        for child in place.children
        if isinstance(child, WorkerChild)
    }
    return parents | {worker.name: above[worker.rank] for worker in plan.workers}
