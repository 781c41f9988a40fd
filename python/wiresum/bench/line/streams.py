"""The floor: the same bytes in one direction over a bare TCP or UDP stream, in packets of the same size.

Whoever moves a gradient through the network's stack of the kernel pays at least this at both ends. Packets leave and
arrive in batches, as the product's do (`UDP_SEGMENT`, `UDP_GRO`).
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Protocol

UDP_SEGMENT, UDP_GRO = 103, 104
SO_RCVBUFFORCE = 33
"""Numbers of linux/udp.h and asm-generic/socket.h; Python's socket module does not name them."""
NAMES = ("bare TCP", "bare UDP")
MAX_BATCH_BYTES = 60_000
BLOCK_BYTES = 2_000_000
"""Sent before the receiver says that it has it: so much fits its buffer."""
BUFFER_BYTES = 4 * BLOCK_BYTES
PATIENCE_S = 60.0
SILENCE_S = 0.1
"""After so long without another datagram the rest of a block is taken for lost, and sent again: queues are bounded."""
START_S = 1.0
"""The same before the first datagram, as senders begin a little later or earlier."""
DONE = (0).to_bytes(4)
"""Bytes that are missing of a block, as the receiver tells the sender."""


class Stream(Protocol):
    """One end of a stream."""

    def send(self, size: int) -> None:
        """Sends `size` bytes, and waits until they have come."""

    def receive(self, size: int) -> None:
        """Receives `size` bytes, and says so."""


@dataclass(frozen=True)
class Place:
    """Where the receiver listens."""

    address: str
    tcp_port: int
    udp_port: int


class Listener:
    """The receiver's sockets, before a sender has come.

    Args:
        address: of this host.
    """

    def __init__(self, address: str) -> None:
        self._server = socket.create_server((address, 0))
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind((address, 0))
        ask_for_buffer(self._datagrams)
        self._datagrams.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        self.place = Place(address, self._server.getsockname()[1], self._datagrams.getsockname()[1])

    def accept(self, packet_bytes: int) -> dict[str, Stream]:
        """The receiver's ends, once a sender has connected."""
        with self._server:
            self._server.settimeout(PATIENCE_S)
            connection, _ = self._server.accept()
        return _streams(connection, self._datagrams, packet_bytes)


def connect(place: Place, packet_bytes: int) -> dict[str, Stream]:
    """The sender's ends.

    Args:
        place: where the receiver listens.
        packet_bytes: of a datagram's payload.
    """
    connection = socket.create_connection((place.address, place.tcp_port), PATIENCE_S)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.connect((place.address, place.udp_port))
    datagrams.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, packet_bytes)
    return _streams(connection, datagrams, packet_bytes)


def own_address(peer: str) -> str:
    """This host's address on the way to a peer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))
        return str(probe.getsockname()[0])


def ask_for_buffer(datagrams: socket.socket) -> None:
    """A receive buffer for whole blocks; who has no privilege gets what the system allows, and may lose packets."""
    try:
        datagrams.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    except PermissionError:
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)


def _streams(connection: socket.socket, datagrams: socket.socket, packet_bytes: int) -> dict[str, Stream]:
    for one in (connection, datagrams):
        one.settimeout(PATIENCE_S)
    ends: tuple[Stream, ...] = (TcpStream(connection), UdpStream(connection, datagrams, packet_bytes))
    return dict(zip(NAMES, ends, strict=True))


class TcpStream:
    """Bytes over the kernel's TCP."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, size: int) -> None:
        """Sends `size` bytes, and waits until they have come."""
        self._connection.sendall(bytes(size))
        _missing(self._connection)

    def receive(self, size: int) -> None:
        """Receives `size` bytes, and says so."""
        buffer = bytearray(1 << 20)
        while size > 0:
            size -= self._connection.recv_into(buffer, min(size, len(buffer)))
        self._connection.sendall(DONE)


class UdpStream:
    """Datagrams of one size, in blocks that the receiver confirms over TCP."""

    def __init__(self, control: socket.socket, datagrams: socket.socket, packet_bytes: int) -> None:
        self._control, self._datagrams = control, datagrams
        self._batch = bytes(max(1, MAX_BATCH_BYTES // packet_bytes) * packet_bytes)

    def send(self, size: int) -> None:
        """Sends `size` bytes, and waits until they have come."""
        for block in blocks(size):
            left = block
            while left > 0:
                for batch in parts(left, len(self._batch)):
                    self._datagrams.send(self._batch[:batch])
                left = _missing(self._control)

    def receive(self, size: int) -> None:
        """Receives `size` bytes, and says so."""
        for block in blocks(size):
            left = block
            while left > 0:
                left = max(0, left - self._receive_some(left))
                self._control.sendall(left.to_bytes(4))

    def _receive_some(self, size: int) -> int:
        """Bytes that came before all had, or before none came any more."""
        buffer, got = bytearray(1 << 16), 0
        while got < size:
            self._datagrams.settimeout(SILENCE_S if got else START_S)
            try:
                got += self._datagrams.recv_into(buffer)
            except TimeoutError:
                break
        return got


def _missing(control: socket.socket) -> int:
    """Bytes that the receiver still misses."""
    return int.from_bytes(control.recv(len(DONE), socket.MSG_WAITALL))


def blocks(size: int) -> list[int]:
    """Bytes of each block."""
    return parts(size, BLOCK_BYTES)


def parts(size: int, at_most: int) -> list[int]:
    """`size` in parts of `at_most`; the last one has the rest."""
    whole, rest = divmod(size, at_most)
    return [at_most] * whole + ([rest] if rest else [])
