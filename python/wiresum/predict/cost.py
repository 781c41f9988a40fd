"""What an assignment costs the network: one function for every planner, so that they can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.routes import directions, reverse
from wiresum.plan.assignment.traffic import Traffic, traffic_of, traffic_of_plan
from wiresum.plan.assignment.trees import trees_of
from wiresum.plan.choices import Policy
from wiresum.plan.job import Job
from wiresum.plan.placement import participants
from wiresum.predict import predict as predict_plan
from wiresum.predict import predict_ring, predict_trees
from wiresum.topology.graph import Graph
from wiresum.topology.model import Topology
from wiresum.topology.paths import Routes

BITS_PER_ELEMENT = 32
MAX_FLUID_FLOWS = 600
"""Gradients and results together. The fluid follows every flow from event to event, so its time grows with the square
of their number: a tenth of a second for this many. Above, the busiest link's time alone is given."""


@dataclass(frozen=True, eq=False)
class Cost:
    """One round, in gradient bytes (no headers) and seconds.

    Attributes:
        traffic: from node to node, and on each link.
        total_bytes: Σ over links on the way up (GOAT §VII-A, communication overhead; the value of Eq. 1).
        server_ingress_bytes: what arrives at the parameter server (PS overhead).
        in_network_bytes: of all workers' gradients, what does not arrive there (in-network aggregation amount).
        memory_share: most of an aggregator's memory that its sub-models take with slots of their own; above 1 the limit
            is broken; None where slots are shared, or nothing limits them.
        sending_rate_bps: bit/s of gradient at which all workers can send at once, on the way up (InGo's f).
        summed_elements_per_second: float32 values that nodes below the root add at that rate (InGo's ATEs).
        bound_seconds: what the busiest link or node needs on its own, results included; no round is quicker over these
            paths.
        predicted_seconds: by the fluid of `wiresum predict`, over the same paths; None if too large for it.
    """

    traffic: Traffic
    total_bytes: float
    server_ingress_bytes: float
    in_network_bytes: float
    memory_share: float | None
    sending_rate_bps: float
    summed_elements_per_second: float
    bound_seconds: float
    predicted_seconds: float | None

    @property
    def seconds(self) -> float:
        """As predicted; what the busiest link or node needs, where that is too large a question."""
        return self.bound_seconds if self.predicted_seconds is None else self.predicted_seconds

    @property
    def max_link_bytes(self) -> float:
        """Gradient bytes on the most loaded link, in one direction."""
        return float(self.traffic.arc_bytes.max(initial=0.0))

    @property
    def in_network_share(self) -> float:
        """The share of all workers' gradients that never arrives at the parameter server as such."""
        sent = self.in_network_bytes + self.server_ingress_bytes
        return self.in_network_bytes / sent if sent else 0.0

    @property
    def bottleneck(self) -> str:
        """The busiest link, by its ends."""
        return self.traffic.graph.arc_name(int(self.traffic.busy_seconds.argmax()))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "total_bytes": self.total_bytes,
            "server_ingress_bytes": self.server_ingress_bytes,
            "in_network_bytes": self.in_network_bytes,
            "in_network_share": self.in_network_share,
            "max_link_bytes": self.max_link_bytes,
            "sending_rate_bps": self.sending_rate_bps,
            "summed_elements_per_second": self.summed_elements_per_second,
            "bottleneck": self.bottleneck,
            "bound_seconds": self.bound_seconds,
            "predicted_seconds": self.predicted_seconds,
            "memory_share": self.memory_share,
        }


def cost_of(assignment: Assignment, *, predict: bool = True) -> Cost:
    """The cost of an assignment.

    Args:
        assignment: whose; it may break memory limits.
        predict: whether to run the fluid too, where it is small enough.
    """
    instance, predicted = assignment.instance, _predicted(assignment) if predict else None
    workers, memory = len(instance.workers), _memory_share(assignment)
    return cost_of_traffic(traffic_of(assignment), workers, instance.model_bytes, predicted, memory)


def cost_of_plan(topology: Topology, plan: AggregationPlan, gradient_bytes: int) -> Cost:
    """The cost of any plan, with the root in place of the parameter server; the prediction counts headers.

    Args:
        topology: the plan's.
        plan: of any planner.
        gradient_bytes: of one worker.
    """
    traffic = traffic_of_plan(topology, plan, gradient_bytes)
    flows = 2 * len(traffic.bytes)
    predicted = predict_plan(topology, plan, gradient_bytes).seconds if flows <= MAX_FLUID_FLOWS else None
    memory = _plan_memory_share(topology, plan)
    return cost_of_traffic(traffic, len(plan.workers), gradient_bytes, predicted, memory)


