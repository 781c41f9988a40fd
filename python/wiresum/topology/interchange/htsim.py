"""The topology file of csg-htsim, which knows fat-trees and leaf-spines whose tiers are regular."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wiresum.errors import TopologyError
from wiresum.topology.graph import Graph, Ints
from wiresum.topology.model import Topology

MIN_TIERS, MAX_TIERS = 2, 3


class Tier(NamedTuple):
    """What all switches of a tier have in common.

    Attributes:
        below: links to the tier below.
        above: links to the tier above.
        bundle: parallel links to each neighbour below.
        rate_bps: of the links below.
        delay_s: of the links below.
    """

    below: int
    above: int
    bundle: int
    rate_bps: float
    delay_s: float


def to_htsim(topology: Topology) -> str:
    """Writes it: nodes, tiers, pod size, and each tier's radix, speed and latency. Names and sums are not kept.

    Raises:
        TopologyError: there are other tiers than 2 or 3, a tier's switches differ, or a link skips a tier.

    Example:
        >>> from wiresum.topology.generators.fat_tree import fat_tree
        >>> to_htsim(fat_tree(4)).splitlines()[:3]
        ['Nodes 16', 'Tiers 3', 'Podsize 4']
    """
    graph = Graph.of(topology)
    hosts = np.flatnonzero(~graph.forwards)
    level = graph.hops_to(hosts).min(axis=0).astype(np.int64)
    top = int(level.max())
    if not MIN_TIERS <= top <= MAX_TIERS:
        raise TopologyError(f"htsim knows {MIN_TIERS} or {MAX_TIERS} tiers of switches; {topology.name} has {top}")
    tiers = [_tier(topology, graph, level, number) for number in range(1, top + 1)]
    pod = len(hosts) if top == MIN_TIERS else tiers[0].below * (tiers[1].below // tiers[1].bundle)
    lines = [f"Nodes {len(hosts)}", f"Tiers {top}", f"Podsize {pod}"]
    for number, tier in enumerate(tiers):
        lines += ["", f"Tier {number}", *_lines(tier, number)]
    return "\n".join(lines) + "\n"


def _lines(tier: Tier, number: int) -> Iterator[str]:
    yield f"Downlink_speed_Gbps {tier.rate_bps / 1e9:g}"
    yield f"Radix_Down {tier.below}"
    if tier.above:
        yield f"Radix_Up {tier.above}"
    yield f"Downlink_Latency_ns {tier.delay_s * 1e9:g}"
    if number:
        yield f"Bundle {tier.bundle}"


def _tier(topology: Topology, graph: Graph, level: Ints, number: int) -> Tier:
    found = {
        _switch(topology, graph, level, int(switch)) for switch in np.flatnonzero((level == number) & graph.forwards)
    }
    if len(found) > 1:
        first, second = sorted(found)[:2]
        raise TopologyError(
            f"htsim knows regular tiers only: switches {number} links from the hosts of {topology.name} differ "
            f"({first} and {second})"
        )
    return found.pop()


def _switch(topology: Topology, graph: Graph, level: Ints, switch: int) -> Tier:
    arcs = np.flatnonzero(graph.source == switch)
    steps = level[graph.target[arcs]] - level[switch]
    down = arcs[steps == -1]
    if len(down) + (steps == 1).sum() < len(arcs):
        raise TopologyError(f"htsim knows links between neighbouring tiers only; one of {graph.names[switch]} is not")
    rates = {float(rate) for rate in graph.bandwidth_bps[down]}
    links = [topology.links[arc // 2] for arc in down]
    delays = {link.delay_from(graph.names[switch]) for link in links}
    _, parallel = np.unique(graph.target[down], return_counts=True)
    if len(rates) > 1 or len(delays) > 1 or len(set(parallel.tolist())) > 1 or rates == {np.inf}:
        raise TopologyError(f"htsim wants one finite rate, delay and bundle below {graph.names[switch]}; they differ")
    return Tier(len(down), int((steps == 1).sum()), int(parallel[0]), rates.pop(), delays.pop())
