"""Runs one command at every worker: output by rank, the first failure ends the run."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from wiresum.errors import TestbedError
from wiresum.testbed import processes
from wiresum.testbed.bed import Testbed
from wiresum.testbed.loss import LossCount
from wiresum.testbed.traffic import LinkTraffic

READ_BYTES = 64 * 1024
MAX_LINE_BYTES = 64 * 1024
"""Longer lines are cut, so that output without line ends cannot fill the memory."""
DRAIN_S = 1.0
"""Wait for output that a worker's own children still hold open after it has ended."""
SIGNAL_EXIT_BASE = 128
"""A shell's exit code for a process that a signal ended."""

PIPED: Mapping[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.PIPE,
}
"""How a process is started whose output is passed on."""

QUOTED_LINES = 15
"""Lines of the workers' errors that `run_or_fail` repeats."""

Sink = Callable[[int, bool, str], None]
"""Takes rank, whether it is standard error, and a line."""


@dataclass
class RunOutcome:
    """How a run ended.

    Attributes:
        exit_codes: by rank; 128 + n where signal n ended the process.
        first_failure: rank of the worker that failed first; None if none did.
        duration_s: from the first start to the last end.
        traffic: what crossed each link during the run.
        losses: what lossy links have lost on purpose since the testbed came up, from source to target, and back.
    """

    exit_codes: list[int]
    first_failure: int | None
    duration_s: float
    traffic: dict[str, LinkTraffic] = field(default_factory=dict)
    losses: dict[str, tuple[LossCount | None, LossCount | None]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0, or that of the first failure."""
        return 0 if self.first_failure is None else self.exit_codes[self.first_failure]


def run(bed: Testbed, command: Sequence[str], sink: Sink, environment: Mapping[str, str] | None = None) -> RunOutcome:
    """Runs a command at every worker of a testbed and waits for all of them.

    Args:
        bed: a testbed that is up.
        command: program and arguments.
        sink: takes each line of output as it comes.
        environment: variables beyond those of `Testbed.worker_environment`.

    Raises:
        TestbedError: the program does not exist.
    """
    if shutil.which(command[0]) is None:
        raise TestbedError(f"command `{command[0]}` was not found; give its path, or install it")
    before = bed.link_traffic()
    started = time.monotonic()
    ranks = range(len(bed.workers))
    spared = outlive_ranks({**os.environ, **(environment or {})})
    exit_codes, first_failure = attend(
        {rank: bed.spawn_worker(rank, command, environment, **PIPED) for rank in ranks},
        sink,
        killed_is_failure=not spared,
    )
    duration_s = time.monotonic() - started
    traffic = {link: seen.since(before[link]) for link, seen in bed.link_traffic().items()}
    return RunOutcome(exit_codes, first_failure, duration_s, traffic, bed.link_losses())


def outlive_ranks(environment: Mapping[str, str]) -> bool:
    """Whether ranks with these settings go on without one that is killed."""
    return environment.get("WIRESUM_ON_LOSS", "").lower() == "continue"


def attend(
    ranks: Mapping[int, subprocess.Popen[bytes]], sink: Sink, *, killed_is_failure: bool = True
) -> tuple[list[int], int | None]:
    """Passes the output of a job's ranks on and waits for all of them; the first failure ends the others.

    Args:
        ranks: processes that were started with `PIPED`.
        sink: takes each line of output as it comes.
        killed_is_failure: whether one that a signal has ended is such a failure.

    Returns:
        Exit codes by rank, 128 + n where signal n ended the process; and the rank that failed first, if one did.
    """
    with _Workers(sink, killed_is_failure) as workers:
        for rank, child in ranks.items():
            workers.add(rank, child)
        workers.wait()
    return workers.exit_codes(), workers.first_failure


def run_or_fail(
    bed: Testbed, command: Sequence[str], what: str, show: Callable[[str], None] = lambda line: None
) -> RunOutcome:
    """As `run`, for a program of ours that has to succeed.

    Args:
        bed: a testbed that is up.
        command: program and arguments.
        what: names the run in the error.
        show: takes each line of standard output of any rank.

    Raises:
        TestbedError: a worker failed; the message has the end of the workers' errors.
    """
    errors: list[str] = []

    def sink(rank: int, is_error: bool, line: str) -> None:
        if is_error:
            errors.append(f"[{rank}] {line.rstrip()}")
        else:
            show(line)

    outcome = run(bed, command, sink)
    if outcome.exit_code:
        raise TestbedError(f"{what} failed:\n" + "\n".join(errors[-QUOTED_LINES:]))
    return outcome


class _Workers:
    """The processes of a run and their output, in one selector."""

    def __init__(self, sink: Sink, killed_is_failure: bool) -> None:
        self._sink = sink
        self._killed_is_failure = killed_is_failure
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._running: set[int] = set()
        self._open_streams = 0
        self._deadline_s: float | None = None
        self.first_failure: int | None = None

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def add(self, rank: int, child: subprocess.Popen[bytes]) -> None:
        """Watches a worker's end and its two streams."""
        self._children[rank] = child
        self._running.add(rank)
        handle = os.pidfd_open(child.pid)
        self._selector.register(handle, selectors.EVENT_READ, lambda: self._ended(rank, handle))
        for stream, is_error in ((child.stdout, False), (child.stderr, True)):
            assert stream is not None, "workers are started with pipes"
            self._watch(rank, stream, is_error)

    def wait(self) -> None:
        """Returns when all have ended and their output has been passed on."""
        while self._running or self._open_streams:
            timeout_s = None if self._deadline_s is None else max(0.0, self._deadline_s - time.monotonic())
            ready = self._selector.select(timeout_s)
            for key, _ in ready:
                key.data()
            if self._deadline_s is not None and time.monotonic() >= self._deadline_s:
                if not self._running:
                    return
                self._stop(signal.SIGKILL, None)

    def exit_codes(self) -> list[int]:
        """By rank."""
        return [_exit_code(self._children[rank].wait()) for rank in sorted(self._children)]

    def _watch(self, rank: int, stream: IO[bytes], is_error: bool) -> None:
        lines = _Lines(lambda line: self._sink(rank, is_error, line))
        self._open_streams += 1

        def read() -> None:
            chunk = os.read(stream.fileno(), READ_BYTES)
            lines.feed(chunk)
            if not chunk:
                self._selector.unregister(stream)
                stream.close()
                self._open_streams -= 1

        self._selector.register(stream, selectors.EVENT_READ, read)

    def _ended(self, rank: int, handle: int) -> None:
        self._selector.unregister(handle)
        os.close(handle)
        self._running.discard(rank)
        code = self._children[rank].wait()
        is_failure = code > 0 or (code < 0 and self._killed_is_failure)
        if is_failure and self.first_failure is None:
            self.first_failure = rank
            self._stop(signal.SIGTERM, processes.GRACE_S)
        if not self._running:
            self._deadline_s = time.monotonic() + DRAIN_S

    def _stop(self, number: signal.Signals, grace_s: float | None) -> None:
        """Signals everyone still running, whole sessions at a time."""
        for rank in self._running:
            with suppress(ProcessLookupError):
                os.killpg(self._children[rank].pid, number)
        self._deadline_s = None if grace_s is None else time.monotonic() + grace_s


class _Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes; none at the end of the stream."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._rest and (not chunk or len(self._rest) > MAX_LINE_BYTES):
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line.decode(errors="replace"))


def _exit_code(code: int) -> int:
    return SIGNAL_EXIT_BASE - code if code < 0 else code
