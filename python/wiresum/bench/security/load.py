"""Workers of one host that join a job at once, for `wiresum bench security`.

Reads a task as JSON from standard input and prints the seconds that it took.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from wiresum import _native

PATIENCE_S = 20.0
"""Seconds after which a worker without a welcome counts as refused; a busy machine needs many."""


def main() -> None:
    """Does what the task says."""
    task = json.load(sys.stdin)
    json.dump({"seconds": join(task["plan"], task["workers"], task["incarnation"])}, sys.stdout)


def join(plan: str, workers: int, incarnation: int) -> float:
    """Seconds from when all workers begin to say hello until the last of them is welcome."""
    ready = threading.Barrier(workers + 1)

    def one(rank: int) -> _native.Engine:
        ready.wait()
        return _native.Engine(plan, rank, incarnation, PATIENCE_S)

    with contextlib.ExitStack() as joined, ThreadPoolExecutor(workers) as threads:
        asked = [threads.submit(one, rank) for rank in range(workers)]
        ready.wait()
        began = time.perf_counter()
        engines = [one.result() for one in asked]
        seconds = time.perf_counter() - began
        for engine in engines:
            joined.enter_context(engine)
    return seconds


if __name__ == "__main__":
    main()
