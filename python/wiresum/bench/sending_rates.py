"""How fast nodes of a testbed send, over time."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self, TextIO

from wiresum.errors import TestbedError
from wiresum.testbed import Testbed

INTERFACE = "e0"
"""Interface of every host of a testbed."""
SENT_BYTES_FIELD = 8
"""In a line of /proc/net/dev, after the interface's name."""
PERIOD_S = 0.05
"""Between two readings: long beside what a reading takes, short beside a gradient."""
ENDING_S = 5.0


class SendingRates:
    """Reads what hosts have sent, again and again, while a `with` block runs.

    Bytes are counted where they leave, behind a host's shaper. A process in each host's namespace keeps its counters
    in reach. What a host sends by XDP counts too.

    Args:
        bed: a testbed with namespaces that is up.
        hosts: whose rates.
        period_s: between two readings.
    """

    def __init__(self, bed: Testbed, hosts: Sequence[str], period_s: float = PERIOD_S) -> None:
        self._bed = bed
        self._hosts = hosts
        self._period_s = period_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read_all, daemon=True)
        self._stack = ExitStack()
        self._counters: dict[str, TextIO] = {}
        self._seen: list[tuple[float, dict[str, int]]] = []

    def __enter__(self) -> Self:
        for host in self._hosts:
            witness = self._bed.spawn(host, ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._stack.callback(_end, witness)
            self._counters[host] = self._stack.enter_context(_counters_of(witness))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._stack.close()

    def since(self, began: float, seconds: float) -> dict[str, list[tuple[float, float]]]:
        """Rates of each host after a moment of the monotonic clock: middles of intervals in s, and bit/s."""
        found: dict[str, list[tuple[float, float]]] = {host: [] for host in self._hosts}
        for (earlier, before), (later, after) in zip(self._seen, self._seen[1:], strict=False):
            middle = (earlier + later) / 2 - began
            if 0 <= middle <= seconds:
                for host, points in found.items():
                    points.append((middle, 8 * (after[host] - before[host]) / (later - earlier)))
        return found

    def _read_all(self) -> None:
        while not self._end.wait(self._period_s):
            self._seen.append((time.monotonic(), {host: _sent_bytes(file) for host, file in self._counters.items()}))


def _counters_of(process: subprocess.Popen[bytes]) -> TextIO:
    """Counters of the interfaces in the namespace of a `cat`, once it has answered: it is not there from the start."""
    if process.stdin is None or process.stdout is None:
        raise TestbedError("cannot read counters: the process in the host's namespace has no pipes")
    process.stdin.write(b"\n")
    process.stdin.flush()
    if not process.stdout.readline():
        raise TestbedError("cannot read counters: the process in the host's namespace has ended; run again")
    return open(f"/proc/{process.pid}/net/dev", encoding="ascii")


def _sent_bytes(counters: TextIO) -> int:
    counters.seek(0)
    line = next(line for line in counters if line.lstrip().startswith(f"{INTERFACE}:"))
    return int(line.split(":")[1].split()[SENT_BYTES_FIELD])


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    process.wait(timeout=ENDING_S)
