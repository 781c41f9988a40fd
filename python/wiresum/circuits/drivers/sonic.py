"""SONiC's optical circuit switches: its tables, by a shell over ssh.

An order is one JSON patch to `config apply-patch`, removals first, so the device gets it as one batch.

`sonic://HOST` runs `ssh HOST`, with whatever its configuration says of user, port and key.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from collections.abc import Collection, Mapping
from typing import Any

from wiresum.circuits.device import Connection, Description, Reading
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.session import Session, dial
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
from wiresum.errors import CircuitError


class Sonic:
    """A shell at the device, which is given one command after another."""

    def __init__(self, address: Address) -> None:
        self._name = address.name
        self._session = Session(address, _ssh if address.scheme == "sonic" else dial)
        self._commands = 0

    def describe(self) -> Description:
        """The ports of the configuration."""
        return description(self._table(CONFIG, PORTS))

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        configured, ports = self._table(CONFIG, CROSS_CONNECTS), self._table(STATE, PORT_STATES)
        return self._session.understood(lambda: reading(configured, ports))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Orders a change as one JSON patch, removals first."""
        patch: list[dict[str, Any]] = [{"op": "remove", "path": _path(one)} for one in sorted(remove)]
        patch += [{"op": "add", "path": _path(one), "value": row(one)} for one in sorted(add)]
        code, told = self._run(f"echo {shlex.quote(json.dumps(patch))} | sudo config apply-patch /dev/stdin")
        if code:
            raise CircuitError(f"{self._name} refuses the order: {' '.join(told.split())[-200:]}")

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._session.close()

    def _table(self, database: str, table: str) -> Rows:
        code, told = self._run(f"sonic-db-dump -n {database} -k '{table}|*' -y")
        if code:
            raise CircuitError(f"{self._name} cannot read {table}: {' '.join(told.split())[-200:]}")
        return self._session.understood(lambda: _rows(json.loads(told)))

    def _run(self, command: str) -> tuple[int, str]:
        """Exit code and output. A line that no other output has shows where it ends."""
        self._commands += 1
        mark = f"wiresum-{self._commands}-done"
        self._session.send(f"{command} 2>&1; echo {mark} $?\n".encode())
        output = self._session.until(mark.encode() + b" ")
        code = self._session.until(b"\n")
        return self._session.understood(lambda: (int(code), output.decode()))


def _path(connection: Connection) -> str:
    """A connection in a patch."""
    return f"/{CROSS_CONNECTS}/{key(connection)}"


def _ssh(address: Address) -> socket.socket:
    """A shell whose two ends are one socket."""
    ours, theirs = socket.socketpair()
    target = f"{address.user}@{address.host}" if address.user else address.host
    port = ["-p", str(address.port)] if address.port else []
    with theirs:
        subprocess.Popen(
            ["ssh", "-T", "-o", "BatchMode=yes", *port, target, "sh"],
            stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return ours


def _rows(dump: Any) -> dict[str, Mapping[str, str]]:
    """Rows of a dump by their name in the table."""
    return {name.partition("|")[2]: entry["value"] for name, entry in dump.items()}
