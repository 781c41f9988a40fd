"""States of ports of devices that do not report them: a connected port is lit a known time after its last order."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from wiresum.circuits.device import Connection, PortState, State


class LitByTime:
    """Remembers when a driver has ordered what.

    A connection that this driver has not ordered is older than the driver, and lit.

    Args:
        light_s: seconds from an order to traffic.
        clock: seconds.
    """

    def __init__(self, light_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.light_s, self._clock = light_s, clock
        self._ordered_s: dict[str, float] = {}

    def ordered(self, connections: Iterable[Connection]) -> None:
        """Notes that connections were ordered just now."""
        now_s = self._clock()
        self._ordered_s.update((port, now_s) for one in connections for port in one)

    def states(self, ports: Iterable[str], connections: Collection[Connection]) -> dict[str, PortState]:
        """States of all ports, given what is connected."""
        connected = {port for one in connections for port in one}
        dark_until_s = self._clock() - self.light_s
        return {
            port: PortState(
                State.DARK
                if port not in connected
                else State.TUNING
                if self._ordered_s.get(port, dark_until_s) > dark_until_s
                else State.LIT
            )
            for port in ports
        }
