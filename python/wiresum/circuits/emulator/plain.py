"""The emulator's own protocol: a JSON object on a line for each question, and one for each answer."""

from __future__ import annotations

import json
from typing import Any

from wiresum.circuits.emulator.server import Device, Exchange, over_streams
from wiresum.errors import CircuitError


@over_streams
async def serve(exchange: Exchange) -> None:
    """Reads a question and answers it."""
    line = await exchange.until(b"\n")
    await exchange.answer(lambda: json.dumps(_answer(exchange.device, line)).encode() + b"\n")


def _answer(device: Device, line: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(line)
        return {"answer": _do(device, asked["do"], asked)}
    except CircuitError as refused:
        return {"error": str(refused)}
    except (ValueError, LookupError, TypeError, AttributeError) as strange:
        return {"error": f"this is no question ({type(strange).__name__}: {strange})"}


def _do(device: Device, what: str, asked: dict[str, Any]) -> Any:
    crossbar, now_s = device.crossbar, device.clock()
    match what:
        case "describe":
            light_s = crossbar.dark_s + crossbar.settle_s
            return {"model": "emulated", "sides": crossbar.sides, "light_s": light_s}
        case "read":
            reading = crossbar.reading(now_s)
            states = {port: [one.state, one.reason] for port, one in reading.states.items()}
            return {"connections": sorted(reading.connections), "states": states}
        case "change":
            device.order(*([(one, other) for one, other in asked[verb]] for verb in ("remove", "add")))
            return {"generation": crossbar.generation}
        case "fail":
            crossbar.faults.failing[asked["port"]] = asked.get("reason", "no light")
        case "lie":
            crossbar.faults.lying.add(asked["port"])
        case "stick":
            crossbar.faults.stuck.add(asked["port"])
        case "mend":
            crossbar.faults.failing.clear()
            crossbar.faults.lying.clear()
            crossbar.faults.stuck.clear()
        case "session":
            device.faults.append(asked["fault"])
        case _:
            raise CircuitError(f"there is no {what}; ask describe, read, change, fail, lie, stick, mend or session")
    return {}
