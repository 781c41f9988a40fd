"""Circuits of a schedule at the devices that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wiresum.circuits.control import apply, wait_for_light
from wiresum.circuits.device import Driver, Pair
from wiresum.errors import CircuitError, ScheduleError
from wiresum.topology.circuits import fibres, optical_switches
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit

ATTEMPTS = 3
"""Times that a circuit without light is taken down and ordered again before it has failed."""


@dataclass(frozen=True)
class Ordered:
    """What an order has changed, in circuits.

    Attributes:
        added: that were not there.
        removed: that were.
        attempts: times that light was waited for.
    """

    added: int
    removed: int
    attempts: int


class Light:
    """The optical switches of a topology, each through a driver.

    Args:
        topology: with optical switches, all of whose ports with a fibre are ours.
        drivers: by the switch's name.
        probe: tries whether something gets through a circuit of a switch.

    Raises:
        ScheduleError: a switch has no driver.
    """

    def __init__(
        self, topology: Topology, drivers: Mapping[str, Driver], probe: Callable[[str, Pair], bool] | None = None
    ) -> None:
        self._drivers, self._probe = dict(drivers), probe
        ends = fibres(topology)
        self._port = {fibre.link.id: fibre.port.name for fibre in ends}
        self._owned = {name: frozenset(f.port.name for f in ends if f.switch == name) for name in self._drivers}
        missing = [switch.name for switch in optical_switches(topology) if switch.name not in self._drivers]
        if missing:
            raise ScheduleError(f"optical switch {missing[0]} has no driver; name it, as --driver URL")

    def order(self, circuits: Sequence[Circuit], meanwhile: Callable[[], None] = lambda: None) -> Ordered:
        """Lights these circuits and no others.

        Args:
            circuits: all that are wanted.
            meanwhile: is done while there is no light yet.

        Raises:
            CircuitError: a device refuses, or a circuit gets no light however often it is ordered.
        """
        added = removed = 0
        wanted = {name: self._pairs(name, circuits) for name in self._drivers}
        new: dict[str, frozenset[Pair]] = {}
        for name, driver in self._drivers.items():
            change = apply(driver, wanted[name], self._owned[name])
            new[name] = change.added
            added += len(change.added)
            removed += len({frozenset(connection) for connection in change.removed})
        meanwhile()
        attempts = max((self._await(name, wanted[name], new[name]) for name in self._drivers), default=1)
        return Ordered(added, removed, attempts)

    def _pairs(self, switch: str, circuits: Sequence[Circuit]) -> set[Pair]:
        return {frozenset(self._port[link] for link in one.links) for one in circuits if one.switch == switch}

    def _await(self, name: str, wanted: set[Pair], new: frozenset[Pair]) -> int:
        """Waits for new circuits; those without light go, and come again."""
        driver, probe = self._drivers[name], self._probe
        for attempt in range(1, ATTEMPTS + 1):
            try:
                wait_for_light(driver, new, None if probe is None else lambda pair: probe(name, pair))
            except CircuitError:
                if attempt == ATTEMPTS:
                    raise
                apply(driver, wanted - new, self._owned[name])
                apply(driver, wanted, self._owned[name])
            else:
                return attempt
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Ends the sessions; light stays."""
        for driver in self._drivers.values():
            driver.close()
