"""GOAT's testbed (§VII-B) and its motivating example (§III-B, Fig. 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError
from wiresum.topology.generators.programmable import Programmable, cable, hosts

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

SWITCHES = ("S1", "S2", "S3")
TESTBED_MEMORY_BYTES = 20_000_000
"""Usable in each switch of the testbed, "about 20 MB"."""
TESTBED_RATE_BPS = 100e9


def goat(
    hosts_per_switch: int = 4,
    memory_bytes: int | None = TESTBED_MEMORY_BYTES,
    rate_bps: float | None = TESTBED_RATE_BPS,
) -> Topology:
    """Three switches in a triangle, S1 and S2 with workers and S3 with the parameter server; all three sum.

    The paper does not draw the testbed's links between switches. They must be a triangle: over a tree, its example
    saves nothing. `goat(2, fragment)` is Fig. 2, with switches that hold one fragment of that many bytes.

    Args:
        hosts_per_switch: workers at S1, and as many at S2.
        memory_bytes: memory of each switch.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.

    Raises:
        TopologyError: there are no workers.

    Example:
        >>> [link.id for link in goat(1).links]
        ['S1-S2', 'S1-S3', 'S2-S3', 'w0-S1', 'w1-S2', 'ps-S3']
    """
    from wiresum.topology.model import Topology

    if hosts_per_switch < 1:
        raise TopologyError(f"hosts_per_switch: S1 and S2 have 1 worker or more, not {hosts_per_switch}")
    switches = Programmable(1.0, memory_bytes).switches(SWITCHES)
    machines = hosts(2 * hosts_per_switch + 1)
    triangle = [cable("S1", "S2", rate_bps), cable("S1", "S3", rate_bps), cable("S2", "S3", rate_bps)]
    access = [cable(host.name, SWITCHES[index // hosts_per_switch], rate_bps) for index, host in enumerate(machines)]
    return Topology(name="goat", nodes=[*switches, *machines], links=[*triangle, *access])
