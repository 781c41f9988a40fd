"""Replays a golden trace through BMv2 and compares verdicts, datagrams and registers.

python -m tests.p4.replay TRACE PROGRAM, in a network namespace of its own; exits with what differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.p4 import tools
from tests.p4.bmv2 import ABOVE, BELOW, BESIDE, SERVER, WORKER, WORKER_0, Switch
from tests.p4.frames import contributors, is_result, with_contributors

from wiresum.wire import Verdict

# What the programs call the arrays of a golden trace.
CELLS = {
    "key": "keys.cells",
    "shadow key": "shadow_keys.cells",
    "contributors": "contributors.cells",
    "congestion": "congestion.cells",
    "round, exponent": "scales.cells",
    "final": "finals.cells",
    "count": "counts.cells",
}


def verdict_names() -> dict[int, str]:
    """Names by number."""
    return {verdict.value: verdict.name.lower() for verdict in Verdict}


def expect(switch: Switch, port: int, datagram: bytes, arrived: bytes, step: int) -> None:
    """The next datagram at a port is this one.

    Raises:
        AssertionError: if it is another, or none comes.
    """
    try:
        received = switch.receive(port)
    except TimeoutError:
        raise AssertionError(f"step {step}: nothing leaves by port {port}; expected {datagram.hex()}") from None
    assert received.datagram == datagram, f"step {step}: {received.datagram.hex()} instead of {datagram.hex()}"
    if datagram != arrived:
        assert received.udp_checksum == 0, f"step {step}: a changed datagram has a UDP checksum"


def play(switch: Switch, step: int, golden: dict, known: set[int]) -> None:
    """One datagram arrives; what must leave, leaves. The next one waits for it, as some packets go round twice.

    All arrive by one port: the switch looks at its ports in turn, whatever came first.
    """
    arrived = bytes.fromhex(golden["arrives"])
    switch.send(BELOW, arrived, WORKER if is_result(arrived) else SERVER)
    if golden["egress"] is None:
        switch.settle()
        return
    leaves = bytes.fromhex(golden["leaves"])
    expect(switch, ABOVE if golden["egress"] == "up" else BELOW, leaves, arrived, step)
    job = int.from_bytes(leaves[4:6])
    if golden["egress"] == "down" and job in known and contributors(leaves) & WORKER_0:
        expect(switch, BESIDE, with_contributors(leaves, WORKER_0), arrived, step)


def compare(switch: Switch, trace: dict) -> None:
    """Verdicts of all steps, and what the registers hold in the end.

    Raises:
        AssertionError: if they are not the golden ones.
    """
    names = [CELLS[name] for name, _ in trace["registers"]]
    verdicts, *cells = switch.read("trace", *names)
    steps, name_of = trace["steps"], verdict_names()
    for step, (number, golden) in enumerate(zip(verdicts, steps, strict=False)):
        assert name_of[number] == golden["verdict"], f"step {step}: {name_of[number]} instead of {golden['verdict']}"
    for (name, golden), found in zip(trace["registers"], cells, strict=True):
        assert found == golden, f"array {name}: {found} instead of {golden}"


def main(name: str, program: str) -> None:
    """Replays the golden trace of this name through a program, and asserts that nothing differs."""
    trace = tools.trace(name)
    known = {place["job"] for place in trace["places"]}
    with Switch(tools.find(), Path(program)) as switch:
        switch.fill(trace["node"], trace["places"], trace.get("forgotten", []))
        for step, golden in enumerate(trace["steps"]):
            play(switch, step, golden, known)
        for port in (ABOVE, BELOW):
            switch.settle(port)
        compare(switch, trace)
    print(json.dumps({"trace": name, "steps": len(trace["steps"])}))


if __name__ == "__main__":
    main(*sys.argv[1:])
