"""InGo's testbed (§VI-A)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Literal

from wiresum.errors import TopologyError
from wiresum.topology.generators.programmable import Programmable, cable, hosts

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

SWITCHES = ("S1", "S2", "S3", "S4")
WORKERS = (0, 3, 3, 4)
"""At each switch."""
RATE_BPS = 10e9

Shape = Literal["star", "ring", "mesh"]
BETWEEN = {
    "star": [(0, 1), (0, 2), (0, 3)],
    "ring": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "mesh": list(combinations(range(len(SWITCHES)), 2)),
}


def ingo(shape: Shape = "mesh", rate_bps: float | None = RATE_BPS) -> Topology:
    """Four switches that sum: S1 with the parameter server, S2, S3 and S4 with 3, 3 and 4 workers.

    The paper calls the switches "interconnected". Its rate of 3.74 Gbit/s is above what a star allows (10/3).

    Args:
        shape: form of the network of switches.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.

    Raises:
        TopologyError: there is no such shape.
    """
    from wiresum.topology.model import Topology

    if shape not in BETWEEN:
        raise TopologyError(f"shape: the switches form a {', '.join(BETWEEN)}, not {shape}")
    *workers, server = hosts(sum(WORKERS) + 1)
    switches = Programmable(1.0, None).switches(SWITCHES)
    places = [switch for switch, count in zip(SWITCHES, WORKERS, strict=True) for _ in range(count)]
    links = [cable(SWITCHES[one], SWITCHES[other], rate_bps) for one, other in BETWEEN[shape]]
    links += [cable(worker.name, place, rate_bps) for worker, place in zip(workers, places, strict=True)]
    links.append(cable(server.name, SWITCHES[0], rate_bps))
    return Topology(name=f"ingo-{shape}", nodes=[*switches, *workers, server], links=links)
