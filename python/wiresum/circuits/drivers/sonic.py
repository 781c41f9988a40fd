"""SONiC's optical circuit switches: its tables, by a shell over ssh.

`OCS_CROSS_CONNECT|1A-2B` leads light from side A of fibre port 1 to side B of fibre port 2. Port p is the two of them,
`pA` in and `pB` out. An order is one JSON patch to `config apply-patch`, removals first, so the device gets it as one
batch. States come from `OCS_PORT_TABLE`. SONiC's other way, a gNMI Set, does the same to the same tables, and would
need gRPC.

`sonic://HOST` runs `ssh HOST`, with whatever its configuration says of user, port and key.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
from collections.abc import Collection, Mapping
from typing import Any

from wiresum.circuits.device import Connection, Description, PortState, Reading, State, natural, worst
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.session import Session, dial
from wiresum.errors import CircuitError

LIGHT_S = 0.05
"""Seconds from an order to light, taken over from Polatis: no switch with SONiC was measured."""
STATES = {
    "blocked": State.DARK,
    "powered_off": State.DARK,
    "tuning": State.TUNING,
    "tuned": State.LIT,
    "connected": State.LIT,
    "failed": State.FAILED,
}
"""The states of SONiC's design, in which a port that is done is `tuned` in some versions and `connected` in others."""
CONNECTION = re.compile(r"(\w+)A-(\w+)B")


class Sonic:
    """A shell at the device, which is given one command after another."""

    def __init__(self, address: Address) -> None:
        self._name = address.name
        self._session = Session(address, _ssh if address.scheme == "sonic" else dial)
        self._commands = 0

    def describe(self) -> Description:
        """The ports of the configuration."""
        ports = self._table("CONFIG_DB", "OCS_PORT")
        names = {name[:-1] for name in ports if name.endswith("A") and f"{name[:-1]}B" in ports}
        return Description("SONiC OCS", dict.fromkeys(sorted(names, key=natural)), LIGHT_S)

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        configured = self._table("CONFIG_DB", "OCS_CROSS_CONNECT")
        ports = self._table("STATE_DB", "OCS_PORT_TABLE")
        return self._session.understood(lambda: _reading(configured, ports))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Orders a change as one JSON patch, removals first."""
        paths = [f"/OCS_CROSS_CONNECT/{key(one)}" for one in sorted(remove)]
        patch: list[dict[str, Any]] = [{"op": "remove", "path": path} for path in paths]
        patch += [
            {
                "op": "add",
                "path": f"/OCS_CROSS_CONNECT/{key(one)}",
                "value": {"a_side": f"{one[0]}A", "b_side": f"{one[1]}B"},
            }
            for one in sorted(add)
        ]
        code, told = self._run(f"echo {shlex.quote(json.dumps(patch))} | sudo config apply-patch /dev/stdin")
        if code:
            raise CircuitError(f"{self._name} refuses the order: {' '.join(told.split())[-200:]}")

    def close(self) -> None:
        """Ends the session; what is connected stays."""
        self._session.close()

    def _table(self, database: str, table: str) -> dict[str, Mapping[str, str]]:
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


def key(connection: Connection) -> str:
    """Name of a connection in the tables.

    Example:
        >>> key(("1", "2"))
        '1A-2B'
    """
    return f"{connection[0]}A-{connection[1]}B"


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
    return {name.partition("|")[2]: row["value"] for name, row in dump.items()}


def _reading(configured: Mapping[str, Mapping[str, str]], ports: Mapping[str, Mapping[str, str]]) -> Reading:
    connections: set[Connection] = set()
    for name, row in configured.items():
        found = CONNECTION.fullmatch(f"{row['a_side']}-{row['b_side']}")
        if found is None:
            raise ValueError(f"cross-connect {name} is not from a side A to a side B")
        connections.add((found[1], found[2]))
    names = {name[:-1] for name in ports}
    return Reading(frozenset(connections), {name: _state(name, ports) for name in names})


def _state(name: str, ports: Mapping[str, Mapping[str, str]]) -> PortState:
    """The worse one of a port's two sides."""
    sides = [(side, STATES[ports[side]["oper_status"]]) for side in (f"{name}A", f"{name}B") if side in ports]
    return worst(
        PortState(state, f"the device says that {side} has failed" if state is State.FAILED else "")
        for side, state in sides
    )
