"""A model of an optical switch: what is connected, and from when on light passes. It has no clock and no sockets.

It serves the protocols, it tells the data plane of a testbed where frames go, and tests compare drivers with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from wiresum.circuits.device import Connection, PortState, Reading, State, natural
from wiresum.errors import CircuitError
from wiresum.topology.circuits import fibres, ports_of
from wiresum.topology.model import Node, Topology
from wiresum.topology.optical import Darkens

NO_LIGHT_DBM, LIGHT_DBM = -60.0, -3.0
"""What power meters say in darkness and in light."""


@dataclass(frozen=True)
class Beam:
    """A connection, and its light.

    Attributes:
        target: the port at which light leaves.
        tuning_s: when light comes.
        lit_s: when traffic passes; infinite where it never will.
    """

    target: str
    tuning_s: float
    lit_s: float


@dataclass
class Faults:
    """What is wrong with the switch.

    Attributes:
        failing: ports whose next connections get no light, with the reason that the device gives.
        lying: ports whose connections get no light though the device says so.
        stuck: ports that stay as they are, whatever is ordered.
    """

    failing: dict[str, str] = field(default_factory=dict)
    lying: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)

    def keeps_dark(self, connection: Connection) -> bool:
        """Whether a new connection gets no light."""
        return any(port in self.failing or port in self.lying for port in connection)


class Crossbar:
    """Duplex ports, and at most one connection into and out of each.

    Args:
        sides: every port, with its side or None.
        dark_s: seconds without light after an order.
        settle_s: seconds from light to traffic.
        darkens: what loses its light when connections change.
        units: unit of each port; a port that is not there is a unit by itself.
    """

    def __init__(
        self,
        sides: Mapping[str, str | None],
        dark_s: float,
        settle_s: float = 0.0,
        darkens: Darkens = "added",
        units: Mapping[str, str] | None = None,
    ) -> None:
        self.sides, self.dark_s, self.settle_s, self.darkens = dict(sides), dark_s, settle_s, darkens
        self._units = dict(units or {})
        self.beams: dict[str, Beam] = {}
        self.faults = Faults()
        self.generation = 0
        self.orders = 0
        self.on_change: Callable[[Collection[str]], None] = lambda _: None
        """Called after an order with the ports whose beams are others now."""

    @property
    def ports(self) -> list[str]:
        """Names of all ports, 2 before 10: protocols that number them do it in this order."""
        return sorted(self.sides, key=natural)

    @property
    def connections(self) -> frozenset[Connection]:
        """All that there are."""
        return frozenset((port, beam.target) for port, beam in self.beams.items())

    def order(self, now_s: float, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Changes connections: all of it, or with an error nothing. What is removed is dark at once.

        A connection that is there already is no change, and keeps its light.

        Raises:
            CircuitError: a port is not there, is taken, or both are on one side.
        """
        self._check(remove, add)
        here = self.connections
        stuck = self.faults.stuck
        gone = {one for one in remove if one in here and stuck.isdisjoint(one)}
        come = {one for one in add if one not in here - gone and stuck.isdisjoint(one)}
        taken = {port for one in here - gone for port in (f"in {one[0]}", f"out {one[1]}")}
        come = {one for one in come if taken.isdisjoint((f"in {one[0]}", f"out {one[1]}"))}
        self.orders += 1
        if not gone and not come:
            return
        self.generation += 1
        for port, _ in gone:
            del self.beams[port]
        for port, target in come:
            self.beams[port] = self._beam(now_s, (port, target))
        darkened = self._also_dark(gone | come) - {port for port, _ in come}
        for port in darkened:
            self.beams[port] = self._beam(now_s, (port, self.beams[port].target))
        self.on_change({port for port, _ in gone | come} | darkened)

    def reading(self, now_s: float) -> Reading:
        """What the switch says of itself, which is not always true."""
        return Reading(self.connections, {port: self.state(now_s, port) for port in self.sides})

    def state(self, now_s: float, port: str) -> PortState:
        """What the switch says of a port: of its two connections, the later one."""
        own = [(one, beam) for one, beam in self.beams.items() if port in (one, beam.target)]
        for one, beam in own:
            reason = next((self.faults.failing[end] for end in (one, beam.target) if end in self.faults.failing), None)
            if reason is not None and beam.lit_s == float("inf"):
                return PortState(State.FAILED, reason)
        if not own or now_s < max(beam.tuning_s for _, beam in own):
            return PortState(State.DARK)
        lit_s = max(beam.tuning_s + self.settle_s for _, beam in own)
        return PortState(State.LIT if now_s >= lit_s else State.TUNING)

    def version(self, now_s: float) -> tuple[object, ...]:
        """Changes whenever a reading may, and is found sooner."""
        beams = tuple(self.beams.values())  # another thread may add some
        moments = (at_s for beam in beams for at_s in (beam.tuning_s, beam.tuning_s + self.settle_s))
        return self.generation, sum(now_s >= at_s for at_s in moments), *self.faults.failing.items()

    def passes(self, now_s: float, port: str) -> str | None:
        """Where traffic that enters by a port leaves; None where it meets darkness."""
        beam = self.beams.get(port)
        return beam.target if beam and now_s >= beam.lit_s else None

    def power_dbm(self, now_s: float, port: str) -> float:
        """What a meter sees leave by a port."""
        lit = any(beam.target == port and self.passes(now_s, one) == port for one, beam in self.beams.items())
        return LIGHT_DBM if lit else NO_LIGHT_DBM

    def _beam(self, now_s: float, connection: Connection) -> Beam:
        tuning_s = now_s + self.dark_s
        lit_s = float("inf") if self.faults.keeps_dark(connection) else tuning_s + self.settle_s
        return Beam(connection[1], tuning_s, lit_s)

    def _also_dark(self, changed: set[Connection]) -> set[str]:
        """Ports whose connections lose their light because others change."""
        if self.darkens == "added":
            return set()
        if self.darkens == "all":
            return set(self.beams)
        units = {self._unit(port) for one in changed for port in one}
        return {port for port, beam in self.beams.items() if units & {self._unit(port), self._unit(beam.target)}}

    def _unit(self, port: str) -> str:
        return self._units.get(port, f"port {port}")

    def _check(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        for one, other in (*remove, *add):
            stranger = next((port for port in (one, other) if port not in self.sides), None)
            if stranger is not None:
                raise CircuitError(f"there is no port {stranger}")
        removed, added = frozenset(remove), frozenset(add)
        for one, other in added:
            if one == other:
                raise CircuitError(f"port {one} cannot be joined to itself")
            if self.sides[one] is not None and self.sides[one] == self.sides[other]:
                raise CircuitError(f"ports {one} and {other} are on the same side")
        after = [*(self.connections - removed - added), *added]
        for end, name in ((0, "into"), (1, "out of")):
            used = [one[end] for one in after]
            twice = next((port for port in used if used.count(port) > 1), None)
            if twice is not None:
                raise CircuitError(f"there is a connection {name} port {twice} already; remove it first")


def of_topology(topology: Topology, switch: Node) -> Crossbar:
    """The switch of a topology, dark."""
    oxc = switch.oxc
    assert oxc is not None, "an oxc has its field"
    units = {fibre.port.name: fibre.unit for fibre in fibres(topology) if fibre.switch == switch.name}
    sides = {port.name: port.side for port in ports_of(topology, switch)}
    return Crossbar(sides, oxc.dark_s, oxc.settle_s, oxc.darkens, units)
