"""Leaves with hosts, each joined to every spine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError
from wiresum.topology.generators.programmable import MEMORY_BYTES, Programmable, cable, hosts, require_size

if TYPE_CHECKING:
    from wiresum.topology.model import Topology


def leaf_spine(  # noqa: PLR0917 - named on the command line, one by one
    leaves: int = 10,
    spines: int = 10,
    hosts_per_leaf: int = 5,
    rate_bps: float | None = 10e9,
    uplink_rate_bps: float | None = None,
    bundle: int = 1,
    programmable: float = 0.2,
    memory_bytes: int | None = MEMORY_BYTES,
    seed: int = 0,
) -> Topology:
    """`leaves` switches with `hosts_per_leaf` hosts each, and `spines` switches above them.

    The defaults are GOAT's first network (§VII-C): 20 switches, 50 hosts. The last host is the parameter server.

    Args:
        leaves: switches with hosts, leaf0….
        spines: switches that join them, spine0….
        hosts_per_leaf: workers w0… in order, and the parameter server `ps` as the last.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.
        uplink_rate_bps: bit/s of links between switches; `rate_bps` where absent.
        bundle: parallel links between a leaf and a spine.
        programmable: fraction of the switches that sum, chosen at random.
        memory_bytes: memory of each switch that sums.
        seed: seed that chooses the switches that sum.

    Raises:
        TopologyError: no leaves, spines or links, or fewer than two hosts.

    Example:
        >>> made = leaf_spine(leaves=2, spines=1, hosts_per_leaf=2)
        >>> [node.name for node in made.nodes]
        ['leaf0', 'leaf1', 'spine0', 'w0', 'w1', 'w2', 'ps']
    """
    from wiresum.topology.model import Topology

    if min(leaves, spines, bundle) < 1:
        raise TopologyError(
            f"{leaves} leaves, {spines} spines and bundles of {bundle}: there must be 1 or more of each"
        )
    require_size(leaves + spines + leaves * hosts_per_leaf, leaves * (spines * bundle + hosts_per_leaf))
    lower, upper = [f"leaf{i}" for i in range(leaves)], [f"spine{i}" for i in range(spines)]
    switches = Programmable(programmable, memory_bytes, seed).switches([*lower, *upper])
    machines = hosts(leaves * hosts_per_leaf)
    between = [
        cable(leaf, spine, uplink_rate_bps or rate_bps, number)
        for leaf in lower
        for spine in upper
        for number in range(bundle)
    ]
    access = [cable(host.name, lower[index // hosts_per_leaf], rate_bps) for index, host in enumerate(machines)]
    return Topology(name="leaf-spine", nodes=[*switches, *machines], links=[*between, *access])
