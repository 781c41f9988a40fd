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
from typing import Any, Self

from wiresum import _native
from wiresum.errors import ScheduleError
from wiresum.gates import EXPIRY_S
from wiresum.gates.lines import ForeignLineError, Line, accepted, shut_down

AGAIN_S = 1.0
"""Seconds between two times that a shut gate is told to stay shut."""
ANSWER_S = 2.0
"""Seconds within which a rank says that it has done as it was told; one that does not is stuck, or gone."""
MOST_WAITING = 128
MOST_NAMED = 4
LOST_S = 1.5
"""Seconds that a rank has to come back whose line has ended: it looks for the driver six times meanwhile."""
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
        goes_elsewhere: where the network does not serve its job, it can sum without it.
        told: number of the last order.
        done: number of the last order that it has carried out.
        results: packets of sums that it has.
        is_ready: it has something to send.
        end: how it ended: `bye`, or `lost` where it ended without a word.
        ended_s: when, by `time.monotonic`.
    """

    line: Line
    goes_elsewhere: bool = False
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
        order: what its ranks were told last.
        ranks: that have come.
        askers: lines of ranks that wait for the job's plan.
        plan: of the job, once it has one.
        refusal: why it will have none.
        is_abandoned: no more will come.
    """

    order: Mapping[str, Any]
    ranks: dict[int, _Rank] = field(default_factory=dict)
    askers: dict[int, Line] = field(default_factory=dict)
    plan: str | None = None
    refusal: str = ""
    is_abandoned: bool = False

    @property
    def is_shut(self) -> bool:
        return bool(self.order["do"] == "shut")

    def dead(self, now_s: float) -> int | None:
        """A rank that has gone without a word, and has not come back."""
        lost = (number for number, rank in self.ranks.items() if rank.end == "lost" and now_s - rank.ended_s > LOST_S)
        return None if self.order["do"] == "stop" else next(lost, None)


