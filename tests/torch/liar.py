"""A node whose owner lies: a relay before an honest one, which changes what goes down to the ranks."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from wiresum import wire
from wiresum.bench.isolation.load import HEADER

LANE = struct.Struct("<i")
DATAGRAM_BYTES = 65_536
LONGEST_WAIT_S = 0.1
"""Until the relay looks whether it is to end."""


class Result:
    """A result on its way down, of int32 lanes in little-endian order; its check stays right."""

    def __init__(self, datagram: bytes) -> None:
        self._bytes = bytearray(datagram)
        self._fields = HEADER.unpack_from(datagram)

    @property
    def is_agreement(self) -> bool:
        """Whether it is the maximum of preambles, not a sum."""
        return bool(self._fields[-2] & wire.Flag.MAXIMUM)

    def set(self, lane: int, value: Callable[[int], int]) -> None:
        """Changes a lane."""
        place = wire.HEADER_LEN + LANE.size * lane
        (before,) = LANE.unpack_from(self._bytes, place)
        LANE.pack_into(self._bytes, place, value(before))
        check = wire.HEADER_LEN - 4
        (total,) = struct.unpack_from(">I", self._bytes, check)
        struct.pack_into(">I", self._bytes, check, (total + value(before) - before) % (1 << 32))

    def __bytes__(self) -> bytes:
        return bytes(self._bytes)


class Liar:
    """Passes datagrams between ranks and a node until its `with` block ends; each result passes `change`."""

    def __init__(self, node: tuple[str, int], change: Callable[[Result], None]) -> None:
        self._node = node
        self._change = change
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind((node[0], 0))
        self._ways: dict[tuple[str, int], socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._front, selectors.EVENT_READ)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._pass_on)

    @property
    def address(self) -> str:
        """Where ranks send."""
        host, port = self._front.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for each in (self._front, *self._ways.values()):
            each.close()

    def _pass_on(self) -> None:
        while not self._is_over.is_set():
            for key, _ in self._selector.select(LONGEST_WAIT_S):
                if key.fileobj is self._front:
                    datagram, rank = self._front.recvfrom(DATAGRAM_BYTES)
                    self._way_of(rank).send(datagram)
                else:
                    datagram = self._ways[key.data].recv(DATAGRAM_BYTES)
                    self._front.sendto(self._changed(datagram), key.data)

    def _way_of(self, rank: tuple[str, int]) -> socket.socket:
        """The socket that stands for a rank at the node."""
        if rank not in self._ways:
            self._ways[rank] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._ways[rank].connect(self._node)
            self._selector.register(self._ways[rank], selectors.EVENT_READ, rank)
        return self._ways[rank]

    def _changed(self, datagram: bytes) -> bytes:
        if datagram[3] != wire.Kind.RESULT:
            return datagram
        result = Result(datagram)
        self._change(result)
        return bytes(result)
