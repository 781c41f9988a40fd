"""The tree that the topology itself gives."""

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import (
    FORMAT,
    AggregationPlan,
    Child,
    NodeChild,
    PlanJob,
    PlanNode,
    PlanWorker,
    SubModel,
    TreeNode,
    WorkerChild,
)
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.topology import Node, Topology

EXPONENT_SLOTS = 64
EXPONENT_WINDOW = 32
"""One packet of exponents describes 736 packets of values, so a few are enough to stay ahead of them."""


def direct(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """Sums where the topology says (`sums_at`), else at the nearest node that can.

    Every worker's parent is its `sums_at`, or the summing node with the fewest links to it, in the topology's order
    among equals. An aggregator's parent is its `sums_at`; the one without is the root.

    Takes O(workers × links). It respects memory and fan-in, and looks at no rate: it is the floor under every planner.

    Raises:
        PlanError: a worker reaches no node that sums, several roots, a cycle, or too little memory.

    Example:
        >>> from wiresum.plan.topologies import star
        >>> direct(star(2).with_addresses(), Job(), PlanOptions()).sub_models[1].tree[0].children
        [WorkerChild(worker=0), WorkerChild(worker=1)]
    """
    workers = _participants(topology, job)
    parents = _parents(topology, workers)
    order = _root_first(parents, workers)
    tree = [_place(name, parents, order, workers) for name in order]
    plan = AggregationPlan.build(
        format=FORMAT,
        planner="direct",
        job=_job(job),
        nodes=[_node(topology.node(name), index, options) for index, name in enumerate(order)],
        workers=[
            PlanWorker(rank=rank, name=worker.name, address=worker.address) for rank, worker in enumerate(workers)
        ],
        sub_models=_streams(job, tree),
    )
    _check_memory(topology, plan)
    return plan


def _participants(topology: Topology, job: Job) -> list[Node]:
    chosen = topology.workers if job.workers is None else [topology.node(name) for name in job.workers]
    stranger = next((node.name for node in chosen if node.kind != "worker"), None)
    if stranger is not None:
        raise PlanError(f"job.workers: {stranger} is not a worker of topology {topology.name}; name workers only")
    if not chosen:
        raise PlanError(f"topology {topology.name} has no workers; add nodes of the kind `worker`")
    return chosen


def _parents(topology: Topology, workers: list[Node]) -> dict[str, str | None]:
    """The parent of each worker and of each aggregator above it; None at a root."""
    parents: dict[str, str | None] = {}
    for worker in workers:
        parents[worker.name] = worker.sums_at or _nearest(topology, worker)
        above = parents[worker.name]
        while above is not None and above not in parents:
            parents[above] = topology.node(above).sums_at
            above = parents[above]
    return parents


def _nearest(topology: Topology, worker: Node) -> str:
    nearest = next((node.name for node in topology.by_distance(worker.name) if node.sums), None)
    if nearest is None:
        raise PlanError(
            f"{worker.name} reaches no node that sums in topology {topology.name}; "
            "link it to one, or give a node on its way an `aggregation_rate_bps`"
        )
    return nearest


def _root_first(parents: dict[str, str | None], workers: list[Node]) -> list[str]:
    """Aggregators, each after its parent."""
    names = {worker.name for worker in workers}
    aggregators = [name for name in parents if name not in names]
    roots = [name for name in aggregators if parents[name] is None]
    if len(roots) != 1:
        found = f"{', '.join(roots)} are all roots" if roots else f"{', '.join(aggregators)} form a cycle"
        raise PlanError(f"the sums must meet in one root, but {found}; set `sums_at` of all aggregators but one")
    order = roots
    for name in order:
        order.extend(child for child in aggregators if parents[child] == name)
    return order


def _place(name: str, parents: dict[str, str | None], order: list[str], workers: list[Node]) -> TreeNode:
    ranks = {worker.name: rank for rank, worker in enumerate(workers)}
    children: list[Child] = [WorkerChild(worker=ranks[w.name]) for w in workers if parents[w.name] == name]
    children += [NodeChild(node=index) for index, other in enumerate(order) if parents[other] == name]
    parent = parents[name]
    return TreeNode(node=order.index(name), parent=None if parent is None else order.index(parent), children=children)


def _job(job: Job) -> PlanJob:
    return PlanJob(id=job.id, secret=job.secret, values_per_packet=job.packet_values, lanes=job.lanes, codec=job.codec)


def _node(node: Node, index: int, options: PlanOptions) -> PlanNode:
    if node.address is None:
        raise PlanError(f"node {node.name} has no address; give it one in the topology")
    address = f"[{node.address}]" if ":" in node.address else node.address
    return PlanNode(id=index, name=node.name, address=f"{address}:{options.port}", engine=options.engine)


def _streams(job: Job, tree: list[TreeNode]) -> list[SubModel]:
    exponents = SubModel(
        id=0, name="exponents", role="exponents", share=0.0, policy="pool",
        slots=EXPONENT_SLOTS, window=EXPONENT_WINDOW, tree=tree,
    )  # fmt: skip
    values = SubModel(
        id=1, name="values", role="values", share=1.0, policy=job.policy,
        slots=job.value_slots, window=job.window, tree=tree,
    )  # fmt: skip
    return [exponents, values]


def _check_memory(topology: Topology, plan: AggregationPlan) -> None:
    needed = sum(sub_model.slot_bytes(plan.job.payload_bytes) for sub_model in plan.sub_models)
    for node in plan.nodes:
        memory = topology.node(node.name).memory_bytes
        if memory is not None and needed > memory:
            raise PlanError(
                f"node {node.name} has {memory} bytes for slots and the job needs {needed}; "
                "lower `gradient_bytes` or `slots`, or use the policy `pool`"
            )
