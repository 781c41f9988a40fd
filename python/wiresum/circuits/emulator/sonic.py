"""A shell at a SONiC optical switch that knows the commands of the driver: its tables, and patches to them."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from wiresum.circuits.device import Connection
from wiresum.circuits.emulator.server import Device, Exchange, over_streams
from wiresum.circuits.emulator.sonic_tables import check_sides, connection_of, table
from wiresum.circuits.sonic_tables import CROSS_CONNECTS
from wiresum.errors import CircuitError

COMMAND = re.compile(r"(?P<command>.*?) 2>&1; echo (?P<mark>[\w-]+) \$\?", re.DOTALL)
DUMP = re.compile(r"sonic-db-dump -n (\w+) -k '(\w+)\|\*' -y")
PATCH = re.compile(r"echo (.*) \| sudo config apply-patch /dev/stdin", re.DOTALL)


@over_streams
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
        rows = table(device, dump[1], dump[2])
        found = {f"{dump[2]}|{name}": {"type": "hash", "value": row} for name, row in rows.items()}
        return json.dumps(found, indent=2) + "\n"
    if patch := PATCH.fullmatch(command):
        _apply(device, json.loads(shlex.split(patch[1])[0]))
        return "Patch applied successfully.\n"
    raise CircuitError(f"{command.split(' ', maxsplit=1)[0]}: command not found")


def _apply(device: Device, patch: Any) -> None:
    """All of a JSON patch, in one order."""
    remove: list[Connection] = []
    add: list[Connection] = []
    for step in patch:
        connection = connection_of(step["path"].removeprefix(f"/{CROSS_CONNECTS}/"))
        if step["op"] == "remove":
            if connection not in device.crossbar.connections:
                raise CircuitError(f"{step['path']} is not there")
            remove.append(connection)
        elif step["op"] == "add":
            check_sides(connection, step["value"])
            add.append(connection)
        else:
            raise CircuitError(f"{step['op']} is not supported for {step['path']}")
    device.order(remove, add)
