"""Processes of a testbed: how they are known again, and how they are ended."""

import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "WIRESUM_TESTBED_TOKEN"
"""Environment variable that every process of a testbed inherits. Its value is random, so it marks ours and no other."""
GRACE_S = 5.0
"""From SIGTERM to SIGKILL."""
KILLED_S = 5.0
"""From SIGKILL to giving up on a process that the kernel holds."""
START_TICKS_FIELD = 19
"""Field of /proc/PID/stat, counted after the command's closing parenthesis."""


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be confused with a later one of the same number.

    Attributes:
        pid: its number.
        start_ticks: when it started, in clock ticks since boot.
    """

    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return start_ticks(self.pid) == self.start_ticks


def identify(pid: int) -> ProcessId:
    """The identity of a running process; one that is gone already never counts as alive."""
    return ProcessId(pid, start_ticks(pid) or 0)


def start_ticks(pid: int) -> int | None:
    """When a process started, or None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[START_TICKS_FIELD])


def bearing(token: str) -> list[ProcessId]:
    """Every process whose environment has the token, whoever its parent is by now."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [identify(pid) for pid in pids if pid != os.getpid() and mark in _environment(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def end(processes: Iterable[ProcessId]) -> list[ProcessId]:
    """Ends processes: politely, after `GRACE_S` by force. Returns those that survive even that.

    A handle on the process is opened before its identity is checked, so that a number that is given to a stranger in
    between hits no one.
    """
    handles = {handle: process for process in set(processes) if (handle := _open(process)) is not None}
    try:
        remaining = set(handles)
        for signal_number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILLED_S)):
            for handle in remaining:
                _signal(handle, signal_number)
            remaining = _wait(remaining, wait_s)
        return [handles[handle] for handle in remaining]
    finally:
        for handle in handles:
            os.close(handle)


def _open(process: ProcessId) -> int | None:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    if process.alive:
        return handle
    os.close(handle)
    return None


def _signal(handle: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return


def _wait(handles: set[int], wait_s: float) -> set[int]:
    """Those that have not ended after the time."""
    remaining = set(handles)
    deadline = time.monotonic() + wait_s
    poller = select.poll()
    for handle in remaining:
        poller.register(handle, select.POLLIN)
    while remaining and (left_s := deadline - time.monotonic()) > 0:
        for handle, _ in poller.poll(1000 * left_s):
            poller.unregister(handle)
            remaining.discard(handle)
    return remaining
