"""Units below an optical circuit switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.errors import TopologyError
from wiresum.topology.generators.programmable import SERVER_RATE_BPS, Programmable, cable, require_size

if TYPE_CHECKING:
    from wiresum.topology.model import Link, Node, Topology

RATE_BPS = 40e9
DARK_S = 20e-3
"""A MEMS switch moves its mirrors in some 10 to 25 ms."""
PLACES = 4
"""Jobs that a switch sums at once (P4INC-AOI §VII-C)."""


def optical(
    units: int = 8,
    hosts_per_unit: int = 4,
    servers_per_unit: int = 1,
    *,
    ports: int = 4,
    rate_bps: float | None = RATE_BPS,
    circuit_rate_bps: float | None = None,
    dark_s: float = DARK_S,
    settle_s: float = 0.0,
    darkens: str = "added",
    switches: int = 1,
    sides: int = 1,
    places: int = PLACES,
) -> Topology:
    """Units of workers and servers, each with a switch that sums and some fibres to optical circuit switches.

    P4INC-AOI's network (§III, §VII-C) has 64 units of 64 servers with 24 fibres each. Which units are joined is not
    part of the topology: `wiresum topology lit` chooses circuits, and schedulers change them.

    Args:
        units: switches u0… that sum, each with its hosts.
        hosts_per_unit: workers in each unit.
        servers_per_unit: parameter servers in each unit.
        ports: fibres from each unit; the k-th one ends at optical switch k modulo their number.
        rate_bps: bit/s of each link in each direction; `none`: unlimited.
        circuit_rate_bps: bit/s of fibres; `rate_bps` where absent.
        dark_s: time without light after an order.
        settle_s: time from light to traffic.
        darkens: what loses its light when circuits change: added, units or all.
        switches: optical switches, each with as many ports as fibres end there.
        sides: 1, or 2: a unit's fibres end at a switch's sides A and B in turn, and circuits join A to B.
        places: jobs that each unit's switch sums at once.

    Raises:
        TopologyError: there are too few of something.

    Example:
        >>> [link.id for link in optical(2, 1, ports=1).links]
        ['w0-u0', 'ps0-u0', 'u0-1', 'w1-u1', 'ps1-u1', 'u1-1']
    """
    from wiresum.topology.model import Topology

    least = min(units, hosts_per_unit, ports, switches)
    if least < 1 or servers_per_unit < 0 or sides not in {1, 2}:
        raise TopologyError(
            f"{units} units of {hosts_per_unit} workers and {servers_per_unit} servers with {ports} ports at "
            f"{switches} switches of {sides} sides: make it 1 or more of each, and 1 or 2 sides"
        )
    machines = units * (hosts_per_unit + servers_per_unit)
    require_size(units + machines + switches, machines + units * ports)
    names = [f"u{unit}" for unit in range(units)]
    summing = [node.model_copy(update={"places": places}) for node in Programmable(1.0, None).switches(names)]
    crosses = [f"oxc{number}" if switches > 1 else "oxc" for number in range(switches)]
    hosts: list[Node] = []
    links: list[Link] = []
    for unit, name in enumerate(names):
        own = _hosts(unit, hosts_per_unit, servers_per_unit)
        hosts += own
        links += [cable(host.name, name, rate_bps) for host in own]
        links += [_fibre(name, number, crosses, circuit_rate_bps or rate_bps) for number in range(ports)]
    times = {"dark_s": dark_s, "settle_s": settle_s, "darkens": darkens}
    return Topology(
        name="optical",
        nodes=[*summing, *hosts, *(cross_connect(one, links, times, sides) for one in crosses)],
        links=links,
    )


def cross_connect(name: str, links: list[Link], times: dict[str, object], sides: int = 1) -> Node:
    """An optical switch with a port for each of the links that end at it.

    Args:
        name: of the switch.
        links: all of the topology.
        times: fields of `Oxc`.
        sides: with 2, ports are on sides A and B in turn, and numbered as `1A`, `1B`, `2A`.
    """
    from wiresum.topology.model import Node
    from wiresum.topology.optical import SIDES, OpticalPort, Oxc

    own = [link.id for link in links if name in (link.source, link.target)]
    ports = [OpticalPort(name=str(number), link=link) for number, link in enumerate(own, 1)]
    if sides == len(SIDES):
        rows = [(1 + index // sides, SIDES[index % sides], link) for index, link in enumerate(own)]
        ports = [OpticalPort(name=f"{row}{side}", link=link, side=side) for row, side, link in rows]
    return Node(name=name, kind="oxc", oxc=Oxc.model_validate({**times, "ports": ports}))


def _hosts(unit: int, workers: int, servers: int) -> list[Node]:
    from wiresum.topology.model import Node

    first = unit * workers
    names = [f"ps{unit * servers + index}" for index in range(servers)]
    return [
        *(Node(name=f"w{first + index}", kind="worker") for index in range(workers)),
        *(Node(name=name, kind="ps", aggregation_rate_bps=SERVER_RATE_BPS) for name in names),
    ]


def _fibre(unit: str, number: int, crosses: list[str], rate_bps: float | None) -> Link:
    from wiresum.topology.model import Link

    cross = crosses[number % len(crosses)]
    return Link(id=f"{unit}-{number + 1}", source=unit, target=cross, bandwidth_bps=rate_bps)
