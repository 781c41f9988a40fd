"""A group's place in the network: its engine, its claim, and what is logged when it ends."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from torch._C._distributed_c10d import Store
from torch.distributed import DistError

from wiresum.gates.rank import EngineInTurns
from wiresum.torch.engine import Engine
from wiresum.torch.report import group_report

if TYPE_CHECKING:
    from wiresum.torch._c10d import Ledger
    from wiresum.torch.replay import Replay
    from wiresum.torch.watch import Watch

logger = logging.getLogger("wiresum.torch")

MAX_CLOSED = 1024
"""Closed connections whose counters are kept for `report()`: as many as `Ledger::kMaxLedgers` of `csrc/ledger.h`."""


class Claim:
    """Which of several process groups sums as one job: the first that asks. Rank 0 of a group asks for it.

    Two groups that joined the same job would be two incarnations of it, and the newer would end the older.
    """

    def __init__(self, store: Store, group: str) -> None:
        self.store = store
        self.group = group
        self._key = ""

    def ask(self, job: str) -> str:
        """Empty if the job of this digest is this group's now, else who has it."""
        if job in Connection.by_job:
            return f"group '{Connection.by_job[job].group}'"
        key = f"wiresum/claim/{job}"
        if self.store.add(key, 1) == 1:
            self._key = key
            return ""
        self.store.add(key, -1)
        return "a group of other ranks"

    def release(self) -> None:
        """Lets another group ask. Harmless when repeated, or when there is nothing to release."""
        key, self._key = self._key, ""
        try:
            if key:
                self.store.add(key, -1)
        except DistError:
            logger.debug("the store is gone, and the claim with it")


class Connection:
    """An engine in use by a group. A process has at most one for each job: a rank is one worker of it."""

    by_job: ClassVar[dict[str, Connection]] = {}
    """Those that are open, by the digest of their job, in the order in which they were opened."""
    by_ledger: ClassVar[dict[int, Connection]] = {}
    """Open connections by ledger. A closed one would keep the group's store, with its descriptors."""
    closed: ClassVar[dict[int, dict[str, Any]]] = {}
    """Last counters of closed connections by ledger, at most MAX_CLOSED."""

    def __init__(self, group: str, job: str, engine: Engine, claim: Claim, title: str = "") -> None:
        self.group = group
        self._beginning = f"{title}: " if title else ""  # of its lines in the log
        self._job = job
        self.abi = engine.abi()  # the backend uses what is in this capsule until close() has returned
        self._engine = engine
        self._claim = claim
        self._ledger: Ledger | None = None
        self._closing = threading.Lock()
        self._closed = False
        self._statistics: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._capsules: list[object] = []
        self._replay: Replay | None = None
        self._watch: Watch | None = None
        Connection.by_job[job] = self

    @classmethod
    def first(cls) -> Connection | None:
        """The one that was opened first of those that are open: the default group's, where it has one."""
        return next(iter(cls.by_job.values()), None)

    def keep_books(self, ledger: Ledger) -> None:
        """Names the counters that belong to this connection."""
        self._ledger = ledger
        Connection.by_ledger[ledger.id] = self
        is_told = ledger.rank == 0 and Connection.first() is self  # once, not for each group
        level = logging.INFO if is_told else logging.DEBUG
        logger.log(level, "%spackets of rank %d travel by %s", self._beginning, ledger.rank, self._engine.transport)

    @property
    def may_leave(self) -> bool:
        """Whether the job may go on without the network after it has begun."""
        return isinstance(self._engine, EngineInTurns) and self._engine.goes_elsewhere

    def follow(self, leave: Callable[[], None] | None) -> None:
        """Names what is to be called when the driver of turns has ended the job in the network."""
        if isinstance(self._engine, EngineInTurns):
            self._engine.follow(leave)

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._engine

    def replay_by(self, replay: Replay) -> None:
        """Names who has the ranks leave the network together, and go back; it begins now, and ends with this."""
        self._replay = replay
        replay.start()

    def watch_by(self, watch: Watch) -> None:
        """Names who notices a dead rank, where no server does; it begins now, and ends with this."""
        self._watch = watch
        watch.start()

    def interface_of(self, engine: Engine) -> object:
        """The capsule of an engine, which lives as long as this, as the backend uses what is in it."""
        capsule = engine.abi()
        # The backend uses the one before until it has come back to the network.
        self._capsules = [*self._capsules[-1:], capsule]
        return capsule

    def go_on_with(self, engine: Engine) -> None:
        """Takes another engine in place of the one that was left, whose counters are kept."""
        with self._closing:
            before, self._engine = self._engine, engine
            self._before = self._with_those_before(before.statistics())
        before.close()

    def _with_those_before(self, statistics: Mapping[str, Any]) -> dict[str, Any]:
        before = {name: count for name, count in self._before.items() if name != "threads"}
        return {name: count + before.get(name, 0) for name, count in statistics.items()}

    def await_children(self, k: int) -> None:
        """How many of its aggregator's children this rank waits for, where rounds go on without late workers."""
        self._engine.await_children(k)

    def statistics(self) -> dict[str, Any]:
        """The engine's counters; once it is closed, the last ones."""
        if not self._closed:
            self._statistics = self._with_those_before(self._engine.statistics())
            if self._replay is not None:
                self._statistics |= self._replay.counts
        return self._statistics

    @classmethod
    def counters(cls) -> dict[int, dict[str, Any]]:
        """Engine counters of open and closed connections by ledger."""
        return cls.closed | {ledger: connection.statistics() for ledger, connection in cls.by_ledger.items()}

    def _close_books(self) -> None:
        """Replaces this connection by its last counters, so that nothing of it outlives the group."""
        if self._ledger is None:
            return
        Connection.by_ledger.pop(self._ledger.id, None)
        Connection.closed[self._ledger.id] = self._statistics
        while len(Connection.closed) > MAX_CLOSED:
            del Connection.closed[next(iter(Connection.closed))]

    def close(self) -> None:
        """Leaves the job and logs what was summed. Harmless when repeated."""
        for thread in (self._replay, self._watch):
            if thread is not None:
                thread.close()
        with self._closing:
            if self._closed:
                return
            self.statistics()
            self._closed = True
            self._replay = self._watch = None  # they hold groups of Gloo, and this connection
            self.follow(None)
            self._close_books()
            if Connection.by_job.get(self._job) is self:
                del Connection.by_job[self._job]
            self._engine.close()
            self._claim.release()
        if self._ledger is not None and self._ledger.rank == 0:
            logger.info("%s%s", self._beginning, group_report(self._ledger, self._statistics).summary())


@atexit.register
def _close_the_last() -> None:
    """A program may end without destroying its groups; the aggregators should not have to guess."""
    for connection in list(Connection.by_job.values()):
        connection.close()
