"""What `wiresum bench security` runs at a host: workers that join at once, a job over TCP, or a flood over TCP.

Reads a task as JSON from standard input and prints what came of it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from wiresum import _native
from wiresum.bench.isolation.load import SEGMENTS, packets

PATIENCE_S = 20.0
"""Seconds after which a worker without a welcome counts as refused; a busy machine needs many."""
ELEMENTS = 16_000
"""Elements of each sum over TCP: some windows of packets."""
WAIT_S = 0.5
"""Bound of a send or a call of a flood: a node that reads no more must not hold it."""


def main() -> None:
    """Does what the task says."""
    task = json.load(sys.stdin)
    json.dump(TASKS[task["kind"]](task), sys.stdout)


def join(task: dict[str, Any]) -> dict[str, float]:
    """Seconds from when all workers begin to say hello until the last of them is welcome."""
    with joined(task) as (_, seconds):
        return {"seconds": seconds}


def sums(task: dict[str, Any]) -> dict[str, float]:
    """How many sums a job makes, and in which time, if all its workers are at this host."""
    with joined(task) as (engines, _), ThreadPoolExecutor(len(engines)) as threads:
        began = time.perf_counter()
        end = began + task["seconds"]
        counts = list(threads.map(lambda engine: sum_until(engine, end), engines))
        return {"results": counts[0], "seconds": time.perf_counter() - began}


def sum_until(engine: _native.Engine, end: float) -> int:
    """Sums until a worker finds that time is over; all find so in the same sum. How many sums those were."""
    count, array = 0, np.empty(ELEMENTS, dtype=np.float32)
    while True:
        array[:] = time.perf_counter() >= end
        engine.all_reduce(array.data, timeout_s=PATIENCE_S)
        count += 1
        if array[0] > 0:
            return count


@contextlib.contextmanager
def joined(task: dict[str, Any]) -> Iterator[tuple[list[_native.Engine], float]]:
    """The workers of a job, all of which say hello at once, and the seconds until the last is welcome."""
    workers = task["workers"]
    ready = threading.Barrier(workers + 1)

    def one(rank: int) -> _native.Engine:
        ready.wait()
        return _native.Engine(task["plan"], rank, task["incarnation"], PATIENCE_S)

    with contextlib.ExitStack() as welcome:
        with ThreadPoolExecutor(workers) as threads:
            asked = [threads.submit(one, rank) for rank in range(workers)]
            ready.wait()
            began = time.perf_counter()
            engines = [welcome.enter_context(engine.result()) for engine in asked]
            seconds = time.perf_counter() - began
        yield engines, seconds


def flood(task: dict[str, Any]) -> dict[str, int]:
    """Calls again whenever it is cut off, and sends as fast as it goes; how many packets, and calls."""
    buffer = packets(task["flood"], task["job"]) * SEGMENTS
    sent = calls = 0
    end = time.monotonic() + task["seconds"]
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((task["address"], task["port"]), WAIT_S) as called:
            calls += 1
            while time.monotonic() < end:
                called.sendall(buffer)
                sent += SEGMENTS
    return {"packets": sent, "calls": calls}


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"joins": join, "sums": sums, "flood": flood}


if __name__ == "__main__":
    main()
