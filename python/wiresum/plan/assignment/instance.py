"""What planners of switch networks are asked, in arrays: workers, sub-models, nodes that sum, and distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wiresum.errors import PlanError
from wiresum.plan.job import Job, JobSubModel
from wiresum.plan.placement import participants
from wiresum.topology.graph import UNREACHABLE, Floats, Graph, Hops, Ints
from wiresum.topology.model import Topology

PS = 0
"""Index of the parameter server among the aggregators."""


class WorkerGroups(NamedTuple):
    """Workers with the same distance to every aggregator, of which planners need only the number.

    Attributes:
        of: (workers,) each worker's group.
        hops: (groups, aggregators) links to each aggregator.
        size: (groups,) workers.
    """

    of: Ints
    hops: Hops
    size: Ints


@dataclass(frozen=True, eq=False)
class Instance:
    """One job on one network.

    Aggregators have indices of their own: 0 is the parameter server, from 1 on come the other nodes that sum, in the
    topology's order.

    Attributes:
        topology: where it is.
        graph: the topology's arrays.
        job: what is placed.
        sub_models: its parts, in the model's order.
        workers: (workers,) nodes, in rank order.
        aggregators: (aggregators,) nodes.
        hops: (workers, aggregators) links from each worker to each aggregator.
        between: (aggregators, aggregators) links from each to each.
    """

    topology: Topology
    graph: Graph
    job: Job
    sub_models: Sequence[JobSubModel]
    workers: Ints
    aggregators: Ints
    hops: Hops
    between: Hops

    @classmethod
    def of(cls, topology: Topology, job: Job) -> Instance:
        """The question for a job.

        Raises:
            PlanError: there is no parameter server, or several, or no worker, or one without a way to the server.
        """
        graph = Graph.of(topology)
        workers = np.array([graph.index[worker.name] for worker in participants(topology, job)])
        server = graph.index[_parameter_server(topology)]
        summing = np.flatnonzero(graph.adding_bps > 0)
        aggregators = np.concatenate([[server], summing[summing != server]])
        hops = graph.hops_to(aggregators)
        lost = np.flatnonzero(hops[PS, workers] == UNREACHABLE)
        if len(lost):
            raise PlanError(
                f"{graph.names[workers[lost[0]]]} does not reach {graph.names[server]} in topology {topology.name} "
                f"({len(lost)} of {len(workers)} workers do not); link them by switches"
            )
        reaches_server = hops[PS, aggregators] != UNREACHABLE
        kept = aggregators[reaches_server]
        hops = hops[reaches_server]
        return cls(topology, graph, job, job.parts, workers, kept, hops[:, workers].T, hops[:, kept].T)

    @property
    def server(self) -> int:
        """The parameter server's node."""
        return int(self.aggregators[PS])

    @property
    def hops_to_server(self) -> Hops:
        """(aggregators,) links from each aggregator to the parameter server; 0 of itself."""
        return self.between[:, PS]

    @cached_property
    def sizes(self) -> Ints:
        """(sub-models,) bytes."""
        return np.array([one.bytes for one in self.sub_models], dtype=np.int64)

    @property
    def model_bytes(self) -> int:
        """Bytes of one worker's gradient."""
        return int(self.sizes.sum())

    @cached_property
    def memory_bytes(self) -> Floats:
        """(aggregators,) free for sums; infinite at the parameter server."""
        memory = self.graph.memory_bytes[self.aggregators]
        memory[PS] = np.inf
        return memory

    @cached_property
    def groups(self) -> WorkerGroups:
        """The workers, merged."""
        hops, of, size = np.unique(self.hops, axis=0, return_inverse=True, return_counts=True)
        return WorkerGroups(of.ravel(), hops, size)

    def name(self, aggregator: int) -> str:
        """An aggregator's name."""
        return self.graph.names[int(self.aggregators[aggregator])]

    def require_switches(self) -> None:
        """For planners that place sums on exclusive memory.

        Raises:
            PlanError: no node but the parameter server sums, or a sub-model exceeds every memory.
        """
        if len(self.aggregators) == 1:
            raise PlanError(
                f"no switch of topology {self.topology.name} sums; give some an `aggregation_rate_bps`, or use the "
                "planner `ps`"
            )
        largest = max(self.sub_models, key=lambda one: one.bytes)
        room = self.memory_bytes[1:].max()
        if largest.bytes > room:
            raise PlanError(
                f"sub-model {largest.name} has {largest.bytes} bytes, and no switch more than {room:.0f} bytes of "
                "memory; split sub-models that large (`--split`)"
            )


def _parameter_server(topology: Topology) -> str:
    servers = [node.name for node in topology.nodes if node.kind == "ps"]
    if len(servers) != 1:
        found = f"{len(servers)} parameter servers ({', '.join(servers)})" if servers else "no parameter server"
        raise PlanError(f"topology {topology.name} has {found}; give exactly one node the kind `ps`")
    return servers[0]
