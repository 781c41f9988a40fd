"""The tables of SONiC's optical circuit switches, whatever carries them to the device and back.

`OCS_CROSS_CONNECT|1A-2B` leads light from side A of fibre port 1 to side B of fibre port 2. Port p is the two of them,
`pA` in and `pB` out. States come from `OCS_PORT_TABLE`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wiresum.circuits.device import Connection, Description, PortState, Reading, State, natural, worst

CONFIG, STATE = "CONFIG_DB", "STATE_DB"
"""Databases: what is wanted, and what is."""
PORTS, CROSS_CONNECTS = "OCS_PORT", "OCS_CROSS_CONNECT"
"""Tables of the configuration."""
PORT_STATES = "OCS_PORT_TABLE"
"""Table of states."""
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

Rows = Mapping[str, Mapping[str, str]]
"""Rows of a table by their keys, each with its fields."""


def key(connection: Connection) -> str:
    """Name of a connection in the tables.

    Example:
        >>> key(("1", "2"))
        '1A-2B'
    """
    return f"{connection[0]}A-{connection[1]}B"


def row(connection: Connection) -> dict[str, str]:
    """Fields of a connection in the configuration."""
    return {"a_side": f"{connection[0]}A", "b_side": f"{connection[1]}B"}


def description(ports: Rows) -> Description:
    """What a device is, by the ports of its configuration that have both sides."""
    names = {name[:-1] for name in ports if name.endswith("A") and f"{name[:-1]}B" in ports}
    return Description("SONiC OCS", dict.fromkeys(sorted(names, key=natural)), LIGHT_S)


def reading(configured: Rows, ports: Rows) -> Reading:
    """What a device says, by its cross-connects and the states of its ports.

    Raises:
        ValueError: a cross-connect does not lead from a side A to a side B, a row lacks a field, or a state is not one
            of SONiC's.
    """
    connections: set[Connection] = set()
    for name, fields in configured.items():
        found = CONNECTION.fullmatch(f"{_field(name, fields, 'a_side')}-{_field(name, fields, 'b_side')}")
        if found is None:
            raise ValueError(f"cross-connect {name} is not from a side A to a side B")
        connections.add((found[1], found[2]))
    names = {name[:-1] for name in ports}
    return Reading(frozenset(connections), {name: _state(name, ports) for name in names})


def _state(name: str, ports: Rows) -> PortState:
    """The worse one of a port's two sides."""
    sides = [(side, _status(side, ports[side])) for side in (f"{name}A", f"{name}B") if side in ports]
    return worst(
        PortState(state, f"the device says that {side} has failed" if state is State.FAILED else "")
        for side, state in sides
    )


def _status(side: str, fields: Mapping[str, str]) -> State:
    status = str(_field(side, fields, "oper_status"))
    if status not in STATES:
        raise ValueError(f"{PORT_STATES} has {side} as {status}; expected one of {', '.join(STATES)}")
    return STATES[status]


def _field(row: str, fields: Mapping[str, str], name: str) -> str:
    if name not in fields:
        raise ValueError(f"row {row} has {', '.join(fields) or 'no field'}; expected {name}")
    return fields[name]