def cost_of_ring(topology: Topology, job: Job) -> Cost:
    """The ring all-reduce in the workers' order, by `predict_ring`: it sums at workers, so it has no plan.

    Every worker sends 2(n−1)/n of the gradient to the next: bytes are those of both halves, reduce-scatter and
    all-gather, in the ring's direction. Nothing is summed in the network, and there is no server.

    Raises:
        PlanError: fewer than two workers, or two without a path.

    Example:
        >>> from wiresum.topology.generators.star import star
        >>> round(cost_of_ring(star(4), Job(gradient_bytes=1_000_000)).predicted_seconds, 6)
        0.024
    """
    names = [worker.name for worker in participants(topology, job)]
    size = sum(part.bytes for part in job.parts)
    found = predict_ring(topology, size, names)
    graph = Graph.of(topology)
    nodes = np.array([graph.index[name] for name in names])
    sent = np.full(len(nodes), 2 * (len(nodes) - 1) / len(nodes) * size)
    traffic = Traffic(graph, int(nodes[0]), nodes, np.roll(nodes, -1), sent)
    return Cost(
        traffic=traffic,
        total_bytes=traffic.total_bytes,
        server_ingress_bytes=0.0,
        in_network_bytes=0.0,
        memory_share=None,
        sending_rate_bps=float(sent[0]) * 8 / found.seconds,
        summed_elements_per_second=0.0,
        bound_seconds=found.seconds,
        predicted_seconds=found.seconds,
    )


def cost_of_traffic(
    traffic: Traffic, workers: int, gradient_bytes: int, predicted: float | None, memory_share: float | None = None
) -> Cost:
    """The cost of flows; arguments as the fields of `Cost`."""
    ingress, rate_bps = traffic.root_ingress_bytes, sending_rate_bps(traffic, gradient_bytes)
    return Cost(
        traffic=traffic,
        total_bytes=traffic.total_bytes,
        server_ingress_bytes=ingress,
        in_network_bytes=float(workers * gradient_bytes - ingress),
        memory_share=memory_share,
        sending_rate_bps=rate_bps,
        summed_elements_per_second=rate_bps / BITS_PER_ELEMENT * summed_gradients(traffic, gradient_bytes),
        bound_seconds=bound_seconds(traffic),
        predicted_seconds=predicted,
    )


def _plan_memory_share(topology: Topology, plan: AggregationPlan) -> float | None:
    """The share of the fullest node's free memory that the plan's slots take."""
    shares = []
    for node in plan.nodes:
        placed = [one for one in plan.streams if one.place(node.id)]
        held, server = sum(one.slot_bytes(plan.job.payload_bytes) for one in placed), topology.node(node.name)
        if server.memory_bytes is not None and server.memory_bytes > server.memory_used_bytes:
            shares.append(held / (server.memory_bytes - server.memory_used_bytes))
    return max(shares, default=None)


def _memory_share(assignment: Assignment) -> float | None:
    held, memory = assignment.memory_bytes[1:], assignment.instance.memory_bytes[1:]
    limited = np.isfinite(memory) & (memory > 0)
    if assignment.allocation == "shared" or not limited.any():
        return None
    return float((held[limited] / memory[limited]).max())


def sending_rate_bps(traffic: Traffic, gradient_bytes: float) -> float:
    """The highest rate at which no link and no adder is beyond its capacity (InGo, Eqs. 39 to 41); results apart."""
    loads = np.concatenate([traffic.arc_bytes, traffic.ingress_bytes]) / gradient_bytes
    capacity = np.concatenate([traffic.graph.bandwidth_bps, traffic.graph.adding_bps])
    used = loads > 0
    return float((capacity[used] / loads[used]).min())


def summed_gradients(traffic: Traffic, gradient_bytes: float) -> float:
    """Gradients, or sums of some, that arrive at nodes below the root; parts of one count as parts."""
    return float(traffic.ingress_bytes.sum() - traffic.root_ingress_bytes) / gradient_bytes


def bound_seconds(traffic: Traffic) -> float:
    """What the busiest link, or the busiest adder, needs for its bytes."""
    graph = traffic.graph
    adders = np.flatnonzero(traffic.ingress_bytes)
    adding = traffic.ingress_bytes[adders] * 8 / graph.adding_bps[adders]
    return float(max(traffic.busy_seconds.max(initial=0.0), adding.max(initial=0.0)))


def _predicted(assignment: Assignment) -> float | None:
    trees = trees_of(assignment)
    if 2 * sum(len(tree.parents) for tree in trees) > MAX_FLUID_FLOWS:
        return None
    streams = [(tree.parents, float(tree.bytes)) for tree in trees]
    policy: Policy = "cache" if assignment.allocation == "exclusive" else "pool"
    routes = routes_of(assignment.instance.topology, traffic_of(assignment)) if assignment.routes else None
    return predict_trees(assignment.instance.topology, streams, policy=policy, routes=routes).seconds


def routes_of(topology: Topology, traffic: Traffic) -> Routes:
    """Gradients' and sums' ways, and the results' back; of flows between the same two nodes, those of the last."""
    names, routes = traffic.graph.names, {}
    for path in traffic.paths or ():
        if path is None:
            continue
        source, target = names[traffic.graph.source[path[0]]], names[traffic.graph.target[path[-1]]]
        routes[source, target] = directions(topology, traffic.graph, path)
        routes[target, source] = directions(topology, traffic.graph, reverse(path))
    return routes
