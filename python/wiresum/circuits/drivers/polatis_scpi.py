"""Polatis optical switches by SCPI: lines over TCP, lists of ports as `(@1,2),(@17,18)`.

As in RESTCONF, port p of a switch of n × n fibres is ingress p and egress n + p. Removals and additions are one line.
`:oxc:swit:conn:only` would set the whole state at once, but the connections of others with it, as they were when they
were read; so `sub` and `add` are used, which name only ours. The device says nothing of light: a connection is lit a
while after its order (`?light=0.05`, in seconds).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from wiresum.circuits.device import Connection, Description, Reading
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.lit_by_time import LitByTime
from wiresum.circuits.drivers.session import Session
from wiresum.errors import CircuitError

LIGHT_S = 0.05
"""Seconds from an order to light; the maker promises less."""
LISTS = re.compile(r"\(@([\d,]*)\),\(@([\d,]*)\)")


class PolatisScpi:
    """SCPI over TCP."""

    def __init__(self, address: Address) -> None:
        self._name = address.name
        self._session = Session(address)
        self._light = LitByTime(address.number("light", LIGHT_S))
        self._size = 0

    def describe(self) -> Description:
        """Model and number of ports."""
        model = self._ask("*idn?")
        return Description(model, {str(port): None for port in range(1, self._ports() + 1)}, self._light.light_s)

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        size = self._ports()
        told = self._ask(":oxc:swit:conn:stat?")
        connections = self._session.understood(lambda: parse(told, size))
        ports = [str(port) for port in range(1, size + 1)]
        return Reading(connections, self._light.states(ports, connections))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Sends the order on one line, with the question whether something went wrong."""
        size = self._ports()
        batches = (("sub", remove), ("add", add))
        orders = [f":oxc:swit:conn:{verb} {lists(some, size)}" for verb, some in batches if some]
        told = self._ask(";".join([*orders, ":syst:err?"]))
        code, _, message = told.partition(",")
        if self._session.understood(lambda: int(code)) != 0:
            raise CircuitError(f"{self._name} refuses: {message.strip()}")
        self._light.ordered(add)

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._session.close()

    def _ports(self) -> int:
        if not self._size:
            told = self._ask(":oxc:swit:size?")
            self._size = self._session.understood(lambda: _size(told))
        return self._size

    def _ask(self, line: str) -> str:
        self._session.send(f"{line}\r\n".encode())
        told = self._session.until(b"\n")
        return self._session.understood(lambda: told.decode("ascii").strip())


def lists(connections: Collection[Connection], size: int) -> str:
    """Two lists of ports.

    Example:
        >>> lists([("1", "2")], 16)
        '(@1),(@18)'
    """
    ordered = sorted(connections, key=lambda one: int(one[0]))
    ingress = ",".join(str(int(one)) for one, _ in ordered)
    egress = ",".join(str(size + int(other)) for _, other in ordered)
    return f"(@{ingress}),(@{egress})"


def parse(text: str, size: int) -> frozenset[Connection]:
    """The connections of two lists.

    Raises:
        ValueError: they are none, or differ in length.
    """
    found = LISTS.fullmatch(text.strip().strip('"'))
    if found is None:
        raise ValueError(f"{text[:60]!r} is not (@…),(@…)")
    ingress, egress = ([int(port) for port in part.split(",") if port] for part in found.groups())
    return frozenset((str(one), str(other - size)) for one, other in zip(ingress, egress, strict=True))


def _size(text: str) -> int:
    first, second = (int(number) for number in text.strip("()").split(","))
    if first != second or first < 1:
        raise ValueError(f"{first} × {second} ports, and duplex ports need as many of both")
    return first
