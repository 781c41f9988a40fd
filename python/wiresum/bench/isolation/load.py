"""A load of `wiresum bench isolation`, at a host: a job, or a flood of what is not for the aggregator.

Reads a task as JSON from standard input and prints what came of it.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

from wiresum import _native, wire

UDP_SEGMENT = 103
"""An option of <linux/udp.h>: the kernel cuts one buffer into datagrams of this size."""
SEGMENTS = 20
"""Datagrams of one call: 60 kB, less than the largest that the kernel cuts."""
HEADER = struct.Struct(wire.HEADER_FORMAT)
FLAGS_AND_CHECK_BYTES = 2 + 4
"""What the check does not count as whole words."""


def main() -> None:
    """Does what the task says."""
    task = json.load(sys.stdin)
    if task["kind"] == "job":
        result = _native.bench_load(task["plan"], task["window"], task.get("rate"), task["seconds"])
    else:
        packet = packets(task["kind"], task["job"])
        result = {"datagrams": flood((task["address"], task["port"]), packet, task["seconds"])}
    json.dump(result, sys.stdout)


def packets(kind: str, job: int) -> bytes:
    """One datagram of a flood.

    Args:
        kind: `malformed`, `short` (malformed, and as long as a hello), `foreign` (of an incarnation that is not
            running) or `hellos`.
        job: which job it names.
    """
    if kind == "malformed":
        return bytes(wire.HEADER_LEN + wire.PAGE_PAYLOAD)
    if kind == "short":
        return bytes(wire.HEADER_LEN + 4 * wire.HELLO_WORDS)
    if kind == "foreign":
        return _sealed(wire.Kind.CONTRIBUTION, job, wire.Flag.LITTLE_ENDIAN, bytes(wire.PAGE_PAYLOAD))
    if kind == "hellos":
        return _sealed(wire.Kind.HELLO, job, wire.Flag(0), bytes(4 * wire.HELLO_WORDS))
    raise ValueError(f"there is no flood of {kind}")


def _sealed(kind: wire.Kind, job: int, flags: wire.Flag, payload: bytes) -> bytes:
    """A packet with a right check; all lanes of its payload are zero."""
    fields = (wire.MAGIC, wire.VERSION, kind, job, 0, 0xBADC0DE, 0, 0, 1, len(payload) // 4, 0, 1, 0, 0, flags)
    words = HEADER.pack(*fields, 0)[:-FLAGS_AND_CHECK_BYTES]
    check = (sum(struct.unpack(f">{len(words) // 4}I", words)) + flags) % (1 << 32)
    return HEADER.pack(*fields, check) + payload


def flood(address: tuple[str, int], packet: bytes, seconds: float) -> int:
    """Sends a datagram again and again, as fast as it goes; returns how often."""
    buffer, sent = packet * SEGMENTS, 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(packet))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sender.sendto(buffer, address)
            sent += SEGMENTS
    return sent


if __name__ == "__main__":
    main()
