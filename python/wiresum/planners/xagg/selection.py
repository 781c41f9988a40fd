"""Which servers may sum, best first (XAgg §V, aggregation nodes selection)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from wiresum.errors import PlanError
from wiresum.plan.job import Job
from wiresum.plan.placement import needed_bytes
from wiresum.topology.model import Node, Topology
from wiresum.topology.paths import RoutedTopology

MEMORY_SHARE = 0.80
"""Share of a server's memory that may be used, with ours: the rest is left to new tasks on it (XAgg §V)."""


@dataclass(frozen=True)
class Server:
    """A node that may sum.

    Attributes:
        name: of the node.
        bandwidth_bps: bit/s of gradient that it takes in: its links, or what it can add with its idle cores if less.
        idle_cores: CPU cores without other work.
        free_bytes: memory without other use; infinite where the topology gives no limit.
    """

    name: str
    bandwidth_bps: float
    idle_cores: int
    free_bytes: float


def server(network: RoutedTopology, node: Node) -> Server:
    """A node's idle resources.

    The paper takes a server only if its idle cores, at 10 Gbit/s each, can add what its links bring. Here a measured
    rate stands for that figure, and a server that adds less than its links bring counts with what it adds.
    """
    free = inf if node.memory_bytes is None else float(node.memory_bytes - node.memory_used_bytes)
    bandwidth_bps = min(network.ingress_bps(node.name), node.available_rate_bps)
    return Server(node.name, bandwidth_bps, node.idle_core_count, free)


def candidates(topology: Topology, job: Job, workers: Sequence[Node]) -> list[Server]:
    """The servers that may sum, by bandwidth, then cores, then memory, the largest first.

    A candidate has an idle core, keeps the memory rule, and is reached by every worker.

    Raises:
        PlanError: there is none; the message says what excluded each.
    """
    network = RoutedTopology(topology)
    found, excluded = [], []
    for node in topology.summing_nodes:
        reason = why_not(network, node, needed_bytes(job), [worker.name for worker in workers])
        if reason is None:
            found.append(server(network, node))
        else:
            excluded.append(f"{node.name} {reason}")
    if not found:
        why = "; ".join(excluded) or "no node has an `aggregation_rate_bps` above 0"
        raise PlanError(f"no server of topology {topology.name} can sum this job: {why}")
    return sorted(found, key=lambda one: (-one.bandwidth_bps, -one.idle_cores, -one.free_bytes))


def why_not(network: RoutedTopology, node: Node, needed: int, children: Sequence[str]) -> str | None:
    """Why a node cannot sum, and what would help; None if it can.

    Args:
        network: where it is.
        node: the node.
        needed: bytes for slots.
        children: nodes that must reach it.
    """
    if node.idle_core_count == 0:
        return "has no idle core; free one"
    used = node.memory_used_bytes + needed
    if node.memory_bytes is not None and used > MEMORY_SHARE * node.memory_bytes:
        return (
            f"would use {used} of {node.memory_bytes} bytes, more than {MEMORY_SHARE:.0%}; "
            "free memory, lower `gradient_bytes` or `slots`, or use the policy `pool`"
        )
    cut_off = next((child for child in children if not network.reaches(child, node.name)), None)
    return None if cut_off is None else f"is not reached by {cut_off}; link them by switches"


def choose_root(topology: Topology, servers: Sequence[Server]) -> Server:
    """The parameter server, the best of them if there are several; the best candidate if there is none.

    Raises:
        PlanError: the topology has parameter servers and none is a candidate.
    """
    roots = [one for one in servers if topology.node(one.name).kind == "ps"]
    declared = [node.name for node in topology.nodes if node.kind == "ps"]
    if declared and not roots:
        raise PlanError(
            f"no parameter server can be the root ({', '.join(declared)}): too little memory, no idle core, or cut off "
            "from a worker; mend that, or change its `kind` so that another server becomes the root"
        )
    return (roots or list(servers))[0]
