"""Circuits of a schedule at the devices that make them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from wiresum.circuits.control import ATTEMPTS as ORDERS
from wiresum.circuits.control import Change, apply, without_light
from wiresum.circuits.device import Driver, Pair, State, both_ways
from wiresum.errors import CircuitError, CircuitSessionError, CircuitStuckError, ScheduleError
from wiresum.topology.circuits import fibres, optical_switches
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit

ATTEMPTS = 3
"""Times that a circuit without light is taken down and ordered again before it has failed."""

AWAY_S = 20.0
"""Seconds that a device may not answer, as while its controller starts again: light stays, and jobs go on or wait. Jobs
may need more beyond their turns."""
AGAIN_S = 0.25
"""Seconds between two tries to reach it."""

T = TypeVar("T")
Fibres = frozenset[str]
"""Ids of the two fibres that a circuit joins."""
Joined = tuple[str, str, str]
"""An optical switch and two of its ports, by their names."""
Probe = Callable[[Circuit], bool]
"""Tries whether something gets through a circuit that its device calls lit."""


@dataclass(frozen=True)
class Ordered:
    """What an order has changed, in circuits.

    Attributes:
        added: that were not there.
        removed: that were.
        attempts: times that light was waited for.
        failed: circuits that have no light and are taken down again, with the reason.
    """

    added: int
    removed: int
    attempts: int
    failed: Mapping[Fibres, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What devices say of circuits.

    Attributes:
        has_all: whether these are there and no others.
        failed: those that are there, and of which the device calls a port failed.
    """

    has_all: bool
    failed: frozenset[Fibres]


