"""Optical switches in a topology: rules for their ports, and the packet network that some lit circuits make.

The fields of a topology file that they have are in `optical.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wiresum.errors import TopologyError
from wiresum.topology.names import MAX_NAME_LENGTH
from wiresum.topology.optical import Circuit, OpticalPort

if TYPE_CHECKING:
    from wiresum.topology.model import Link, Node, Topology


@dataclass(frozen=True)
class Fibre:
    """A link that ends at an optical switch.

    Attributes:
        switch: the optical switch.
        port: the port at which it ends there.
        unit: the node at its other end.
        link: the link.
    """

    switch: str
    port: OpticalPort
    unit: str
    link: Link

    def can_meet(self, other: Fibre) -> bool:
        """Whether a circuit may join the two."""
        return not why_not(self, other)


def optical_switches(topology: Topology) -> list[Node]:
    """Nodes of kind `oxc`."""
    return [node for node in topology.nodes if node.kind == "oxc"]


def ports_of(topology: Topology, switch: Node) -> list[OpticalPort]:
    """The ports of an optical switch, as the file has them, or one for each of its links."""
    given = switch.oxc.ports if switch.oxc else []
    links = topology.links_of(switch.name)
    return given or [OpticalPort(name=str(number), link=link.id) for number, link in enumerate(links, 1)]


def fibres(topology: Topology) -> list[Fibre]:
    """All links that end at optical switches, by switch and port."""
    links = {link.id: link for link in topology.links}
    return [
        Fibre(switch.name, port, links[port.link].other_end(switch.name), links[port.link])
        for switch in optical_switches(topology)
        for port in ports_of(topology, switch)
        if port.link is not None
    ]


def why_not(one: Fibre, other: Fibre) -> str:
    """Why no circuit may join two fibres; empty if one may."""
    if one.switch != other.switch:
        return f"{one.link.id} ends at {one.switch} and {other.link.id} at {other.switch}: a circuit is in one switch"
    if one.port.name == other.port.name:
        return f"port {one.port.name} of {one.switch} is used twice; a port is in one circuit"
    if one.port.side is not None and one.port.side == other.port.side:
        return (
            f"ports {one.port.name} and {other.port.name} of {one.switch} are both on side {one.port.side}; join A to B"
        )
    if one.unit == other.unit:
        return f"{one.link.id} and {other.link.id} both come from {one.unit}; join two units"
    return ""


def check(topology: Topology) -> None:
    """Asserts that ports and fibres belong together.

    Raises:
        ValueError: they do not; the message names the field and the remedy.
    """
    switches = {node.name for node in optical_switches(topology)}
    for index, link in enumerate(topology.links):
        if {link.source, link.target} <= switches:
            problem = f"joins {link.source} and {link.target}, two optical switches; a fibre leads from one to a unit"
            raise ValueError(f"links[{index}]: {problem}")
    for index, node in enumerate(topology.nodes):
        if node.name in switches:
            _check_ports(topology, node, f"nodes[{index}].oxc.ports")


def _check_ports(topology: Topology, switch: Node, field: str) -> None:
    ports = ports_of(topology, switch)
    here = {link.id for link in topology.links_of(switch.name)}
    for what, values in (("name", [port.name for port in ports]), ("link", [port.link for port in ports if port.link])):
        twice = next((value for value, times in Counter(values).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"{field}: two have the {what} {twice}; each needs its own")
    astray = next((port for port in ports if port.link and port.link not in here), None)
    if astray is not None:
        raise ValueError(f"{field}: port {astray.name} has link {astray.link}, which does not end at {switch.name}")
    odd = sorted(here - {port.link for port in ports})
    if odd:
        raise ValueError(f"{field}: link {odd[0]} ends at no port of {switch.name}; give it one")
    if len({port.side is None for port in ports}) > 1:
        raise ValueError(f"{field}: some ports have a `side` and some have none; give it to all or to none")


def with_circuits(topology: Topology, circuits: Iterable[Circuit]) -> Topology:
    """The packet network while these circuits are lit: instead of optical switches and fibres, logical links.

    A logical link is named after the switch and the ports, as `oxc.3-7`. It has the lower rate of its two fibres, and
    their delays and losses together.

    Raises:
        TopologyError: a circuit cannot be; the message names the ports and the remedy.
    """
    by_link = {fibre.link.id: fibre for fibre in fibres(topology)}
    lit = [_ends(topology, by_link, circuit) for circuit in circuits]
    _require_ports_once(lit)
    dark = {node.name for node in optical_switches(topology)}
    packet = [link for link in topology.links if link.id not in by_link]
    nodes = [node for node in topology.nodes if node.name not in dark]
    return topology.model_copy(update={"nodes": nodes, "links": [*packet, *(_joined(*ends) for ends in lit)]})


def _ends(topology: Topology, by_link: dict[str, Fibre], circuit: Circuit) -> tuple[Fibre, Fibre]:
    if topology.node(circuit.switch).kind != "oxc":
        raise TopologyError(f"circuit {_shown(circuit)}: {circuit.switch} is no optical switch; name one")
    strange = next((link for link in circuit.links if link not in by_link), None)
    if strange is not None:
        raise TopologyError(f"circuit {_shown(circuit)}: {strange} is no fibre of {circuit.switch}; name one that is")
    one, other = (by_link[link] for link in circuit.links)
    elsewhere = next((fibre for fibre in (one, other) if fibre.switch != circuit.switch), None)
    if elsewhere is not None:
        problem = f"{elsewhere.link.id} ends at {elsewhere.switch}: a circuit is in one switch"
        raise TopologyError(f"circuit {_shown(circuit)}: {problem}; take a fibre of {circuit.switch}")
    problem = why_not(one, other)
    if problem:
        raise TopologyError(f"circuit {_shown(circuit)}: {problem}")
    return one, other


def _shown(circuit: Circuit) -> str:
    return f"{circuit.switch}: {circuit.links[0]} – {circuit.links[1]}"


def _require_ports_once(lit: list[tuple[Fibre, Fibre]]) -> None:
    taken = Counter((fibre.switch, fibre.port.name) for ends in lit for fibre in ends)
    twice = next((place for place, times in taken.items() if times > 1), None)
    if twice is not None:
        raise TopologyError(f"port {twice[1]} of {twice[0]} is in two circuits; a port is in one circuit")


def _joined(one: Fibre, other: Fibre) -> Link:
    there, back = ((one, other), (other, one))
    name = f"{one.switch}.{one.port.name}-{other.port.name}"
    if len(name) > MAX_NAME_LENGTH:
        raise TopologyError(
            f"the circuit {name} has a name of more than {MAX_NAME_LENGTH} letters; shorten the switch's"
        )
    return one.link.model_copy(
        update={
            "id": name,
            "source": one.unit,
            "target": other.unit,
            "bandwidth_bps": _lower(*there),
            "reverse_bandwidth_bps": _lower(*back),
            "delay_s": _delay(*there),
            "reverse_delay_s": _delay(*back),
            "loss": _loss(*there),
            "reverse_loss": _loss(*back),
        }
    )


def _lower(here: Fibre, there: Fibre) -> float | None:
    rates = here.link.bandwidth_from(here.unit), there.link.bandwidth_from(there.switch)
    return min((rate for rate in rates if rate is not None), default=None)


def _delay(here: Fibre, there: Fibre) -> float:
    return here.link.delay_from(here.unit) + there.link.delay_from(there.switch)


def _loss(here: Fibre, there: Fibre) -> float:
    return 1 - (1 - here.link.loss_from(here.unit)) * (1 - there.link.loss_from(there.switch))


def named(topology: Topology, text: str) -> Circuit:
    """A circuit by its two fibres, as `u0-1,u3-2`.

    Raises:
        TopologyError: there are not two, or the first is no fibre.
    """
    links = text.split(",")
    switch = next((fibre.switch for fibre in fibres(topology) if fibre.link.id == links[0]), None)
    if len(links) != 2 or switch is None:  # noqa: PLR2004 - a circuit joins two
        raise TopologyError(f"circuit {text}: give two fibres of one optical switch, as u0-1,u3-2")
    return Circuit(switch=switch, links=links)


def units(topology: Topology) -> list[str]:
    """Nodes at the other ends of fibres, in the order of the topology."""
    found = {fibre.unit for fibre in fibres(topology)}
    return [node.name for node in topology.nodes if node.name in found]


def uniform(topology: Topology, among: Collection[str] | None = None) -> list[Circuit]:
    """Circuits between all pairs of units alike, as far as ports go.

    Every unit is joined to the next one, then to the second next, and so on round, until no two free ports can meet.
    With fewer ports than other units the result is a circulant graph.

    Args:
        topology: whose ports are used.
        among: the units that are joined; all where absent.
    """
    free: dict[str, list[Fibre]] = defaultdict(list)
    for fibre in fibres(topology):
        free[fibre.unit].append(fibre)
    names = [unit for unit in units(topology) if among is None or unit in among]
    pairs = [(names[one], names[other]) for one, other in _by_distance(len(names))]
    made: list[Circuit] = []
    before = -1
    while len(made) > before:
        before = len(made)
        made += [circuit for pair in pairs if (circuit := _take(free, *pair))]
    return made


def between(topology: Topology, pairs: Mapping[frozenset[str], int], lit: Sequence[Circuit] = ()) -> list[Circuit]:
    """Circuits for numbers of them between units. Of those that are lit, as many stay as are still wanted.

    Args:
        topology: whose ports are used.
        pairs: number of circuits by the names of the two units.
        lit: what is joined now.

    Raises:
        TopologyError: ports run out between two units.
    """
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    missing = Counter(pairs)
    stay = []
    for circuit in lit:
        pair = frozenset(unit[link] for link in circuit.links)
        if missing[pair] > 0:
            missing[pair] -= 1
            stay.append(circuit)
    taken = {link for circuit in stay for link in circuit.links}
    free: dict[str, list[Fibre]] = defaultdict(list)
    for fibre in fibres(topology):
        if fibre.link.id not in taken:
            free[fibre.unit].append(fibre)
    return stay + [_must(_take(free, *sorted(pair)), pair) for pair, count in missing.items() for _ in range(count)]


def _must(made: Circuit | None, pair: Iterable[str]) -> Circuit:
    if made is None:
        raise TopologyError(f"{' and '.join(sorted(pair))} have no two free ports that can meet; join fewer units")
    return made


def _by_distance(size: int) -> Iterator[tuple[int, int]]:
    """Every pair of units once, neighbours on the circle first."""
    for distance in range(1, size // 2 + 1):
        is_half_way = 2 * distance == size
        yield from ((unit, (unit + distance) % size) for unit in range(size // 2 if is_half_way else size))


def _take(free: dict[str, list[Fibre]], one: str, other: str) -> Circuit | None:
    """Joins two units by free ports that can meet."""
    for near in free[one]:
        for far in free[other]:
            if near.can_meet(far):
                free[one].remove(near)
                free[other].remove(far)
                return Circuit(switch=near.switch, links=[near.link.id, far.link.id])
    return None
