"""SONiC's tables as an emulated switch has them, for the servers that show and change them."""

from __future__ import annotations

from typing import Any

from wiresum.circuits.device import Connection, State
from wiresum.circuits.emulator.server import Device
from wiresum.circuits.sonic_tables import CONFIG, CONNECTION, CROSS_CONNECTS, PORT_STATES, PORTS, STATE, key, row
from wiresum.errors import CircuitError

STATUS = {State.DARK: "blocked", State.TUNING: "tuning", State.LIT: "tuned", State.FAILED: "failed"}


def table(device: Device, database: str, name: str) -> dict[str, dict[str, str]]:
    """Rows of a table by their keys.

    Raises:
        CircuitError: there is no such table.
    """
    ports = [f"{port}{side}" for port in device.crossbar.ports for side in "AB"]
    if (database, name) == (CONFIG, PORTS):
        return {port: {"config_status": "normal", "label": port} for port in ports}
    if (database, name) == (CONFIG, CROSS_CONNECTS):
        return {key(one): row(one) for one in sorted(device.crossbar.connections)}
    if (database, name) == (STATE, PORT_STATES):
        now_s = device.clock()
        return {port: {"oper_status": STATUS[device.crossbar.state(now_s, port[:-1]).state]} for port in ports}
    raise CircuitError(f"there is no table {name} in {database}")


def connection_of(name: str) -> Connection:
    """The connection of a row's key.

    Raises:
        CircuitError: the key names none.
    """
    found = CONNECTION.fullmatch(name)
    if found is None:
        raise CircuitError(f"{name} is no cross-connect from a side A to a side B")
    return found[1], found[2]


def check_sides(connection: Connection, fields: Any) -> None:
    """Asserts that a row's fields are those that its key says.

    Raises:
        CircuitError: they are others.
    """
    if (fields["a_side"], fields["b_side"]) != tuple(row(connection).values()):
        raise CircuitError(f"{key(connection)} has other sides than its name says")
