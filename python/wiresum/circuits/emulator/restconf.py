"""RESTCONF as Polatis' switches speak it: cross-connects as a collection or pair by pair, ports, model, and power."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wiresum.circuits.device import Connection
from wiresum.circuits.emulator.server import Device, Exchange, over_streams
from wiresum.errors import CircuitError

BASE = "/api/data/optical-switch:"
LOGIN = base64.b64encode(b"admin:root").decode()
MAX_BODY_BYTES = 1 << 22
REASONS = {
    200: "OK", 201: "Created", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found",
    405: "Method Not Allowed", 409: "Conflict", 412: "Precondition Failed",
}  # fmt: skip


class RefusedError(Exception):
    """A request that is answered with an error: status of HTTP, and why."""


@over_streams
async def serve(exchange: Exchange) -> None:
    """Reads a request and answers it."""
    head = (await exchange.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    length = headers.get("content-length", "0")
    body = await exchange.exactly(min(int(length) if length.isdigit() else 0, MAX_BODY_BYTES))
    await exchange.answer(lambda: _respond(exchange.device, head[0], headers, body))


def _respond(device: Device, line: str, headers: Mapping[str, str], body: bytes) -> bytes:
    try:
        status, content = _handle(device, line, headers, body)
    except RefusedError as refusal:
        status, content = refusal.args[0], _problem(refusal.args[1])
    except CircuitError as conflict:
        status, content = 409, _problem(str(conflict))
    except (ValueError, LookupError, TypeError, AttributeError) as strange:
        status, content = 400, _problem(f"{type(strange).__name__}: {strange}")
    text = b"" if content is None else json.dumps(content).encode()
    head = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        "Content-Type: application/yang-data+json",
        f"Content-Length: {len(text)}",
        f'ETag: "{device.crossbar.generation}"',
    ]
    return "\r\n".join([*head, "", ""]).encode() + text


def _handle(device: Device, line: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
    method, target, _ = line.split(" ")
    if headers.get("authorization") != f"Basic {LOGIN}":
        raise RefusedError(401, "log in")
    if not target.startswith(BASE):
        raise RefusedError(404, f"there is no {target}")
    if headers.get("if-match", f'"{device.crossbar.generation}"') != f'"{device.crossbar.generation}"':
        raise RefusedError(412, "it has changed")
    what, _, pair = target.removeprefix(BASE).partition("/")
    if what == "cross-connects":
        return _cross_connects(device, method, pair, body)
    if method != "GET":
        raise RefusedError(405, f"{what} can only be read")
    return 200, {f"optical-switch:{what}": _read(device, what)}


def _read(device: Device, what: str) -> Any:
    ports, size = device.crossbar.ports, len(device.crossbar.sides)
    match what:
        case "product-information":
            return {"manufacturer": "Wiresum", "model-name": f"emulated-{size}x{size}"}
        case "ports":
            sides = [(n, "INPUT") for n in range(1, size + 1)] + [(size + n, "OUTPUT") for n in range(1, size + 1)]
            return {"port": [{"port-id": number, "port-type": kind} for number, kind in sides]}
        case "opm-power":
            now_s = device.clock()
            power = [device.crossbar.power_dbm(now_s, port) for port in ports]
            return {"port": [{"port-id": size + n, "power": dbm} for n, dbm in enumerate(power, 1)]}
    raise RefusedError(404, f"there is no {what}")


def _cross_connects(device: Device, method: str, pair: str, body: bytes) -> tuple[int, Any]:
    here, ports = device.crossbar.connections, device.crossbar.ports
    one = re.fullmatch(r"pair=(\d+)", pair)
    own = {c for c in here if one and _numbers(ports, c)[0] == int(one[1])}
    match method:
        case "GET" if not pair:
            return 200, {"optical-switch:cross-connects": {"pair": _listed(device, here)}}
        case "GET" if own:
            return 200, {"optical-switch:pair": _listed(device, own)}
        case "PUT" if not pair:
            wanted = _parsed(device, json.loads(body)["optical-switch:cross-connects"].get("pair", []))
            device.order(here - wanted, wanted - here)
            return 204, None
        case "POST" if not pair:
            device.order([], _parsed(device, json.loads(body)["optical-switch:pair"]))
            return 201, None
        case "DELETE" if own or not pair:
            device.order(own or here, [])
            return 204, None
    raise RefusedError(404, f"there is no {pair}" if pair else f"{method} makes no sense")


def _numbers(ports: Sequence[str], connection: Connection) -> tuple[int, int]:
    return ports.index(connection[0]) + 1, len(ports) + ports.index(connection[1]) + 1


def _listed(device: Device, connections: Any) -> list[dict[str, int]]:
    ports = device.crossbar.ports
    numbers = sorted(_numbers(ports, one) for one in connections)
    return [{"ingress": ingress, "egress": egress} for ingress, egress in numbers]


def _parsed(device: Device, pairs: Any) -> frozenset[Connection]:
    ports = device.crossbar.ports
    size = len(ports)
    found = [(int(pair["ingress"]), int(pair["egress"])) for pair in pairs]
    for ingress, egress in found:
        if not (1 <= ingress <= size < egress <= 2 * size):
            raise CircuitError(f"{ingress} – {egress}: an ingress is 1 to {size}, an egress {size + 1} to {2 * size}")
    if len({one for one, _ in found}) < len(found) or len({other for _, other in found}) < len(found):
        raise CircuitError("a port is in two pairs")
    return frozenset((ports[ingress - 1], ports[egress - size - 1]) for ingress, egress in found)


def _problem(message: str) -> dict[str, Any]:
    error = {"error-type": "application", "error-tag": "operation-failed", "error-message": message}
    return {"ietf-restconf:errors": {"error": [error]}}