class Light:
    """The optical switches of a topology, each through a driver.

    Args:
        topology: with optical switches, all of whose ports with a fibre are ours.
        drivers: by the switch's name.
        probe: is asked of every new circuit before anything is sent over it.

    Raises:
        ScheduleError: a switch has no driver.
    """

    def __init__(self, topology: Topology, drivers: Mapping[str, Driver], probe: Probe | None = None) -> None:
        self._drivers, self._probe = dict(drivers), probe
        ends = fibres(topology)
        self._port = {fibre.link.id: fibre.port.name for fibre in ends}
        self._fibre = {(fibre.switch, fibre.port.name): fibre.link.id for fibre in ends}
        self._owned = {name: frozenset(f.port.name for f in ends if f.switch == name) for name in self._drivers}
        missing = [switch.name for switch in optical_switches(topology) if switch.name not in self._drivers]
        if missing:
            raise ScheduleError(f"optical switch {missing[0]} has no driver; name it, as --driver URL")

    def order(
        self,
        circuits: Sequence[Circuit],
        meanwhile: Callable[[], None] = lambda: None,
        doubtful: Sequence[Circuit] = (),
    ) -> Ordered:
        """Lights these circuits and no others. What gets no light is taken down again, and said.

        Args:
            circuits: all that are wanted.
            meanwhile: is done while there is no light yet.
            doubtful: wanted ones that are looked at as new ones are, though they are there.

        Raises:
            CircuitError: a device refuses, or has not answered for `AWAY_S`.
        """
        added = removed = 0
        wanted = {name: self._pairs(name, circuits) for name in self._drivers}
        new: dict[str, frozenset[Pair]] = {}
        failed: dict[Fibres, str] = {}
        for name in self._drivers:
            change, stuck = self._apply(name, wanted[name])
            failed |= self._named(name, stuck)
            new[name] = change.added | (wanted[name] & self._pairs(name, doubtful))
            added += len(change.added)
            removed += len({frozenset(connection) for connection in change.removed})
        meanwhile()
        attempts = 1
        for name in self._drivers:
            tried, dark = self._await(name, wanted[name], new[name])
            attempts, failed = max(attempts, tried), failed | self._named(name, dark)
        return Ordered(added, removed, attempts, failed)

    def joined(self, circuits: Sequence[Circuit]) -> list[Joined]:
        """The ports of circuits, which keep their names when their fibres are gone."""
        found = {(name, *sorted(pair)) for name in self._drivers for pair in self._pairs(name, circuits)}
        return sorted((name, one, other) for name, one, other in found)

    def inherit(self, left: Collection[Joined]) -> None:
        """Owns the ports of circuits that a driver before has lit, as far as they are still there.

        A port that the topology has lost since may be joined to one that is ours, which nobody could use otherwise.

        Args:
            left: circuits that a driver before may have lit.

        Raises:
            CircuitError: a device refuses, or has not answered for `AWAY_S`.
        """
        for name, driver in self._drivers.items():
            pairs = {frozenset(ports) for switch, *ports in left if switch == name}
            lit = {frozenset(one) for one in _patiently(driver.read).connections} if pairs else set()
            in_the_way = (pair for pair in pairs & lit if pair & self._owned[name])
            self._owned[name] = self._owned[name].union(*in_the_way)

    def look(self, circuits: Sequence[Circuit]) -> Look:
        """What devices that answer say of circuits that are to be there."""
        has_all, failed = True, set[Fibres]()
        for name, driver in self._drivers.items():
            with suppress(CircuitError):
                reading, wanted = driver.read(), self._pairs(name, circuits)
                now = {one for one in reading.connections if self._owned[name].issuperset(one)}
                has_all &= now == both_ways(wanted)
                bad = {port for port, seen in reading.states.items() if seen.state is State.FAILED}
                failed |= {frozenset(self._circuit(name, pair).links) for pair in wanted & reading.pairs if pair & bad}
        return Look(has_all, frozenset(failed))

    def _pairs(self, switch: str, circuits: Sequence[Circuit]) -> set[Pair]:
        return {frozenset(self._port[link] for link in one.links) for one in circuits if one.switch == switch}

    def _circuit(self, switch: str, pair: Pair) -> Circuit:
        return Circuit(switch=switch, links=sorted(self._fibre[switch, port] for port in pair))

    def _named(self, switch: str, dark: Mapping[Pair, str]) -> dict[Fibres, str]:
        return {frozenset(self._circuit(switch, pair).links): reason for pair, reason in dark.items()}

    def _apply(self, name: str, wanted: set[Pair]) -> tuple[Change, dict[Pair, str]]:
        """What an order did, and wanted circuits that ports which are stuck stand against.

        A device that does not answer is asked again for a while. What it was before is read once, so that what it did
        without an answer counts too.
        """
        driver, owned = self._drivers[name], self._owned[name]
        before = _patiently(driver.read)
        here, stuck = frozenset(wanted), dict[Pair, str]()
        try:
            _patiently(lambda: apply(driver, wanted, owned))
            now = both_ways(wanted)
        except CircuitStuckError as trouble:
            reading = _patiently(driver.read)
            now, here = reading.connections, reading.pairs & wanted
            stuck = dict.fromkeys(wanted - here, str(trouble))
        gone = frozenset(one for one in before.connections - now if owned.issuperset(one))
        return Change(gone, here - before.pairs, ORDERS if stuck else 1), stuck

    def _await(self, name: str, wanted: set[Pair], new: frozenset[Pair]) -> tuple[int, dict[Pair, str]]:
        """Waits for new circuits; those without light go, and come again, and go for good in the end."""
        driver, probe, left = self._drivers[name], self._probe, new
        probed = None if probe is None else lambda pair: probe(self._circuit(name, pair))
        for attempt in range(1, ATTEMPTS + 1):
            dark = _patiently(lambda: without_light(driver, left, probed))  # noqa: B023 - it is called at once
            if not dark:
                return attempt, {}
            left = frozenset(dark)
            self._apply(name, wanted - left)
            if attempt < ATTEMPTS:
                self._apply(name, wanted)
        return ATTEMPTS, dark

    def close(self) -> None:
        """Ends the sessions; light stays."""
        for driver in self._drivers.values():
            driver.close()


def _patiently(ask: Callable[[], T]) -> T:
    """Asks again while a device does not answer.

    Raises:
        CircuitError: it refuses, or has not answered for `AWAY_S`.
    """
    end_s = time.monotonic() + AWAY_S
    while True:
        try:
            return ask()
        except CircuitSessionError:
            if time.monotonic() > end_s:
                raise
            time.sleep(AGAIN_S)
