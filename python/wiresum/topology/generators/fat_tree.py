"""The three-level fat-tree of k-port switches (Al-Fares et al., 2008)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wiresum.errors import TopologyError
from wiresum.topology.generators.programmable import MEMORY_BYTES, Programmable, cable, hosts

if TYPE_CHECKING:
    from wiresum.topology.model import Link, Topology

MIN_K, MAX_K = 2, 48
"""27,648 hosts: the largest of the original paper."""


def fat_tree(  # noqa: PLR0917 - named on the command line, one by one
    k: int = 8,
    hosts_per_edge: int | None = None,
    rate_bps: float | None = 10e9,
    programmable: float = 0.2,
    memory_bytes: int | None = MEMORY_BYTES,
    seed: int = 0,
) -> Topology:
    """A tree of k pods, each of k/2 edge and k/2 aggregation switches, joined by (k/2)² core switches.

    In pod p are `edge<p>.<i>` and `agg<p>.<i>`, which is joined to `core<i>.<j>` for all j. `fat_tree(8, 6)` is GOAT's
    second network (§VII-C): 80 switches, 192 hosts.

    Args:
        k: ports of a switch, even.
        hosts_per_edge: hosts below each edge switch; k/2 where absent.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.
        programmable: fraction of the switches that sum, chosen at random.
        memory_bytes: memory of each switch that sums.
        seed: seed that chooses the switches that sum.

    Raises:
        TopologyError: k is odd or out of range, or there are fewer than two hosts.

    Example:
        >>> made = fat_tree(8)
        >>> sum(node.kind == "switch" for node in made.nodes), len(made.workers)
        (80, 127)
    """
    from wiresum.topology.model import Topology

    if not MIN_K <= k <= MAX_K or k % 2:
        raise TopologyError(f"k: a fat-tree's switches have an even number of ports from {MIN_K} to {MAX_K}, not {k}")
    half = k // 2
    below = half if hosts_per_edge is None else hosts_per_edge
    edges = [f"edge{pod}.{i}" for pod in range(k) for i in range(half)]
    names = [*edges, *(f"agg{pod}.{i}" for pod in range(k) for i in range(half))]
    names += [f"core{i}.{j}" for i in range(half) for j in range(half)]
    switches = Programmable(programmable, memory_bytes, seed).switches(names)
    machines = hosts(len(edges) * below)
    access = [cable(host.name, edges[index // below], rate_bps) for index, host in enumerate(machines)]
    return Topology(name="fat-tree", nodes=[*switches, *machines], links=[*_between(k, rate_bps), *access])


def _between(k: int, rate_bps: float | None) -> Iterator[Link]:
    half = range(k // 2)
    for pod in range(k):
        for i in half:
            yield from (cable(f"edge{pod}.{e}", f"agg{pod}.{i}", rate_bps) for e in half)
            yield from (cable(f"agg{pod}.{i}", f"core{i}.{j}", rate_bps) for j in half)
