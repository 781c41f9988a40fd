"""TCP traffic of `wiresum bench coexistence`: one flow that takes what it gets, or small requests one after the other.

At the server: `serve ADDRESS PORT`. At a host it reads a task as JSON from standard input and prints what came of it.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

CHUNK = 1 << 16
REQUEST = b"R" * 64
BULK, ECHO = b"b", b"e"
"""First byte of a connection: what the client wants of it."""
PATIENCE_S = 10.0
PAUSE_S = 0.001
"""Between two requests: a client that thinks, not one that floods."""


def main() -> None:
    """Serves, or does what the task says."""
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
        return
    task = json.load(sys.stdin)
    address = (task["address"], task["port"])
    measured = bulk(address, task["seconds"]) if task["kind"] == "bulk" else requests(address, task["seconds"])
    json.dump(measured, sys.stdout)


def serve(address: str, port: int) -> None:
    """Answers every connection until the process ends."""
    with socket.create_server((address, port)) as listener:
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_answer, args=(client,), daemon=True).start()


def _answer(client: socket.socket) -> None:
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind, received = client.recv(1), 0
        while chunk := client.recv(CHUNK):
            received += len(chunk)
            if kind == ECHO:
                client.sendall(chunk)
        if kind == BULK:
            client.sendall(received.to_bytes(8))


def bulk(address: tuple[str, int], seconds: float) -> dict[str, float]:
    """Bits per second of one flow that arrived."""
    with socket.create_connection(address, PATIENCE_S) as flow:
        flow.sendall(BULK)
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            flow.sendall(bytes(CHUNK))
        flow.shutdown(socket.SHUT_WR)
        received = int.from_bytes(_read(flow, 8))
        return {"bits_per_second": received * 8 / (time.monotonic() - start)}


def requests(address: tuple[str, int], seconds: float) -> dict[str, list[float]]:
    """Round trips of small requests, in seconds."""
    round_trips = []
    with socket.create_connection(address, PATIENCE_S) as flow:
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        flow.sendall(ECHO)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            flow.sendall(REQUEST)
            _read(flow, len(REQUEST))
            round_trips.append(time.perf_counter() - began)
            time.sleep(PAUSE_S)
    return {"round_trips_s": round_trips}


def _read(flow: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        chunk = flow.recv(length - len(received))
        if not chunk:
            raise ConnectionError("the server has closed the connection")
        received += chunk
    return received


if __name__ == "__main__":
    main()
