"""An emulated optical switch by its own protocol: lines of JSON. `spec/circuits.md` has it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from wiresum.circuits.device import Connection, Description, PortState, Reading, State
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.session import Session
from wiresum.errors import CircuitError


class Emulated:
    """Speaks to `wiresum circuits emulate --serve emulated`, or to the optical switch of a testbed."""

    def __init__(self, address: Address) -> None:
        self._session = Session(address)

    def describe(self) -> Description:
        """Everything that the emulator was told."""
        told = self.ask("describe")
        return self._session.understood(lambda: Description(told["model"], dict(told["sides"]), float(told["light_s"])))

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        told = self.ask("read")
        return self._session.understood(lambda: _reading(told))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Orders a change in one batch, removals first."""
        self.ask("change", remove=sorted(map(list, remove)), add=sorted(map(list, add)))

    def ask(self, what: str, **fields: Any) -> Any:
        """One question of the protocol.

        Raises:
            CircuitSessionError: no answer, or none that makes sense.
            CircuitError: the emulator refuses.
        """
        self._session.send(json.dumps({"do": what, **fields}).encode() + b"\n")
        answer = self._session.until(b"\n")
        return self._session.understood(lambda: _answer(json.loads(answer)))

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._session.close()


def _reading(told: Any) -> Reading:
    states = {port: PortState(State(state), str(reason)) for port, (state, reason) in told["states"].items()}
    return Reading(frozenset((str(one), str(other)) for one, other in told["connections"]), states)


def _answer(told: Any) -> Any:
    if "error" in told:
        raise CircuitError(f"the emulated switch refuses: {told['error']}")
    return told["answer"]
