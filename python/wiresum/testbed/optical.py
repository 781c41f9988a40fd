"""The optical switches of a testbed: emulated devices whose light is in a namespace with a port for each fibre."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from wiresum.circuits.device import both_ways
from wiresum.circuits.emulator.crossbar import of_topology
from wiresum.circuits.emulator.server import HOST, Device, Serving
from wiresum.errors import TopologyError
from wiresum.plan.fabric import PlanFabric
from wiresum.testbed.layout import Layout
from wiresum.testbed.light import Light
from wiresum.topology.circuits import fibres, optical_switches
from wiresum.topology.model import Node, Topology
from wiresum.topology.optical import Circuit


class OpticalSwitch:
    """An optical switch of a testbed, for a driver and for tests.

    Attributes:
        device: the emulated device; its crossbar has the faults that a test may want.
        light: what sends frames on, and counts them.
    """

    def __init__(self, layout: Layout, switch: Node, lit: Sequence[Circuit]) -> None:
        topology = layout.topology
        own = [fibre for fibre in fibres(topology) if fibre.switch == switch.name]
        wires = {fibre.port.name: layout.wire(fibre.link.id) for fibre in own}
        ends = {name: wire.source if wire.source.node == switch.name else wire.target for name, wire in wires.items()}
        self.device = Device(of_topology(topology, switch))
        self.light = Light(ends, self.device.crossbar)
        self._serving: list[Serving] = []
        self._name = switch.name
        self._port = {fibre.link.id: fibre.port.name for fibre in own}
        crossbar = self.device.crossbar
        # These were there before the testbed was: they have their light.
        self._order(lit, time.monotonic() - crossbar.dark_s - crossbar.settle_s)

    def light_up(self, lit: Sequence[Circuit]) -> None:
        """Joins these circuits and no others, and returns when they have light."""
        self._order(lit, time.monotonic())
        end_s = max((beam.lit_s for beam in self.device.crossbar.beams.values()), default=0.0)
        time.sleep(max(0.0, end_s - time.monotonic()))

    def _order(self, lit: Sequence[Circuit], now_s: float) -> None:
        pairs = [frozenset(self._port[link] for link in one.links) for one in lit if one.switch == self._name]
        wanted, here = both_ways(pairs), self.device.crossbar.connections
        self.device.crossbar.order(now_s, here - wanted, wanted - here)

    def serve(self, protocol: str) -> str:
        """Speaks a protocol at the loopback interface of this host; returns the address for a driver.

        Raises:
            CircuitError: there is no such protocol, or ports have names that it cannot have.
        """
        serving = Serving(self.device, {protocol: (HOST, 0)})
        serving.__enter__()
        self._serving.append(serving)
        return serving.url(protocol)

    def restart(self, away_s: float, *, forgets: bool = False) -> None:
        """Its controller dies and is back after a while, at its addresses; mirrors stay, unless it forgets them."""
        for serving in self._serving:
            serving.close()
        if forgets:
            self._order([], time.monotonic())
        time.sleep(away_s)
        self._serving = [Serving(self.device, serving.addresses).__enter__() for serving in self._serving]

    def close(self) -> None:
        """Ends sessions and counting. Light stays as it is, as the light of a device whose controller has gone."""
        for serving in self._serving:
            serving.close()
        self._serving.clear()
        self.light.close()


def of_layout(layout: Layout, lit: Sequence[Circuit]) -> dict[str, OpticalSwitch]:
    """Every optical switch of a layout whose namespaces exist.

    Raises:
        SupportError: the kernel refused a program.
    """
    return {switch.name: OpticalSwitch(layout, switch, lit) for switch in optical_switches(layout.topology)}


def lit_in(topology: Topology, fabric: PlanFabric) -> list[Circuit]:
    """The circuits that a plan was made for, by the names of its links.

    Raises:
        TopologyError: a link of the plan is neither a link of the topology nor a circuit that its switches could have.
    """
    known = {link.id for link in topology.links}
    by_port = {(fibre.switch, fibre.port.name): fibre.link.id for fibre in fibres(topology)}
    found = {link.id: _named(by_port, link.id) for link in fabric.links if link.id not in known}
    strange = next((name for name, circuit in found.items() if circuit is None), None)
    if strange is not None:
        problem = f"the plan has other links than topology {topology.name}, as {strange}"
        raise TopologyError(f"{problem}; plan again for this topology")
    return [circuit for circuit in found.values() if circuit is not None]


def _named(by_port: Mapping[tuple[str, str], str], name: str) -> Circuit | None:
    switch, _, ports = name.rpartition(".")
    for at, letter in enumerate(ports):
        ends = (switch, ports[:at]), (switch, ports[at + 1 :])
        if letter == "-" and all(end in by_port for end in ends):
            return Circuit(switch=switch, links=[by_port[end] for end in ends])
    return None
