"""TL1 as Calient's switches speak it: commands with tags; messages that nobody asked for until they are inhibited."""

from __future__ import annotations

import time
from collections.abc import Sequence

from wiresum.circuits.device import Connection, State
from wiresum.circuits.emulator.server import Device, Exchange, over_streams
from wiresum.errors import CircuitError

STATUS = {
    State.LIT: ("IS", "OK"),
    State.TUNING: ("IS", "TUNING"),
    State.DARK: ("RDY", "OK"),
    State.FAILED: ("OOS", "FAILED"),
}
ALARM = '\r\n\r\n   EMULATED {stamp}\r\nA  {number} REPT EVT CRS\r\n   "SYSTEM:CL,HEARTBEAT"\r\n;'


@over_streams
async def serve(exchange: Exchange) -> None:
    """One session: until it says `INH-MSG-ALL`, there is a message before each answer."""
    wordy, known, number = True, False, 0
    while True:
        command = (await exchange.until(b";")).decode("ascii", "replace").strip()
        parts = [part.strip() for part in command.split(":")]
        verb = parts[0].upper()
        wordy = wordy and verb != "INH-MSG-ALL"
        if wordy:
            number += 1
            exchange.push(ALARM.format(stamp=_stamp(exchange.device), number=number).encode())
        known = known or (verb == "ACT-USER" and parts[5:6] == ["pxc***"])
        await exchange.answer(lambda parts=parts, known=known: _respond(exchange.device, parts, known))  # type: ignore[misc]


def _respond(device: Device, parts: Sequence[str], known: bool) -> bytes:
    tag = parts[3] if len(parts) > 3 else "0"  # noqa: PLR2004 - verb, device, ports, tag
    try:
        if not known:
            raise CircuitError("PLNA Login Not Active")
        rows, code = _do(device, parts[0].upper(), parts[2], parts[5:]), "COMPLD"
    except (CircuitError, ValueError, LookupError) as refused:
        rows, code = [f"/* {refused} */"], "DENY"
    lines = ["", "", f"   EMULATED {_stamp(device)}", f"M  {tag} {code}", *(f"   {row}" for row in rows), ";"]
    return "\r\n".join(lines).encode()


def _do(device: Device, verb: str, ports: str, rest: Sequence[str]) -> list[str]:
    match verb:
        case "ACT-USER" | "INH-MSG-ALL":
            return []
        case "RTRV-PORT":
            return [f'"{port}:PORTCAT=PO"' for port in device.crossbar.ports]
        case "RTRV-CRS":
            return [_row(device, one) for one in sorted(device.crossbar.connections)]
        case "ENT-CRS":
            kind = (rest[0] if rest else "").split(",")[1:2]
            device.order([], _named(ports, kind[0] if kind else "1WAY"))
            return []
        case "DLT-CRS":
            gone = [one for one in _named(ports, "1WAY") if one in device.crossbar.connections]
            if not gone:
                raise CircuitError(f"there is no connection {ports}")
            device.order(gone, [])
            return []
    raise CircuitError(f"there is no {verb}")


def _named(ports: str, kind: str) -> list[Connection]:
    one, other = ports.split(",")
    return [(one, other)] if kind.upper() == "1WAY" else [(one, other), (other, one)]


def _row(device: Device, connection: Connection) -> str:
    one, other = connection
    now_s = device.clock()
    order = [State.FAILED, State.DARK, State.TUNING, State.LIT]
    state = min((device.crossbar.state(now_s, port).state for port in connection), key=order.index)
    status, capability = STATUS[state]
    return (
        f'"{one}>{other}:GRPNAME=SYSTEM,SRCPORT={one},DSTPORT={other},CONNID={one}>{other},CONNTYPE=1WAY,'
        f'ASTATUS=IS,OSTATUS={status},OCAP={capability}"'
    )


def _stamp(device: Device) -> str:
    """The emulated device knows how long it is up, and no date."""
    return time.strftime("%y-%m-%d %H:%M:%S", time.gmtime(device.clock()))
