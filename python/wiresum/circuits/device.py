"""What a driver of an optical switch can do, and what it says of a device.

A port is duplex, and has the name that the device has for it. A connection leads light that enters by one port out by
another: a circuit of two ports is two connections, one each way. So a circuit of which a device has only one half is
seen, and mended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from wiresum.errors import CircuitError

Connection = tuple[str, str]
"""The port at which light enters, and the port at which it leaves."""
Pair = frozenset[str]
"""Two ports that a circuit joins."""


class State(StrEnum):
    """What a port does, by its device."""

    DARK = "dark"
    """No light passes: nothing is connected, or the device is at work."""
    TUNING = "tuning"
    """There is light, and not yet traffic."""
    LIT = "lit"
    """Traffic passes."""
    FAILED = "failed"
    """The device has given up; a reason says why."""


@dataclass(frozen=True)
class PortState:
    """State of a port.

    Attributes:
        state: what it does.
        reason: why, of one that failed.
    """

    state: State
    reason: str = ""


WORST_FIRST = (State.FAILED, State.TUNING, State.DARK, State.LIT)


def worst(states: Iterable[PortState]) -> PortState:
    """The state of a port of which a device reports the parts: its two sides, or its connections."""
    return min(states, key=lambda one: WORST_FIRST.index(one.state))


@dataclass(frozen=True)
class Description:
    """What a device is.

    Attributes:
        model: as it calls itself.
        sides: every port, with its side; None where the device has one.
        light_s: seconds from an order to traffic, where the device says it or its maker does.
    """

    model: str
    sides: Mapping[str, str | None]
    light_s: float | None = None


@dataclass(frozen=True)
class Reading:
    """What a device says now.

    Attributes:
        connections: all that it has.
        states: of every port.
    """

    connections: frozenset[Connection]
    states: Mapping[str, PortState]

    @property
    def pairs(self) -> frozenset[Pair]:
        """Circuits: connections that have their other half."""
        return frozenset(frozenset(one) for one in self.connections if one[::-1] in self.connections)


class Driver(Protocol):
    """A device and its protocol. Every call ends, with an answer or an error, within a bounded time."""

    def describe(self) -> Description:
        """What the device is.

        Raises:
            CircuitSessionError: no answer, or none that makes sense; the next call begins a new session.
            CircuitError: the device refuses.
        """

    def read(self) -> Reading:
        """What is connected, and the state of every port; errors as `describe`."""

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Orders a change in one batch, removals first; other connections stay. Errors as `describe`."""

    def close(self) -> None:
        """Ends the session. What is connected stays."""


class Changes(Protocol):
    """What a device tells by itself."""

    def wait(self, timeout_s: float) -> None:
        """Returns when the device has told of a change since the last call, or after a time.

        Raises:
            CircuitSessionError: it will tell nothing more.
        """

    def close(self) -> None:
        """Listens no more."""


@runtime_checkable
class Teller(Protocol):
    """A driver whose device may tell of changes by itself."""

    def changes(self) -> Changes | None:
        """Listens to changes of ports from now on; None where the device has refused that before.

        Raises:
            CircuitSessionError: no answer, or none that makes sense.
            CircuitError: the device refuses, said once; the message says why.
        """


def both_ways(pairs: Iterable[Pair]) -> frozenset[Connection]:
    """The connections of circuits.

    Example:
        >>> sorted(both_ways([frozenset({"1", "2"})]))
        [('1', '2'), ('2', '1')]
    """
    return frozenset((one, other) for pair in pairs for one in pair for other in pair if one != other)


def natural(port: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts ports as people do: 2 before 10, 1A before 1B.

    Example:
        >>> sorted(["10", "2", "1B", "1A"], key=natural)
        ['1A', '1B', '2', '10']
    """
    parts: list[tuple[int, int | str]] = []
    for letter in port:
        if letter.isdigit() and parts and parts[-1][0] == 0:
            parts[-1] = (0, int(parts[-1][1]) * 10 + int(letter))
        else:
            parts.append((0, int(letter)) if letter.isdigit() else (1, letter))
    return tuple(parts)


def shown(pair: Iterable[str]) -> str:
    """Two ports for people, as `3 – 7`."""
    return " – ".join(sorted(pair, key=natural))


def check_pairs(pairs: Collection[Pair], sides: Mapping[str, str | None]) -> None:
    """Asserts that a device could have these circuits together.

    Raises:
        CircuitError: a port is not there, is used twice, or is joined to its own side.
    """
    taken: set[str] = set()
    for pair in sorted(pairs, key=lambda pair: sorted(pair, key=natural)):
        if len(pair) != 2:  # noqa: PLR2004 - two ends
            raise CircuitError(f"port {shown(pair)} cannot be joined to itself; name two ports")
        for port in pair:
            if port not in sides:
                raise CircuitError(f"the device has no port {port}; it has {_range(sides)}")
            if port in taken:
                raise CircuitError(f"port {port} is in two circuits; a port is in one")
        taken |= pair
        one, other = (sides[port] for port in pair)
        if one is not None and one == other:
            raise CircuitError(f"{shown(pair)}: both ports are on side {one}; join side A to side B")


def _range(sides: Mapping[str, str | None]) -> str:
    ports = sorted(sides, key=natural)
    return f"{len(ports)} ports, {ports[0]} to {ports[-1]}" if ports else "none"
