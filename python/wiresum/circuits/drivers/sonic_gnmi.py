"""SONiC's optical circuit switches: its tables, by gNMI.

A path is `/CONFIG_DB/localhost/TABLE/KEY` with the origin `sonic-db`. An order is one Set, deletions before updates,
which the device makes one patch of its configuration, done as a whole or not at all, and saved. All paths of a Get are
of one database, so a reading takes two. A table without rows is not found, as is whatever else goes wrong in a Get: if
connections are not found, the second Get tells whether the device can read its tables at all.

The device tells of changes of ports by Subscribe: when a row of their table changes, or, where it refuses that, by
samples that leave out what is as before. SONiC's own server takes no sample intervals as short as this one, so a device
that refuses both is asked again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from wiresum.circuits.device import Changes, Connection, Description, Reading
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.gnmi_channel import GnmiChannel
from wiresum.circuits.drivers.session import understood
from wiresum.circuits.drivers.yang import bare, entries, unexpected
from wiresum.circuits.gnmi import JSON_IETF, ON_CHANGE, SAMPLE, STREAM, content, new, path, typed
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
from wiresum.errors import CircuitError, CircuitSessionError

ORIGIN, INSTANCE = "sonic-db", "localhost"
"""Origin of paths that name tables of Redis, and the only instance of a device that has one."""
SAMPLE_NS = 10_000_000
"""Time between two samples: more would tell of light later than the questions that they replace."""


class SonicGnmi:
    """Gets and Sets over one channel, and a subscription while somebody listens."""

    def __init__(self, address: Address) -> None:
        self._name = address.name
        self._channel = GnmiChannel(address)
        self._tells = True

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

    def changes(self) -> Changes | None:
        """Listens to changes of ports: when there are some, or by samples; None where both have been refused before.

        Raises:
            CircuitSessionError: no answer, or none that makes sense.
            CircuitError: the device refuses both.
        """
        if not self._tells:
            return None
        reasons = []
        for mode in (ON_CHANGE, SAMPLE):
            try:
                return self._channel.listen(_subscription(mode))
            except CircuitSessionError:
                raise
            except CircuitError as refused:
                reasons.append(str(refused))
        self._tells = False
        raise CircuitError("; ".join(dict.fromkeys(reasons)))

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._channel.close()

    def _table(self, database: str, name: str, *, may_be_empty: bool = False) -> Rows:
        request = new("GetRequest", path=[path(ORIGIN, database, INSTANCE, name)], encoding=JSON_IETF)
        answer = self._channel.ask("Get", request, new("GetResponse") if may_be_empty else None)
        return understood(self._name, lambda: _rows(answer, name))


def _subscription(mode: int) -> Any:
    """A request to be told of the states of ports."""
    sampled = {"sample_interval": SAMPLE_NS, "suppress_redundant": True} if mode == SAMPLE else {}
    ports = new("Subscription", path=path(ORIGIN, STATE, INSTANCE, PORT_STATES), mode=mode, **sampled)
    return new(
        "SubscribeRequest",
        subscribe=new("SubscriptionList", subscription=[ports], mode=STREAM, encoding=JSON_IETF),
    )


def _row_of(connection: Connection) -> Any:
    """Path of a connection."""
    return path(ORIGIN, CONFIG, INSTANCE, CROSS_CONNECTS, key(connection))


def _rows(answer: Any, table: str) -> Rows:
    """Rows of the table that an answer has, which may come as a whole, row by row or field by field.

    Raises:
        ValueError: something else came.
    """
    rows: dict[str, dict[str, str]] = {}
    for notification in answer.notification:
        for update in notification.update:
            names = _within(notification.prefix, update.path, table)
            for name, fields in _rows_at(names, content(update.val), table):
                rows.setdefault(name, {}).update(fields)
    return rows


def _within(prefix: Any, path: Any, table: str) -> list[str]:
    """The names of a path below its table; none for the table itself."""
    names = [bare(one.name) for one in (*prefix.elem, *path.elem)]
    return names[names.index(table) + 1 :] if table in names else []


def _rows_at(names: list[str], value: Any, table: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows, or the part of a row, that an update below a table has."""
    match names:
        case []:
            for name, fields in _object(_unwrapped(value, table), table).items():
                yield name, _fields(fields, name)
        case [name]:
            yield name, _fields(value, name)
        case [name, field]:
            yield name, _fields({field: value}, name)
        case _:
            raise unexpected(f"rows of {table}", names)


def _unwrapped(value: Any, table: str) -> Any:
    """A table without an object around it that has the table as its only member."""
    inner = _object(value, table)
    return next(iter(inner.values())) if [bare(name) for name in inner] == [table] else inner


def _fields(value: Any, row_name: str) -> dict[str, str]:
    """Fields of a row by their bare names."""
    return {bare(name): text for name, text in _object(value, row_name).items()}


def _object(value: Any, name: str) -> Mapping[str, Any]:
    """An object, which an encoder may put into a list of one; an empty one for nothing."""
    wanted = f"an object with what {name} has"
    found = entries(value, wanted)
    if len(found) > 1:
        raise unexpected(wanted, value)
    return found[0] if found else {}
