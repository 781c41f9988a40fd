"""Tries whether a link carries packets: an echo request (ICMP, RFC 792) from one end, and the answer of the other."""

from __future__ import annotations

import os
import socket
import struct
import time

from wiresum.testbed.namespaces import inside

REQUEST, REPLY = 8, 0
HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence number."""
AGAIN_S = 0.02
"""Seconds between two requests: on the slowest links of testbeds an answer takes a few milliseconds."""
WORD_BITS, WORD = 16, 0xFFFF


def echoes(namespace: str, source: str, target: str, patience_s: float) -> bool:
    """Whether an address answers in time.

    Args:
        namespace: that has the source.
        source: IPv4 address from which to ask.
        target: IPv4 address that is asked.
        patience_s: how long to ask.

    Raises:
        TestbedError: the namespace cannot be entered.
    """
    return inside(namespace, lambda: _ask(source, target, time.monotonic() + patience_s))


def _ask(source: str, target: str, end_s: float) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as line:
        line.bind((source, 0))
        line.connect((target, 0))
        line.settimeout(AGAIN_S)
        identifier = os.getpid() & WORD
        for sequence in range(WORD):
            if time.monotonic() >= end_s:
                return False
            line.send(_request(identifier, sequence))
            if _hears(line, identifier):
                return True
    return False


def _hears(line: socket.socket, identifier: int) -> bool:
    try:
        packet = line.recv(512)
    except TimeoutError:
        return False
    start = 4 * (packet[0] & 0xF)
    kind, _, _, whose, _ = HEADER.unpack_from(packet, start)
    return bool(kind == REPLY and whose == identifier)


def _request(identifier: int, sequence: int) -> bytes:
    """An echo request without data.

    Example:
        >>> _request(1, 2).hex()
        '0800f7fc00010002'
    """
    total = (REQUEST << 8) + identifier + sequence
    checksum = ~((total & WORD) + (total >> WORD_BITS)) & WORD
    return HEADER.pack(REQUEST, 0, checksum, identifier, sequence)
