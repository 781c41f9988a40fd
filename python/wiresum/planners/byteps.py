"""BytePS: the gradient split evenly over servers, each of which sums its part (Jiang et al., OSDI 2020)."""

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble, participants
from wiresum.topology.model import Topology
from wiresum.topology.paths import RoutedTopology

MIN_WINDOW = 16
"""Fragments: a stream with less in flight waits for wake-ups rather than for its link."""


def byteps(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """One tree for each server, with all workers directly below it, and an equal share of the gradient.

    Servers are nodes of the kinds `ps` and `aggregator`; switches sum nothing. With m servers of bandwidth B_s, n
    workers of B_w and a gradient of D bytes, the time is max(D/B_w, n·D/(m·B_s)) each way.

    Raises:
        PlanError: there is no server, or a server cannot name that many children.

    Example:
        >>> from wiresum.topology.generators.servers import servers
        >>> made = byteps(servers(workers=4, servers=2).with_addresses(), Job(), PlanOptions())
        >>> [stream.share for stream in made.streams]
        [0.0, 0.5, 0.5]
    """
    servers = [node.name for node in topology.nodes if node.kind in {"ps", "aggregator"}]
    if not servers:
        raise PlanError(f"topology {topology.name} has no server; give a node the kind `ps` or `aggregator`")
    names = [worker.name for worker in participants(topology, job)]
    network = RoutedTopology(topology)
    for server in servers:
        lost = next((name for name in names if not network.reaches(name, server)), None)
        if lost is not None:
            raise PlanError(f"{lost} does not reach {server} in topology {topology.name}; link them by switches")
    share = 1 / len(servers)
    shards = [
        Shard({server: None, **dict.fromkeys(names, server)}, share, max(MIN_WINDOW, round(share * job.window)))
        for server in servers
    ]
    return assemble(f"byteps: {len(servers)} equal shares", topology, job, options, shards)
