"""A shell at a SONiC optical switch that knows the commands of the driver: its tables, and patches to them."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from wiresum.circuits.device import Connection, State
from wiresum.circuits.drivers.sonic import CONNECTION, key
from wiresum.circuits.emulator.server import Device, Exchange
from wiresum.errors import CircuitError

COMMAND = re.compile(r"(?P<command>.*?) 2>&1; echo (?P<mark>[\w-]+) \$\?", re.DOTALL)
DUMP = re.compile(r"sonic-db-dump -n (\w+) -k '(\w+)\|\*' -y")
PATCH = re.compile(r"echo (.*) \| sudo config apply-patch /dev/stdin", re.DOTALL)
STATUS = {State.DARK: "blocked", State.TUNING: "tuning", State.LIT: "tuned", State.FAILED: "failed"}


async def serve(exchange: Exchange) -> None:
    """Reads a command and answers with its output."""
    line = (await exchange.until(b"\n")).decode("utf-8", "replace").strip()
    await exchange.answer(lambda: _run(exchange.device, line))


def _run(device: Device, line: str) -> bytes:
    found = COMMAND.fullmatch(line)
    command, mark = (found["command"], found["mark"]) if found else (line, "")
    try:
        output, code = _output(device, command), 0
    except CircuitError as refused:
        output, code = f"Error: {refused}\n", 1
    except (ValueError, LookupError, TypeError, AttributeError) as strange:
        output, code = f"Failed to apply patch: {type(strange).__name__} {strange}\n", 2
    return f"{output}{mark} {code}\n".encode() if mark else output.encode()


def _output(device: Device, command: str) -> str:
    if dump := DUMP.fullmatch(command):
        rows = _table(device, dump[1], dump[2])
        found = {f"{dump[2]}|{name}": {"type": "hash", "value": row} for name, row in rows.items()}
        return json.dumps(found, indent=2) + "\n"
    if patch := PATCH.fullmatch(command):
        _apply(device, json.loads(shlex.split(patch[1])[0]))
        return "Patch applied successfully.\n"
    raise CircuitError(f"{command.split(' ', maxsplit=1)[0]}: command not found")


def _table(device: Device, database: str, table: str) -> dict[str, dict[str, str]]:
    ports = [f"{port}{side}" for port in device.crossbar.ports for side in "AB"]
    connections = sorted(device.crossbar.connections)
    match database, table:
        case "CONFIG_DB", "OCS_PORT":
            return {port: {"config_status": "normal", "label": port} for port in ports}
        case "CONFIG_DB", "OCS_CROSS_CONNECT":
            return {key(one): {"a_side": f"{one[0]}A", "b_side": f"{one[1]}B"} for one in connections}
        case "STATE_DB", "OCS_PORT_TABLE":
            now_s = device.clock()
            return {port: {"oper_status": STATUS[device.crossbar.state(now_s, port[:-1]).state]} for port in ports}
    raise CircuitError(f"there is no table {table} in {database}")


def _apply(device: Device, patch: Any) -> None:
    """All of a JSON patch, in one order."""
    remove: list[Connection] = []
    add: list[Connection] = []
    for step in patch:
        connection = _connection(step["path"])
        if step["op"] == "remove":
            if connection not in device.crossbar.connections:
                raise CircuitError(f"{step['path']} is not there")
            remove.append(connection)
        elif step["op"] == "add":
            if (step["value"]["a_side"], step["value"]["b_side"]) != (f"{connection[0]}A", f"{connection[1]}B"):
                raise CircuitError(f"{step['path']} has other sides than its name says")
            add.append(connection)
        else:
            raise CircuitError(f"{step['op']} is not supported for {step['path']}")
    device.order(remove, add)


def _connection(path: str) -> Connection:
    found = CONNECTION.fullmatch(path.removeprefix("/OCS_CROSS_CONNECT/"))
    if found is None:
        raise CircuitError(f"{path} is no cross-connect from a side A to a side B")
    return found[1], found[2]
