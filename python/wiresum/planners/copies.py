"""Which servers of a plan exchange, and which share each of them carries.

Problem: a step of FSDP2 has a reduce-scatter and an all-gather under way at once. With x_s the share of server s, and
t(c, s) the seconds that capacity c, a direction of a link or a node's adding, needs if s carries everything: minimise
the largest Σ t(c, s) · x_s of all c, with Σ x_s = 1; and of answers about as quick, take one with few servers.

Complexity: (capacities) · (servers)² · `GRAINS`. Guarantee: none; in tests the time of the busiest capacity is within
2 % of the optimum that a linear programme proves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.exchanges import exchange_streams
from wiresum.plan.job import Job
from wiresum.plan.placement import check_memory
from wiresum.predict.collectives import flows_of_collective
from wiresum.topology.model import Topology
from wiresum.topology.paths import Capacity

Array = NDArray[np.float64]

MOST_SERVERS = 8
"""A worker looks at each of its streams for every packet, and has four for each server."""
GRAINS = 1680
"""Parts of everything that are dealt one by one; they are shared evenly by any number of servers."""
SHARPNESS = 100.0
"""How much more a busy capacity counts than one that is less busy: by e for each 1/100 of the least possible time. With
more of it a grain changes too much at once, and early grains are dealt as if the others did not come."""
WORTH = 0.05
"""Relative: a further server has to save so much, as predictions are not closer."""
PASSES = 3
"""Each with the least time that the one before has found."""
LEAST_SHARE = 1 / 100


def spread(topology: Topology, job: Job, plan: AggregationPlan) -> AggregationPlan:
    """The plan with what is exchanged dealt to its servers.

    Args:
        topology: with addresses.
        job: with copies; its gradient is what is reduced and gathered.
        plan: of the job, with everything exchanged by one server.

    Raises:
        PlanError: the answer breaks a rule of plans.

    Example:
        >>> from wiresum.plan.exchanges import servers_of
        >>> from wiresum.planners import plan
        >>> from wiresum.topology.generators.servers import servers
        >>> made = plan(servers(workers=4, servers=2), Job(copies=True), planner="byteps")
        >>> {name: round(share, 2) for name, share in servers_of(made).items()}
        {'s0': 0.5, 's1': 0.5}
    """
    if len(plan.nodes) == 1:
        return plan
    tried = list(_candidates(topology, job, plan))
    if not tried:
        return plan
    seconds = _seconds([busy for _, busy in tried])
    chosen = _fewest(seconds, min(job.copy_servers or MOST_SERVERS, MOST_SERVERS))
    return _with_exchanges(job, plan, {tried[index][0]: share for index, share in chosen.items()}, is_draft=False)


def _candidates(topology: Topology, job: Job, plan: AggregationPlan) -> Iterator[tuple[int, dict[Capacity, float]]]:
    """Servers that may exchange, the root first, with the seconds of each capacity if that server carries all."""
    size = sum(part.bytes for part in job.parts)
    root = next(stream.root for stream in plan.streams if stream.is_exchange)
    for node in sorted((node.id for node in plan.nodes), key=lambda number: number != root):
        alone = _with_exchanges(job, plan, {node: 1.0}, is_draft=True)
        try:
            check_memory(topology, alone)
            yield node, flows_of_collective(topology, alone, size, "pair").busy_seconds()
        except PlanError:  # It has no room, adds nothing, or does not reach all workers.
            continue


def _with_exchanges(job: Job, plan: AggregationPlan, shares: dict[int, float], *, is_draft: bool) -> AggregationPlan:
    dense = [stream for stream in plan.streams if not stream.is_exchange]
    streams = [*dense, *exchange_streams(job, dense, shares)]
    if is_draft:
        return plan.model_copy(update={"streams": streams})
    return AggregationPlan.build(**{**dict(plan), "streams": streams})


def _seconds(busy: list[dict[Capacity, float]]) -> Array:
    """By capacity and server; capacities that can never be the busiest are left out, but for one."""
    capacities = list(dict.fromkeys(capacity for of_server in busy for capacity in of_server))
    seconds = np.array([[of_server.get(capacity, 0.0) for of_server in busy] for capacity in capacities])
    floor = seconds.min(axis=1)
    least = floor.argmax()
    matters = seconds.max(axis=1) > floor[least]
    matters[least] = True
    kept: Array = seconds[matters]
    return kept


def _fewest(seconds: Array, most: int) -> dict[int, float]:
    """Servers and their shares: the fewest that are about as quick as any number up to `most`."""
    order = np.argsort(-np.round(deal(seconds), 2), kind="stable")
    answers = [(order[:count], deal(seconds[:, order[:count]])) for count in range(1, min(most, len(order)) + 1)]
    times = [float((seconds[:, servers] @ shares).max()) for servers, shares in answers]
    best = next(index for index, time in enumerate(times) if time <= min(times) * (1 + WORTH))
    servers, shares = answers[best]
    kept = shares >= LEAST_SHARE
    return {int(one): float(share) for one, share in zip(servers[kept], shares[kept] / shares[kept].sum(), strict=True)}


def deal(seconds: Array) -> Array:
    """Shares of servers, by which the busiest capacity is done about as soon as can be.

    Grain by grain goes to the server that leaves Σ exp(β · load) over all capacities least, which is about the largest.

    Args:
        seconds: that each capacity needs if one server carries everything: a row for each capacity, a column for each
            server.
    """
    best: Array = np.eye(seconds.shape[1])[seconds.max(axis=0).argmin()]
    for _ in range(PASSES):
        found = _dealt(seconds, SHARPNESS / float((seconds @ best).max()))
        best = min(found, best, key=lambda shares: float((seconds @ shares).max()))
    return best


def _dealt(seconds: Array, beta: float) -> Array:
    grains, loads = np.zeros(seconds.shape[1]), np.zeros((len(seconds), 1))
    for _ in range(GRAINS):
        after = beta * (loads + seconds / GRAINS)
        server = int(np.exp(after - after.max()).sum(axis=0).argmin())
        grains[server] += 1
        loads[:, 0] += seconds[:, server] / GRAINS
    return grains / GRAINS
