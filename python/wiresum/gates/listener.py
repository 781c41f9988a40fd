"""Gates of jobs at their ranks: who may send now, and how fast. `spec/circuits.md` has the protocol.

Ranks come to the driver, each over a line of its own, and do what it says. What a shut gate is told has to be said
again and again, as a gate that hears nothing opens: whatever becomes of the driver, nobody is shut out for good.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

from wiresum.errors import ScheduleError
from wiresum.gates import EXPIRY_S, FORMAT

AGAIN_S = 1.0
"""Seconds between two times that a shut gate is told to stay shut."""
ANSWER_S = 2.0
"""Seconds within which a rank says that it has done as it was told; one that does not is stuck, or gone."""
MOST_WAITING = 128
MOST_NAMED = 4
MAX_LINE_BYTES = 4096
GREETING_S = 10.0
"""Seconds within which whoever connects has to say who it is: more than a process on a busy machine needs."""
SEND_S = 1.0
"""Seconds that an order may wait for a rank that does not read; nobody else is told anything meanwhile."""
MOST_LINES = 4096
"""Lines at a time, each with a thread: all 255 ranks of sixteen jobs."""
MOST_JOBS, MOST_RANKS = 1 << 16, 1 << 8
"""Numbers that a job or a rank may have, as in packets."""


@dataclass
class _Rank:
    """A rank and its line.

    Attributes:
        line: to it.
        told: number of the last order.
        done: number of the last order that it has carried out.
        results: packets of sums that it has.
        is_ready: it has something to send.
        end: how it ended: `bye`, or `lost` where it ended without a word.
        ended_s: when, by `time.monotonic`.
    """

    line: socket.socket
    told: int = 0
    done: int = 0
    results: int = 0
    is_ready: bool = False
    end: str = ""
    ended_s: float = 0.0

    def ends(self, how: str) -> None:
        """It has ended, unless it had before."""
        if not self.end:
            self.end, self.ended_s = how, time.monotonic()


@dataclass
class _Job:
    """Gates of a job; they are shut until its first turn.

    Attributes:
        ranks: that have come.
        askers: lines of ranks that wait for the job's plan.
        plan: of the job, once it has one.
        is_refused: it will have none.
        is_abandoned: no more will come.
        order: what they were told last.
    """

    ranks: dict[int, _Rank] = field(default_factory=dict)
    askers: dict[int, socket.socket] = field(default_factory=dict)
    plan: str | None = None
    is_refused: bool = False
    is_abandoned: bool = False
    order: Mapping[str, Any] = field(default_factory=lambda: {"do": "shut", "for_s": EXPIRY_S})

    @property
    def is_shut(self) -> bool:
        return bool(self.order["do"] == "shut")


class Gates:
    """Listens for ranks; use it in a `with` statement.

    Args:
        address: `HOST:PORT`, or the path of a socket.

    Raises:
        ScheduleError: the address cannot be had.
    """

    def __init__(self, address: str) -> None:
        self._path: Path | None = None
        try:
            self._listener = self._listen(address)
        except OSError as error:
            raise ScheduleError(f"cannot listen at {address} ({error.strerror}); give --listen another one") from None
        self._jobs: dict[int, _Job] = {}
        self._line_count = 0
        self._news = threading.Condition()
        self._is_closing = False
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._accept, self._say_again)]

    def _listen(self, address: str) -> socket.socket:
        host, _, port = address.rpartition(":")
        if host and port.isdigit():
            return socket.create_server((host.strip("[]"), int(port)), backlog=MOST_WAITING)
        self._path = Path(address)
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen(MOST_WAITING)
        return listener

    @property
    def address(self) -> str:
        """Where ranks find it: their `WIRESUM_TURNS`."""
        if self._path is not None:
            return str(self._path)
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all lines. Gates that are shut open by themselves, those that are open stay so."""
        with self._news:
            self._is_closing = True
            self._news.notify_all()
            lines = [rank.line for job in self._jobs.values() for rank in job.ranks.values()]
            lines += [line for job in self._jobs.values() for line in job.askers.values()]
        for line in (self._listener, *lines):
            _shut_down(line)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def await_ranks(self, workers: Mapping[int, int], timeout_s: float) -> None:
        """Returns when all ranks of jobs have something to send, or have ended.

        Args:
            workers: how many each job has.
            timeout_s: how long to wait.

        Raises:
            ScheduleError: some have not come in time, or will not come; the message names them.
        """
        self._await_all(workers, self._ready, timeout_s, "has nothing to send")

    def await_back(self, workers: Mapping[int, int], timeout_s: float) -> set[int]:
        """Jobs all of whose ranks have come in time; those of a driver before come by themselves.

        Args:
            workers: how many each job has.
            timeout_s: how long to wait for the last one.
        """

        def back() -> set[int]:
            return {job for job, n in workers.items() if len(self._ready(job)) == n}

        self._wait(lambda: len(back()) == len(workers), timeout_s)
        with self._news:
            return back()

    def await_askers(self, workers: Mapping[int, int], timeout_s: float) -> None:
        """Returns when all ranks of jobs wait for their plans.

        Args:
            workers: how many each job has.
            timeout_s: how long to wait.

        Raises:
            ScheduleError: some have not come in time, or will not come; the message names them.
        """
        self._await_all(workers, lambda job: set(self._job(job).askers), timeout_s, "has not asked for its plan")

    def hand_out(self, job: int, plan: str) -> None:
        """Gives the ranks of a job its plan (JSON): those that wait for it, and those that ask later."""
        with self._news:
            self._job(job).plan = plan
            for line in self._job(job).askers.values():
                _give(line, plan)

    def refuse(self, job: int) -> None:
        """A job will have no plan: its ranks get an error, those that wait and those that ask later."""
        with self._news:
            self._job(job).is_refused = True
            for line in self._job(job).askers.values():
                _shut_down(line)

    def results(self, jobs: Collection[int]) -> dict[int, int]:
        """How many packets of sums all ranks of jobs have, at least."""
        with self._news:
            for rank in self._ranks(jobs):
                self._tell(rank, {"do": "tell"})
        self._wait(lambda: all(rank.done >= rank.told or rank.end for rank in self._ranks(jobs)), ANSWER_S)
        with self._news:
            return {job: min((rank.results for rank in self._ranks([job])), default=0) for job in jobs}

    def abandon(self, job: int) -> None:
        """No more ranks of a job will come."""
        with self._news:
            self._job(job).is_abandoned = True
            self._news.notify_all()

    def open(self, job: int, rate_bps: float | None = None, why: str = "") -> None:
        """Lets the ranks of a job send, each at this rate on the cable; they repeat a reason where one is given."""
        self._order([job], {"do": "open", "rate_bps": rate_bps, **({"why": why} if why else {})})

    def shut(self, jobs: Collection[int]) -> None:
        """Lets the ranks of jobs send nothing; returns when they do not, or do not answer."""
        self._order(jobs, {"do": "shut", "for_s": EXPIRY_S})
        self._wait(lambda: all(rank.done >= rank.told or rank.end for rank in self._ranks(jobs)), ANSWER_S)

    def end(self, job: int) -> str:
        """How a job has ended: `done`, or `lost` if a rank has gone without a word; empty while it runs, or will."""
        with self._news:
            return self._end(job)

    def ended_s(self, job: int) -> float:
        """When the last rank of a job has ended, by `time.monotonic`."""
        with self._news:
            return max((rank.ended_s for rank in self._ranks([job])), default=0.0)

    def await_end(self, job: int, timeout_s: float | None) -> bool:
        """Whether a job ends in time."""
        return self._wait(lambda: bool(self._end(job)), timeout_s)

    def _await_all(
        self, workers: Mapping[int, int], came: Callable[[int], set[int]], timeout_s: float, lack: str
    ) -> None:
        def missing() -> list[tuple[int, int]]:
            there = {job: came(job) for job in workers}
            return [(rank, job) for job, n in workers.items() for rank in range(n) if rank not in there[job]]

        def is_over() -> bool:
            absent = missing()
            return not absent or any(self._job(job).is_abandoned for _, job in absent)

        self._wait(is_over, timeout_s)
        with self._news:
            absent = ", ".join(f"{rank} of job {job}" for rank, job in missing()[:MOST_NAMED])
        if absent:
            raise ScheduleError(f"rank {absent} has ended, or {lack} for {timeout_s:g} s; see its output")

    def _end(self, job: int) -> str:
        ends = [rank.end for rank in self._ranks([job])]
        if not ends:
            return "lost" if self._job(job).is_abandoned else ""
        return "" if not all(ends) else "lost" if "lost" in ends else "done"

    def _job(self, job: int) -> _Job:
        return self._jobs.setdefault(job, _Job())

    def _ready(self, job: int) -> set[int]:
        ranks = self._jobs[job].ranks if job in self._jobs else {}
        return {number for number, rank in ranks.items() if rank.is_ready or rank.end}

    def _ranks(self, jobs: Iterable[int]) -> list[_Rank]:
        return [rank for job in jobs if job in self._jobs for rank in self._jobs[job].ranks.values()]

    def _wait(self, until: Callable[[], bool], timeout_s: float | None) -> bool:
        with self._news:
            return self._news.wait_for(until, timeout_s)

    def _order(self, jobs: Collection[int], order: Mapping[str, Any]) -> None:
        with self._news:
            for job in jobs:
                gates = self._job(job)
                gates.order = order
                for rank in gates.ranks.values():
                    self._tell(rank, order)

    def _tell(self, rank: _Rank, order: Mapping[str, Any]) -> None:
        if rank.end:
            return
        rank.told += 1
        try:
            rank.line.sendall(json.dumps({**order, "number": rank.told}).encode() + b"\n")
        except BlockingIOError:
            # It may have half of an order, so it understands none any more.
            with suppress(OSError):
                rank.line.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Whether it has gone without a word is known to who hears it: its goodbye may not be read yet.

    def _say_again(self) -> None:
        with self._news:
            while not self._news.wait_for(lambda: self._is_closing, AGAIN_S):
                for job in self._jobs.values():
                    for rank in job.ranks.values() if job.is_shut else ():
                        self._tell(rank, job.order)

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            if line.family != socket.AF_UNIX:
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(SEND_S), 0))
            with self._news:
                is_full = self._line_count >= MOST_LINES
                self._line_count += not is_full
            if is_full:
                _shut_down(line)
                continue
            threading.Thread(target=self._hear, args=(line,), daemon=True).start()

    def _hear(self, line: socket.socket) -> None:
        rank = None
        try:
            with line.makefile("rb") as words:
                line.settimeout(GREETING_S)
                greeting = _read(words.readline(MAX_LINE_BYTES))
                line.settimeout(None)
                _check(greeting)
                if greeting.get("asks") == "plan":
                    self._answer(line, greeting, words)
                else:
                    rank = self._greet(line, greeting)
                while rank and (said := words.readline(MAX_LINE_BYTES)):
                    self._note(rank, _read(said))
        except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
            pass  # Whoever speaks otherwise is no rank, or is one no more.
        _shut_down(line)
        with self._news:
            self._line_count -= 1
            if rank is not None:
                rank.ends("lost")
            self._news.notify_all()

    def _greet(self, line: socket.socket, words: Mapping[str, Any]) -> _Rank:
        with self._news:
            job, number = self._job(int(words["job"])), int(words["rank"])
            if number in job.ranks and not job.ranks[number].end:
                raise ValueError("this rank is there; one whose line has broken comes again")
            rank = job.ranks[number] = _Rank(line)
            self._tell(rank, job.order)
            self._news.notify_all()
        return rank

    def _answer(self, line: socket.socket, words: Mapping[str, Any], more: BinaryIO) -> None:
        """A rank waits for its plan, until it has hung up."""
        number = int(words["rank"])
        with self._news:
            job = self._job(int(words["job"]))
            if job.is_refused:
                return
            job.askers[number] = line
            if job.plan is not None:
                _give(line, job.plan)
            self._news.notify_all()
        more.readline(MAX_LINE_BYTES)
        with self._news:
            if job.askers.get(number) is line:
                del job.askers[number]

    def _note(self, rank: _Rank, words: Mapping[str, Any]) -> None:
        with self._news:
            rank.done = int(words.get("done", rank.done))
            rank.results = int(words.get("results", rank.results))
            rank.is_ready |= bool(words.get("ready"))
            if words.get("bye"):
                rank.ends("bye")
            self._news.notify_all()


def _read(said: bytes) -> dict[str, Any]:
    words = json.loads(said)
    if not isinstance(words, dict):
        raise TypeError("not an object")
    return words


def _check(greeting: Mapping[str, Any]) -> None:
    """Refuses strangers, before anything is kept of them."""
    is_known = 0 <= int(greeting["job"]) < MOST_JOBS and 0 <= int(greeting["rank"]) < MOST_RANKS
    if greeting["format"] != FORMAT or not is_known:
        raise ValueError("another protocol")


def _give(line: socket.socket, plan: str) -> None:
    with suppress(OSError):
        line.sendall(json.dumps({"do": "plan", "plan": json.loads(plan)}).encode() + b"\n")


def _shut_down(line: socket.socket) -> None:
    """Ends a line even while another thread reads it."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
