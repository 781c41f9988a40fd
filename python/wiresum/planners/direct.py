"""The tree that the topology itself gives."""

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble, participants
from wiresum.topology.model import Node, Topology


def direct(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """Sums where the topology says (`sums_at`), else at the nearest node that can.

    Every worker's parent is its `sums_at`, or the summing node with the fewest links to it, in the topology's order
    among equals. An aggregator's parent is its `sums_at`; the one without is the root.

    Takes O(workers × links). It respects memory and fan-in, and looks at no rate: it is the floor under every planner.

    Raises:
        PlanError: a worker reaches no node that sums, several roots, a cycle, or too little memory.

    Example:
        >>> from wiresum.topology.generators.star import star
        >>> direct(star(2).with_addresses(), Job(), PlanOptions()).streams[1].children(0)
        [WorkerChild(worker=0), WorkerChild(worker=1)]
    """
    parents = _parents(topology, participants(topology, job))
    return assemble("direct", topology, job, options, [Shard(parents)])


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
