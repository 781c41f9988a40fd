"""A server of the rivals `ps` and `sharded_ps`: one thread, one connection per worker, every chunk summed as it comes.

It sums float32 as it is, in the order of arrival, and ends when all workers have gone.
"""

from __future__ import annotations

import selectors
import socket
import time

import numpy as np

from wiresum.bench.baselines.push_pull import CHUNK_BYTES, ROUND, SUMMED, send_some

VERSIONS = 2
"""Rounds in memory: no worker begins round r + 2 before every worker has the sums of round r."""


class _Round:
    """Sums of one round, and how far they are."""

    def __init__(self, elements: int) -> None:
        self.sums = np.empty(elements, dtype=np.float32)
        self.contributors: list[int] = []
        self.begin()

    def begin(self) -> None:
        """The same memory for another round of the same size. An empty round has one empty chunk."""
        self.contributors = [0] * max(1, -(-self.sums.size * 4 // CHUNK_BYTES))


class _Worker:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.round = -1
        self.header = b""
        self.elements: int | None = None
        self.received = 0
        self.chunk = np.empty(CHUNK_BYTES // 4, dtype=np.float32)
        self.chunk_bytes = self.chunk.view(np.uint8).data
        self.to_send: list[memoryview] = []


class Server:
    """Adds what workers push and sends back the sums.

    Args:
        listener: where workers connect to.
        workers: how many.
    """

    def __init__(self, listener: socket.socket, workers: int) -> None:
        self._listener = listener
        self._count = workers
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._rounds = [_Round(0) for _ in range(VERSIONS)]
        self._begun = -1

    def serve(self) -> None:
        """Returns when every worker has come and gone."""
        for _ in range(self._count):
            sock, _ = self._listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            worker = _Worker(sock)
            self._workers.append(worker)
            self._selector.register(sock, selectors.EVENT_READ, worker)
        while self._selector.get_map():
            for key, happened in self._selector.select():
                self._attend(key.data, happened)

    def _attend(self, worker: _Worker, happened: int) -> None:
        try:
            if happened & selectors.EVENT_WRITE:
                self._send(worker)
            is_there = not happened & selectors.EVENT_READ or self._receive(worker)
        except ConnectionError:
            is_there = False
        if not is_there:
            self._workers.remove(worker)
            self._selector.unregister(worker.sock)
            worker.sock.close()

    def _receive(self, worker: _Worker) -> bool:
        """Takes some of what a worker pushes; False if it has gone."""
        if worker.elements is None:
            header = worker.sock.recv(ROUND.size - len(worker.header))
            worker.header += header
            if len(worker.header) == ROUND.size:
                self._begin(worker, ROUND.unpack(worker.header)[0])
            return bool(header)
        size = 4 * worker.elements
        inside = worker.received % CHUNK_BYTES
        wanted = min(CHUNK_BYTES - inside, size - worker.received)
        count = worker.sock.recv_into(worker.chunk_bytes[inside : inside + wanted], wanted)
        worker.received += count
        if worker.received % CHUNK_BYTES == 0 or worker.received == size:
            self._add(worker, (worker.received - 1) // CHUNK_BYTES)
        if worker.received == size:
            worker.elements, worker.header = None, b""
        return bool(count)

    def _begin(self, worker: _Worker, elements: int) -> None:
        worker.round += 1
        if worker.round > self._begun:
            self._begun = worker.round
            self._begin_round(worker.round % VERSIONS, elements)
        worker.elements, worker.received = elements, 0
        if not elements:
            self._add(worker, 0)
            worker.elements, worker.header = None, b""

    def _begin_round(self, version: int, elements: int) -> None:
        if self._rounds[version].sums.size == elements:
            self._rounds[version].begin()
        else:
            self._rounds[version] = _Round(elements)

    def _add(self, worker: _Worker, index: int) -> None:
        """Adds a whole chunk; the last worker's completes it."""
        current = self._rounds[worker.round % VERSIONS]
        start = index * CHUNK_BYTES // 4
        sums = current.sums[start : start + CHUNK_BYTES // 4]
        if current.contributors[index]:
            np.add(sums, worker.chunk[: sums.size], out=sums)
        else:
            np.copyto(sums, worker.chunk[: sums.size])
        current.contributors[index] += 1
        if current.contributors[index] == self._count:
            self._queue(sums.view(np.uint8).data)
            if index == len(current.contributors) - 1:
                self._end_round()

    def _end_round(self) -> None:
        self._queue(memoryview(SUMMED.pack(time.monotonic())))

    def _queue(self, view: memoryview) -> None:
        for worker in self._workers:
            worker.to_send.append(view)
            self._send(worker)

    def _send(self, worker: _Worker) -> None:
        send_some(worker.sock, worker.to_send)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.to_send else 0)
        if self._selector.get_key(worker.sock).events != wanted:
            self._selector.modify(worker.sock, wanted, worker)
