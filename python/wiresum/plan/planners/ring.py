"""The ring all-reduce in comparisons: it sums at workers, so there is no tree to plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment.cost import Cost
from wiresum.plan.assignment.traffic import Traffic
from wiresum.plan.fabric import Fabric
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import participants
from wiresum.plan.predict import predict_ring
from wiresum.plan.topology import Topology


@dataclass(frozen=True, eq=False)
class Ring:
    """Every worker sends 2(n−1)/n of the gradient to the next.

    Attributes:
        cost: bytes of both halves, reduce-scatter and all-gather, in the ring's direction; nothing is summed in the
            network, and there is no server.
    """

    cost: Cost


def ring(topology: Topology, job: Job, options: PlanOptions) -> Ring:
    """The ring in the workers' order, in closed form (`wiresum.plan.predict.predict_ring`).

    Raises:
        PlanError: fewer than two workers, or two without a path.

    Example:
        >>> from wiresum.plan import star
        >>> round(ring(star(4), Job(gradient_bytes=1_000_000), PlanOptions()).cost.predicted_seconds, 6)
        0.024
    """
    names = [worker.name for worker in participants(topology, job)]
    size = sum(part.bytes for part in job.parts)
    found = predict_ring(topology, size, names)
    fabric = Fabric.of(topology)
    nodes = np.array([fabric.index[name] for name in names])
    sent = np.full(len(nodes), 2 * (len(nodes) - 1) / len(nodes) * size)
    traffic = Traffic(fabric, int(nodes[0]), nodes, np.roll(nodes, -1), sent)
    cost = Cost(
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
    return Ring(cost)
