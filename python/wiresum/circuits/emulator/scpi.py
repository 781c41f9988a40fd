"""SCPI as Polatis' switches speak it: a line of commands, separated by semicolons; questions have answers."""

from __future__ import annotations

from collections.abc import Iterator

from wiresum.circuits.device import Connection
from wiresum.circuits.drivers.polatis_scpi import LISTS, lists
from wiresum.circuits.emulator.server import Device, Exchange, over_streams
from wiresum.errors import CircuitError

CONNECTIONS = ":oxc:swit:conn:"
NO_ERROR = '0,"No error"'


@over_streams
async def serve(exchange: Exchange) -> None:
    """Reads a line and answers its questions, `:syst:err?` with the line's last error, as orders have no answer."""
    line = (await exchange.until(b"\n")).decode("ascii", "replace").strip()
    await exchange.answer(lambda: _run(exchange.device, line))


def _run(device: Device, line: str) -> bytes:
    """All removals and additions of a line are one order."""
    answers: list[str] = []
    error = NO_ERROR
    remove: set[Connection] = set()
    add: set[Connection] = set()
    for command in filter(None, (part.strip() for part in line.split(";"))):
        verb, _, rest = command.partition(" ")
        try:
            if verb.lower().startswith(CONNECTIONS) and not verb.endswith("?"):
                gone, come = _connections(device, verb.lower().removeprefix(CONNECTIONS), rest)
                remove, add = remove | gone, add | come
                continue
            error = _order(device, remove, add, error)
            remove, add = set(), set()
            answers += _ask(device, verb.lower(), error)
        except (CircuitError, ValueError, LookupError) as bad:
            error = f'-222,"{bad}"'
    _order(device, remove, add, error)
    return (";".join(answers) + "\n").encode() if answers else b""


def _order(device: Device, remove: set[Connection], add: set[Connection], error: str) -> str:
    if remove or add:
        try:
            device.order(remove, add)
        except CircuitError as refused:
            return f'-222,"{refused}"'
    return error


def _connections(device: Device, verb: str, text: str) -> tuple[set[Connection], set[Connection]]:
    ports = device.crossbar.ports
    found = LISTS.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ValueError("lists of ports are (@1,2),(@17,18)")
    ingress, egress = ([int(port) for port in part.split(",") if port] for part in found.groups())
    named = {(ports[one - 1], ports[other - len(ports) - 1]) for one, other in zip(ingress, egress, strict=True)}
    if min([1, *ingress, *(other - len(ports) for other in egress)]) < 1:
        raise ValueError("an ingress is 1 to n, an egress n + 1 to 2 n")
    match verb:
        case "add":
            return set(), named
        case "sub":
            return named, set()
        case "only":
            here = device.crossbar.connections
            return set(here - named), set(named - here)
    raise ValueError(f"there is no {verb}")


def _ask(device: Device, verb: str, error: str) -> Iterator[str]:
    size = len(device.crossbar.sides)
    match verb:
        case "*idn?":
            yield f"Wiresum,emulated-{size}x{size},0,0"
        case ":oxc:swit:size?":
            yield f"{size},{size}"
        case ":oxc:swit:conn:stat?":
            ports = device.crossbar.ports
            number = {port: str(index) for index, port in enumerate(ports, 1)}
            yield lists([(number[one], number[other]) for one, other in device.crossbar.connections], size)
        case ":syst:err?":
            yield error
        case _:
            raise ValueError(f"there is no {verb}")
