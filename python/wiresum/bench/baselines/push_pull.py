"""Push and pull over TCP: the worker's side, and what both sides agree on.

A round is a header and the gradient's part upwards, in chunks; downwards each chunk's sum as soon as it is complete,
and the time at which the last one was. A worker's chunks go and complete in order, so sums replace values in place.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROUND = struct.Struct("!Q")
"""Begins a round: its elements at this server."""
SUMMED = struct.Struct("!d")
"""Ends a round: when its last element was summed, on the host's monotonic clock."""
CHUNK_BYTES = 256 * 1024
"""Large beside a system call, small beside a gradient, so that pulling begins soon after pushing."""
PATIENCE_S = 120.0
"""Without a byte from any server for so long, a round has failed."""
CONNECT_S = 15.0
RETRY_S = 0.05


@dataclass
class _Part:
    """A server's part of the gradient in a round."""

    to_send: list[memoryview]
    values: memoryview
    received: int = 0
    ending: bytes = b""

    @property
    def is_done(self) -> bool:
        return len(self.ending) == SUMMED.size


class PushPull:
    """A worker's connections to all servers.

    Args:
        servers: `address:port` of each; each gets an equal part of every gradient.

    Raises:
        OSError: a server does not answer.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = [_connect(server) for server in servers]

    def all_reduce(self, values: NDArray[np.float32]) -> float:
        """Replaces values by the sums of all workers; returns the monotonic time at which everything was summed.

        Args:
            values: float32, contiguous.

        Raises:
            ConnectionError: a server has gone.
            TimeoutError: nothing came for `PATIENCE_S`.
        """
        parts = [self._begin(sock, part) for sock, part in zip(self._sockets, self._split(values), strict=True)]
        while not all(part.is_done for part in parts):
            ready = self._selector.select(PATIENCE_S)
            if not ready:
                raise TimeoutError(f"no server has sent anything for {PATIENCE_S:.0f} s")
            for key, happened in ready:
                self._advance(key.fileobj, key.data, happened)  # type: ignore[arg-type] # only sockets are registered
        for sock in self._sockets:
            self._selector.unregister(sock)
        return float(max(SUMMED.unpack(part.ending)[0] for part in parts))

    def close(self) -> None:
        """Ends the connections."""
        for sock in self._sockets:
            sock.close()
        self._selector.close()

    def _split(self, values: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        return np.array_split(values, len(self._sockets))

    def _begin(self, sock: socket.socket, values: NDArray[np.float32]) -> _Part:
        content = values.view(np.uint8).data
        part = _Part([memoryview(ROUND.pack(values.size)), content], content)
        self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, part)
        return part

    def _advance(self, sock: socket.socket, part: _Part, happened: int) -> None:
        if happened & selectors.EVENT_WRITE:
            send_some(sock, part.to_send)
            if not part.to_send:
                self._selector.modify(sock, selectors.EVENT_READ, part)
        if happened & selectors.EVENT_READ:
            _receive_some(sock, part)


def send_some(sock: socket.socket, views: list[memoryview]) -> None:
    """Sends as much as the kernel takes, and removes it from the front."""
    try:
        sent = sock.sendmsg(views[:16])
    except BlockingIOError:
        return
    while views and sent >= len(views[0]):
        sent -= len(views.pop(0))
    if sent:
        views[0] = views[0][sent:]


def _receive_some(sock: socket.socket, part: _Part) -> None:
    missing = len(part.values) - part.received
    if missing:
        count = sock.recv_into(part.values[part.received :], missing)
        part.received += count
    else:
        last = sock.recv(SUMMED.size - len(part.ending))
        part.ending += last
        count = len(last)
    if not count:
        raise ConnectionError("a server has gone; its output is beside the testbed's plan")


def _connect(server: str) -> socket.socket:
    host, _, port = server.rpartition(":")
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            sock = socket.create_connection((host, int(port)), timeout=CONNECT_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock
