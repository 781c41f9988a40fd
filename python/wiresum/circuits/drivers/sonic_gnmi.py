"""SONiC's optical circuit switches: its tables, by gNMI.

A path is `/CONFIG_DB/localhost/TABLE/KEY` with the origin `sonic-db`. An order is one Set, deletions before updates,
which the device makes one patch of its configuration, done as a whole or not at all, and saved. All paths of a Get are
of one database, so a reading takes two. A table without rows is not found, as is whatever else goes wrong in a Get: if
connections are not found, the second Get tells whether the device can read its tables at all.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from wiresum.circuits.device import Connection, Description, Reading
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.gnmi_channel import GnmiChannel
from wiresum.circuits.drivers.session import understood
from wiresum.circuits.gnmi import JSON_IETF, content, new, path, typed
from wiresum.circuits.sonic_tables import (
    CONFIG,
    CROSS_CONNECTS,
    PORT_STATES,
    PORTS,
    STATE,
    Rows,
    description,
    key,
    reading,
    row,
)

ORIGIN, INSTANCE = "sonic-db", "localhost"
"""Origin of paths that name tables of Redis, and the only instance of a device that has one."""


class SonicGnmi:
    """Gets and Sets over one channel."""

    def __init__(self, address: Address) -> None:
        self._name = address.name
        self._channel = GnmiChannel(address)

    def describe(self) -> Description:
        """The ports of the configuration."""
        return description(self._table(CONFIG, PORTS))

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        configured, ports = self._table(CONFIG, CROSS_CONNECTS, may_be_empty=True), self._table(STATE, PORT_STATES)
        return understood(self._name, lambda: reading(configured, ports))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Orders a change as one Set, deletions first."""
        deleted = [_row_of(one) for one in sorted(remove)]
        updated = [new("Update", path=_row_of(one), val=typed(row(one))) for one in sorted(add)]
        self._channel.ask("Set", new("SetRequest", delete=deleted, update=updated))

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._channel.close()

    def _table(self, database: str, name: str, *, may_be_empty: bool = False) -> Rows:
        request = new("GetRequest", path=[path(ORIGIN, database, INSTANCE, name)], encoding=JSON_IETF)
        answer = self._channel.ask("Get", request, new("GetResponse") if may_be_empty else None)
        return understood(self._name, lambda: _rows(answer))


def _row_of(connection: Connection) -> Any:
    """Path of a connection."""
    return path(ORIGIN, CONFIG, INSTANCE, CROSS_CONNECTS, key(connection))


def _rows(answer: Any) -> Rows:
    """Rows of the table that an answer has, or of none."""
    rows: dict[str, dict[str, str]] = {}
    for notification in answer.notification:
        for update in notification.update:
            rows.update(content(update.val))
    return rows