class Gates:
    """Listens for ranks; use it in a `with` statement.

    Args:
        address: `HOST:PORT`, or the path of a socket.
        secrets: of the jobs, 64 hexadecimal digits each, by number: whose ranks are believed.

    Raises:
        ScheduleError: the address cannot be had.
    """

    def __init__(self, address: str, secrets: Mapping[int, str]) -> None:
        self._secrets = dict(secrets)
        self._refused = 0
        self._path: Path | None = None
        try:
            self._listener = self._listen(address)
        except OSError as error:
            raise ScheduleError(f"cannot listen at {address} ({error.strerror}); give --listen another one") from None
        self._jobs: dict[int, _Job] = {}
        self._line_count = 0
        self._expected: Collection[int] | None = None
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

    @property
    def refused(self) -> int:
        """Lines that were not of the rank that they named, or had been said before."""
        with self._news:
            return self._refused

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
        shut_down(self._listener)
        for line in lines:
            line.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def expect(self, jobs: Collection[int]) -> None:
        """From now on ranks of other jobs are told that they have no turn: a schedule before may have had them."""
        with self._news:
            self._expected = set(jobs)
            for number in set(self._jobs) - self._expected:
                self._order([number], self._first_order(number))

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
        """Jobs all of whose ranks have come in time or ask for a plan, as ranks of a driver before do by themselves.

        Args:
            workers: how many each job has.
            timeout_s: how long to wait for the last one.
        """

        def back() -> set[int]:
            return {job for job, n in workers.items() if len(self._ready(job) | set(self._job(job).askers)) == n}

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
        """Gives the ranks of a job its plan (JSON, without the secret): who waits for it, and who asks later."""
        with self._news:
            self._job(job).plan = plan
            for line in self._job(job).askers.values():
                _give(line, plan)

    def refuse(self, job: int, why: str) -> None:
        """A job will have no plan: its ranks hear why, those that wait and those that ask later."""
        with self._news:
            self._job(job).refusal = why
            for line in self._job(job).askers.values():
                _refuse(line, why)

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

    def open(self, job: int, rate_bps: float | None = None) -> None:
        """Lets the ranks of a job send, each at this rate on the cable."""
        self._order([job], {"do": "open", "rate_bps": rate_bps})

    def stop(self, job: int, why: str, *, elsewhere: bool = False) -> None:
        """Ends a job at its ranks: their collectives fail, and say why.

        Args:
            job: its number.
            why: the reason.
            elsewhere: its ranks sum without the network from now on, which all of them must be able to.
        """
        self._order([job], {"do": "stop", "why": why, "elsewhere": elsewhere})

    def can_leave(self, job: int, ranks: int) -> bool:
        """Whether all ranks of a job are there and can sum without the network.

        One whose line has just broken may come back.

        Args:
            job: its number.
            ranks: how many it has.
        """
        self._wait(lambda: all(rank.end != "lost" for rank in self._ranks([job])), LOST_S)
        with self._news:
            there = [rank for rank in self._ranks([job]) if rank.goes_elsewhere and not rank.end]
        return len(there) == ranks

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
        return self._jobs.setdefault(job, _Job(order=self._first_order(job)))

    def _first_order(self, job: int) -> Mapping[str, Any]:
        if self._expected is None or job in self._expected:
            return {"do": "shut", "for_s": EXPIRY_S}
        return {"do": "stop", "why": f"job {job} has no turn in this driver's schedule", "elsewhere": False}

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
            rank.line.say({**order, "number": rank.told})
        except BlockingIOError:
            # It may have half of an order, so it understands none any more.
            with suppress(OSError):
                rank.line.line.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Whether it has gone without a word is known to who hears it: its goodbye may not be read yet.

    def _say_again(self) -> None:
        with self._news:
            while not self._news.wait_for(lambda: self._is_closing, AGAIN_S):
                for number, job in self._jobs.items():
                    dead = job.dead(time.monotonic())
                    if dead is not None:
                        why = f"rank {dead} of job {number} has ended without a word; see its output"
                        job.order = {"do": "stop", "why": why, "elsewhere": False}
                    for rank in job.ranks.values() if job.is_shut or dead is not None else ():
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
                shut_down(line)
                continue
            threading.Thread(target=self._hear, args=(line,), daemon=True).start()

    def _hear(self, line: socket.socket) -> None:
        rank, strangers = None, 0
        try:
            line.settimeout(GREETING_S)
            said, greeting = accepted(line, self._key)
            line.settimeout(None)
            if greeting.get("asks") == "plan":
                self._answer(said, greeting)
            else:
                rank = self._greet(said, greeting)
                while words := said.hear():
                    self._note(rank, words)
        except ForeignLineError:
            strangers = 1
        except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
            pass  # Whoever speaks otherwise is no rank, or is one no more.
        shut_down(line)
        with self._news:
            self._refused += strangers
            self._line_count -= 1
            if rank is not None:
                rank.ends("lost")
            self._news.notify_all()

    def _key(self, job: int, rank: int) -> bytes | None:
        """The key of a rank's line; nobody else's is made, and none of numbers that no packet has."""
        if not (0 <= job < MOST_JOBS and 0 <= rank < MOST_RANKS and job in self._secrets):
            return None
        return _native.gate_key(self._secrets[job], rank)

    def _greet(self, line: Line, words: Mapping[str, Any]) -> _Rank:
        with self._news:
            job, number = self._job(int(words["job"])), int(words["rank"])
            if number in job.ranks and not job.ranks[number].end:
                raise ValueError("this rank is there; one whose line has broken comes again")
            rank = job.ranks[number] = _Rank(line, bool(words.get("elsewhere")))
            self._tell(rank, job.order)
            self._news.notify_all()
        return rank

    def _answer(self, line: Line, words: Mapping[str, Any]) -> None:
        """A rank waits for its plan, until it has hung up."""
        number = int(words["rank"])
        with self._news:
            job = self._job(int(words["job"]))
            if job.refusal:
                _refuse(line, job.refusal)
                return
            job.askers[number] = line
            if job.plan is not None:
                _give(line, job.plan)
            self._news.notify_all()
        line.hear()
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


def _give(line: Line, plan: str) -> None:
    with suppress(OSError):
        line.say({"do": "plan", "plan": json.loads(plan)})


def _refuse(line: Line, why: str) -> None:
    with suppress(OSError):
        line.say({"do": "refuse", "why": why})
