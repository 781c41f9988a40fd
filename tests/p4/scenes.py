"""Datagrams beyond the golden traces, for a running switch: ill-formed ones, other traffic, packets of another size.

python -m tests.p4.scenes SCENE PROGRAM LANES, in a network namespace of its own; exits with what differs. The
program is one of `hash`.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from tests.p4 import tools
from tests.p4.bmv2 import ABOVE, ANY_NODE, BELOW, SERVER, WORKER, Switch
from tests.p4.frames import CHECK, CHECK_OFFSET, CONTRIBUTORS
from tests.p4.replay import verdict_names

from wiresum import wire

PLACE = {"job": 1, "sub_model": 3, "members": 7, "parent": 2, "base": 0, "slots": 4, "window": 4}
NODE = 1
HEADER = struct.Struct(wire.HEADER_FORMAT)
SWITCH_HEADER = struct.Struct(wire.SWITCH_HEADER_FORMAT)


def contribution(worker: int, lanes: list[int], flags: int = 0) -> bytes:
    """Worker's values of position 5, in network order, sealed."""
    fields = (wire.MAGIC, wire.VERSION, wire.Kind.CONTRIBUTION, 1, ANY_NODE, 9, 1, 5, 3, len(lanes), worker, 3, 0, 0)
    flags |= wire.Flag.SWITCHED
    payload = struct.pack(f">{len(lanes)}i", *lanes)
    switched = SWITCH_HEADER.pack(1 << worker, 1)
    unsealed = HEADER.pack(*fields, flags, 0)
    words = unsealed[: wire.HEADER_LEN - 6] + switched + payload
    total = sum(struct.unpack(f">{len(words) // 4}I", words)) + flags
    return HEADER.pack(*fields, flags, total & 0xFFFFFFFF) + switched + payload


def verdicts(switch: Switch, count: int) -> list[str]:
    """Verdicts of the packets so far."""
    names = verdict_names()
    return [names[number] for number in switch.read("trace")[0][:count]]


def sums(switch: Switch, lanes: int) -> None:
    """Three workers' values, with carries and signs, in network order."""
    values = [[(worker + 1) * 0x2AAAAAAB + lane * 0x1010101 for lane in range(lanes)] for worker in range(3)]
    signed = [[(v + 2**31) % 2**32 - 2**31 for v in of_worker] for of_worker in values]
    for worker, of_worker in enumerate(signed):
        switch.send(BELOW, contribution(worker, of_worker), SERVER)
    left = switch.receive(ABOVE).datagram
    found = struct.unpack_from(f">{lanes}I", left, wire.HEADER_LEN + wire.SWITCH_HEADER_LEN)
    wanted = tuple(sum(column) % 2**32 for column in zip(*values, strict=True))
    assert found == wanted, f"{found} instead of {wanted}"
    assert CONTRIBUTORS.unpack_from(left, wire.HEADER_LEN)[0] == PLACE["members"]
    assert verdicts(switch, 3) == ["first", "added", "forwarded"]


def other_sizes(switch: Switch, lanes: int) -> None:
    """Packets with another number of values than the program's, and other programs' traffic, pass as they are."""
    large = contribution(0, list(range(lanes + 8)))
    switch.send(BELOW, large, SERVER)
    assert switch.receive(ABOVE).datagram == large
    switch.send(BELOW, b"a name server's answer", WORKER, ports=(53, 4711))
    assert switch.receive(BELOW).datagram == b"a name server's answer"
    assert verdicts(switch, 1) == ["passed"]


def damage(good: bytes) -> list[bytes]:
    """One datagram for each way of being ill-formed, and one for each word with a bit flipped."""
    flipped = []
    for offset in range(0, len(good), 4):
        changed = bytearray(good)
        changed[offset + min(3, len(good) - 1 - offset)] ^= 0x10
        flipped.append(bytes(changed))
    unswitched = bytearray(good)
    unswitched[32:34] = (0).to_bytes(2)
    check = CHECK.unpack_from(unswitched, CHECK_OFFSET)[0] - wire.Flag.SWITCHED
    CHECK.pack_into(unswitched, CHECK_OFFSET, check & 0xFFFFFFFF)
    short, long = good[:-4], good + bytes(4)
    lanes = (len(good) - wire.HEADER_LEN - wire.SWITCH_HEADER_LEN) // 4
    narrow = contribution(0, list(range(lanes)), wire.Flag.LANES16)
    return [*flipped, bytes(unswitched), narrow, short, long, good[:20], good[:40], b""]


def malformed(switch: Switch, lanes: int) -> None:
    """Nothing ill-formed leaves, or changes what is summed."""
    bad = damage(contribution(0, list(range(lanes))))
    for datagram in bad:
        switch.send(BELOW, datagram, SERVER)
        switch.settle()
    for worker in range(3):
        switch.send(BELOW, contribution(worker, [1] * lanes), SERVER)
    left = switch.receive(ABOVE).datagram
    assert left[wire.HEADER_LEN + wire.SWITCH_HEADER_LEN :] == struct.pack(">i", 3) * lanes, left.hex()
    found = verdicts(switch, len(bad) + 3)
    assert found == ["malformed"] * len(bad) + ["first", "added", "forwarded"], found


def unrouted(switch: Switch, _lanes: int) -> None:
    """What has no route is dropped."""
    switch.send(BELOW, b"to nowhere", 0x0A0000FE, ports=(1, 2))
    switch.send(BELOW, b"to the server", SERVER, ports=(1, 2))
    assert switch.receive(ABOVE).datagram == b"to the server"
    switch.send(BELOW, b"to a worker", WORKER, ports=(1, 2))
    assert switch.receive(BELOW).datagram == b"to a worker"


SCENES = {"sums": sums, "other_sizes": other_sizes, "malformed": malformed, "unrouted": unrouted}


def main(scene: str, program: str, lanes: str) -> None:
    """Plays the scene of this name at a switch that runs the program."""
    with Switch(tools.find(), Path(program)) as switch:
        switch.fill(NODE, [PLACE])
        SCENES[scene](switch, int(lanes))


if __name__ == "__main__":
    main(*sys.argv[1:])
