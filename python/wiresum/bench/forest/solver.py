"""`wiresum bench forest --solver-only`: seconds and gap of the planner `forest` on growing networks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from wiresum.bench.result import Report, Result
from wiresum.plan.job import Job
from wiresum.planners.forest.planner import Grown, grow
from wiresum.topology.model import Link, Node, Topology

LINK_BPS = 10e9
ADDING_BPS = 40e9
OVERSUBSCRIPTION = 8
"""A leaf's links downwards over its links upwards, so that where sums are made matters."""
FRACTIONS = (0.25, 0.5, 1.0)
"""Factors of the rates in an uneven network."""
SEED = 1


@dataclass(frozen=True)
class Size:
    """A leaf-spine network.

    Attributes:
        leaves: switches with hosts.
        workers: hosts of each leaf that train.
        servers: hosts of each leaf that sum.
        spines: switches that join the leaves.
    """

    leaves: int
    workers: int
    servers: int
    spines: int

    def __str__(self) -> str:
        """As `64 workers × 16 servers`."""
        return f"{self.leaves * self.workers} workers × {self.leaves * self.servers} servers"


SIZES = (Size(2, 4, 1, 2), Size(4, 4, 1, 2), Size(4, 8, 2, 2), Size(8, 8, 2, 4), Size(8, 16, 4, 4))
"""From a testbed to 128 workers × 32 servers; the fourth has 64 × 16."""


def leaf_spine(size: Size, seed: int | None = None) -> Topology:
    """Leaves whose links upwards have a fraction of the rate of those downwards, evenly over all spines.

    Args:
        size: how many of what.
        seed: servers' links, adders and the links between switches then have random fractions of their rates.
    """
    random = Random(seed)

    def some(bandwidth_bps: float) -> float:
        return bandwidth_bps * (1 if seed is None else random.choice(FRACTIONS))

    nodes = [Node(name=f"spine{i}", kind="switch") for i in range(size.spines)]
    links = []
    uplink_bps = LINK_BPS * (size.workers + size.servers) / OVERSUBSCRIPTION / size.spines
    for leaf in (f"leaf{i}" for i in range(size.leaves)):
        workers = [Node(name=f"w{i}.{leaf}", kind="worker") for i in range(size.workers)]
        servers = [
            Node(name=f"s{i}.{leaf}", kind="aggregator", aggregation_rate_bps=some(ADDING_BPS))
            for i in range(size.servers)
        ]
        nodes += [Node(name=leaf, kind="switch"), *workers, *servers]
        links += [_link(leaf, f"spine{i}", some(uplink_bps)) for i in range(size.spines)]
        links += [_link(worker.name, leaf, LINK_BPS) for worker in workers]
        links += [_link(server.name, leaf, some(LINK_BPS)) for server in servers]
    return Topology(name="leaf-spine", nodes=nodes, links=links)


def _link(source: str, target: str, bandwidth_bps: float) -> Link:
    return Link(id=f"{source}-{target}", source=source, target=target, bandwidth_bps=bandwidth_bps)


def measure(time_limit_s: float, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Plans forests for every size, on even links and on random ones.

    Args:
        time_limit_s: for each.
        progress: takes a line after each.
    """
    results = []
    for size in SIZES:
        for links, seed in (("even", None), ("random", SEED)):
            topology = leaf_spine(size, seed)
            started_s = time.monotonic()
            grown = grow(topology, Job(), time_limit_s)
            result = to_result(f"{size}, {links} links", time.monotonic() - started_s, grown)
            progress(f"{result.name}: {result.median:.2f} s, {grown}")
            results.append(result)
    parameters = {"time_limit_s": time_limit_s, "oversubscription": OVERSUBSCRIPTION, "seed": SEED}
    return Report("forest --solver-only", parameters, results, notes=[describe(result) for result in results])


def to_result(name: str, seconds: float, grown: Grown) -> Result:
    """One planned network."""
    extra = {
        "rate_bps": grown.rate_bps,
        "bound_bps": grown.bound_bps,
        "gap": grown.forest.gap,
        "optimal": grown.optimal,
        "trees": len(grown.forest.trees),
        "rounds": grown.forest.rounds,
    }
    return Result(name, "s", [seconds], extra)


def describe(result: Result) -> str:
    """Rate, gap and trees of a network."""
    gap = "no bound" if result.extra["gap"] is None else f"gap {result.extra['gap']:.1e}"
    rate = f"{result.extra['rate_bps'] / 1e9:.3f} Gbit/s at every worker"
    return f"{result.name}: {rate}, {gap}, {result.extra['trees']} trees, {result.extra['rounds']} rounds of pricing"
