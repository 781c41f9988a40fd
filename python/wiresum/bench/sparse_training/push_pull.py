"""The rival's client: rows with keys of 8 bytes over TCP, to servers that `wiresum bench sparse` has too."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wiresum.torch.sparse.rows import Keys, Weights

CONNECT_PATIENCE_S = 30.0
CONNECT_PAUSE_S = 0.05
COUNT_BYTES, KEY_BYTES, VALUE_BYTES = 4, 8, 4


class PushPullClient:
    """One rank's way to servers without sums, as `wiresum.torch.sparse` takes a client.

    In a round every table is pushed, and then every table is pulled once, in order, as the servers have it. Servers
    add; a mean is divided before it is sent.

    Args:
        job: path of the job's file, whose tables are numbered from 0.
    """

    def __init__(self, job: Path) -> None:
        content: dict[str, Any] = json.loads(job.read_text(encoding="utf-8"))
        self._specs = {table["name"]: table for table in content["tables"]}
        self._workers = int(content["workers"])
        self._servers = [_connected(address) for address in content["servers"]]
        self._pushed: dict[str, list[tuple[Keys, Weights]]] = {}
        self.finish_round()  # rows are pulled after a round; this one changes nothing

    @property
    def tables(self) -> dict[str, int]:
        """Values of a row, by name of the table."""
        return {name: int(table["dim"]) for name, table in self._specs.items()}

    def pull(self, table: str, keys: Keys) -> Weights:
        """Rows after the last round."""
        return self.pull_all([(table, keys)])[0]

    def pull_all(self, wanted: Sequence[tuple[str, Keys]]) -> list[Weights]:
        """Rows of several tables, in the job's order: all are asked for before the answers come."""
        owners = [self._by_server(name, keys) for name, keys in wanted]
        for number, server in enumerate(self._servers):
            asked = [_sized(keys[owner == number]) for (_, keys), owner in zip(wanted, owners, strict=True)]
            server.sendall(b"".join(asked))
        rows = [np.empty((len(keys), self.tables[name]), np.float32) for name, keys in wanted]
        for number, server in enumerate(self._servers):
            for weights, owner in zip(rows, owners, strict=True):
                mine = owner == number
                weights[mine] = _received(server, int(mine.sum()) * weights.shape[1]).reshape(-1, weights.shape[1])
        return rows

    def push(self, table: str, keys: Keys, grads: Weights) -> None:
        """Keeps gradients until the round ends."""
        self._pushed.setdefault(table, []).append((keys, grads))

    def finish_round(self) -> int:
        """Sends gradients; servers step when all ranks have."""
        messages: list[list[bytes]] = [[] for _ in self._servers]
        for name, dim in self.tables.items():
            keys, grads = _merged(self._pushed.pop(name, []), dim)
            owners = self._by_server(name, keys)
            for number, message in enumerate(messages):
                mine = owners == number
                message += [_sized(keys[mine]), (grads[mine] / np.float32(self._workers)).tobytes()]
        for server, message in zip(self._servers, messages, strict=True):
            server.sendall(b"".join(message))
        return 0

    def close(self) -> None:
        """Leaves."""
        for server in self._servers:
            server.close()

    def _by_server(self, table: str, keys: Keys) -> np.ndarray:
        """Number of the server of each key: equal ranges."""
        rows = int(self._specs[table]["rows"]["counted"])
        return np.asarray(keys // -(-rows // len(self._servers)))


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + CONNECT_PATIENCE_S
    while True:
        try:
            connection = socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(CONNECT_PAUSE_S)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def _merged(pushed: list[tuple[Keys, Weights]], dim: int) -> tuple[Keys, Weights]:
    """Each key once."""
    if len(pushed) == 1:
        return pushed[0]
    all_keys = np.concatenate([keys for keys, _ in pushed] or [np.empty(0, np.int64)])
    keys, places = np.unique(all_keys, return_inverse=True)
    grads = np.zeros((len(keys), dim), np.float32)
    np.add.at(grads, places, np.concatenate([grads for _, grads in pushed] or [np.empty((0, dim), np.float32)]))
    return keys, grads


def _sized(keys: Keys) -> bytes:
    return len(keys).to_bytes(COUNT_BYTES, "little") + keys.astype("<u8").tobytes()


def _received(server: socket.socket, values: int) -> Weights:
    content = bytearray(values * VALUE_BYTES)
    view = memoryview(content)
    while view:
        count = server.recv_into(view)
        if not count:
            raise ConnectionError("a server of the rival has ended")
        view = view[count:]
    return np.frombuffer(content, "<f4")
