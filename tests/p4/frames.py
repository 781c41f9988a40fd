"""Frames around datagrams, and what the check says of a changed set of contributors."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wiresum import wire

ETHERNET = struct.Struct(">6s6sH")
IPV4 = struct.Struct(">BBHHHBBHII")
UDP = struct.Struct(">HHHH")
ETHERTYPE_IPV4 = 0x0800
PROTOCOL_UDP = 17
CONTRIBUTORS = struct.Struct(">Q")
CHECK = struct.Struct(">I")
CHECK_OFFSET = wire.HEADER_LEN - CHECK.size
# Not the right one: a switch that changes a datagram has to take it off.
UDP_CHECKSUM = 0xBEEF


@dataclass(frozen=True)
class Received:
    """A frame of ours that left a switch."""

    datagram: bytes
    destination: int
    udp_checksum: int


def ones_complement(header: bytes) -> int:
    """The sum that is 0xffff over a right IPv4 header (RFC 1071)."""
    words = sum(struct.unpack(f">{len(header) // 2}H", header))
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    return words


def frame(datagram: bytes, destination: int, ports: tuple[int, int] = (40000, wire.DEFAULT_PORT)) -> bytes:
    """An Ethernet frame with a datagram from `ports[0]` to `ports[1]`."""
    length = UDP.size + len(datagram)
    fields = (0x45, 0, IPV4.size + length, 1, 0, 64, PROTOCOL_UDP)
    blank = IPV4.pack(*fields, 0, 0x0A000063, destination)
    ip = IPV4.pack(*fields, 0xFFFF - ones_complement(blank), 0x0A000063, destination)
    ethernet = ETHERNET.pack(b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02", ETHERTYPE_IPV4)
    return ethernet + ip + UDP.pack(*ports, length, UDP_CHECKSUM) + datagram


def unpack(data: bytes) -> Received:
    """The datagram in a frame.

    Raises:
        ValueError: if a length or the IPv4 checksum is wrong.
    """
    header = data[ETHERNET.size : ETHERNET.size + IPV4.size]
    total, destination = IPV4.unpack(header)[2], IPV4.unpack(header)[9]
    start = ETHERNET.size + IPV4.size
    _, _, length, checksum = UDP.unpack_from(data, start)
    if ones_complement(header) != 0xFFFF:
        raise ValueError(f"wrong IPv4 checksum: {header.hex()}")
    if not total - IPV4.size == length == len(data) - start:
        raise ValueError(f"lengths differ: IPv4 {total}, UDP {length}, frame {len(data)}")
    return Received(data[start + UDP.size :], destination, checksum)


def contributors(datagram: bytes) -> int:
    """The set in the switch header."""
    return CONTRIBUTORS.unpack_from(datagram, wire.HEADER_LEN)[0]


def with_contributors(datagram: bytes, workers: int) -> bytes:
    """The datagram with another set of contributors, and the check that it then has."""
    old = contributors(datagram)
    words = (workers >> 32) + (workers & 0xFFFFFFFF) - (old >> 32) - (old & 0xFFFFFFFF)
    check = CHECK.unpack_from(datagram, CHECK_OFFSET)[0] + words
    changed = bytearray(datagram)
    CHECK.pack_into(changed, CHECK_OFFSET, check & 0xFFFFFFFF)
    CONTRIBUTORS.pack_into(changed, wire.HEADER_LEN, workers)
    return bytes(changed)


def is_result(datagram: bytes) -> bool:
    """Whether it goes down."""
    return datagram[3] == wire.Kind.RESULT
