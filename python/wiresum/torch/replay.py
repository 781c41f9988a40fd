"""Has the ranks of a group leave the network together when no aggregator can sum or a rank is lost, and come back.

The ranks agree through the group's store. Each looks there a few times a second, whatever Python computes, as a rank
with nothing under way would not notice that a node is gone. What becomes of collectives meanwhile is the part of
`csrc/going_over.h` and `csrc/submissions.h`; ADR 106 has the argument.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import DistError

from wiresum.errors import JoinError
from wiresum.plan.incarnation import next_incarnation
from wiresum.torch.losses import Departure, groups_of, names

if TYPE_CHECKING:
    from wiresum.torch._c10d import Crossing
    from wiresum.torch.bootstrap import Meeting
    from wiresum.torch.connection import Connection
    from wiresum.torch.engine import Engine

logger = logging.getLogger("wiresum.torch")

LOOK_S = 0.2
"""Seconds between two looks into the store."""
MEET_S = 0.05
"""The same while those meet who are left."""
PROBE_S = 1.0
"""Seconds between two attempts of the first rank to join, and what each may take: a node answers in milliseconds."""
JOIN_S = 5.0
"""Seconds for the others to join a node that the first rank has joined."""
HOLD_S = 30.0
"""Seconds for which collectives may be held back until all ranks have said how far they are: a busy machine's."""
GO, AGAIN = "go", "again"
STORE_IS_GONE = (
    "the group's store is gone, so the ranks will not go over to Gloo if an aggregator dies; keep the process that has "
    "the store running as long as the job"
)


class Replay:
    """The thread of a rank that follows the others out of the network and back.

    Attributes:
        left: times that the ranks have left the network.
        returned: times that they have gone back.
        ranks: those that are not lost, in order.
    """

    def __init__(self, store: Store, meeting: Meeting, connection: Connection, crossing: Crossing) -> None:
        self._store = store
        self._meeting, self._connection, self._crossing = meeting, connection, crossing
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wiresum-replay", daemon=True)
        self.left = self.returned = self._life = 0
        self.ranks = list(range(meeting.size))

    @property
    def counts(self) -> dict[str, int]:
        """Counters by name, for reports."""
        counts = {"left_for_gloo": self.left, "returned_from_gloo": self.returned}
        return counts | ({"lost_ranks": len(self._lost)} if self._lost else {})

    @property
    def _lost(self) -> list[int]:
        return [rank for rank in range(self._meeting.size) if rank not in self.ranks]

    @property
    def _leads(self) -> bool:
        """Whether this rank does what one of them has to do for all."""
        return self._meeting.rank == self.ranks[0]

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def close(self) -> None:
        """Looks no more. Harmless when repeated."""
        self._closing.set()
        # What is held back would wait for this rank.
        self._crossing.fail("")
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_S + PROBE_S)

    def _run(self) -> None:
        try:
            # A connection of its own: what waits in the program's must not hold this up. It is made here, as PyTorch
            # asks for the name of its address, and a group must not wait for a slow name server.
            self._store = PrefixStore("replay", self._store.clone())
            while not self._closing.wait(LOOK_S):
                if self._ends():
                    return
                departure = self._departure()
                if departure is not None:
                    self._leave(departure)
                    self._go_back(0.0 if departure.lost else PROBE_S)
        except DistError as error:
            if not self._closing.is_set():
                logger.warning("%s (%s)", STORE_IS_GONE, error)
        except _UnfitError as trouble:
            if not self._closing.is_set():
                self._connection.engine.stop(str(trouble))
                self._crossing.fail(str(trouble))
                logger.warning("%s", trouble)

    def _tell(self, level: int, sentence: str, *values: object) -> None:
        logger.log(level if self._leads else logging.DEBUG, sentence, *values)

    def _key(self, what: str) -> str:
        return f"{self._life}/{what}"

    def _read(self, what: str) -> str | None:
        key = self._key(what)
        return self._store.get(key).decode() if self._store.check([key]) else None

    def _write(self, what: str, text: str) -> None:
        self._store.set(self._key(what), text)

    def _ends(self) -> bool:
        """Ends what Gloo has, which would wait, if a rank is lost that the group does not go on without."""
        lost = self._connection.engine.lost()
        if lost is None or self._meeting.outlives:
            return False
        self._crossing.lose(lost[1])
        return True

    def _departure(self) -> Departure | None:
        """What the first rank has said that has lost its node, or another rank; None while none has."""
        engine, rank = self._connection.engine, self._meeting.rank
        own = None
        if self._meeting.outlives and (lost := engine.lost()) is not None:
            own = Departure(lost[1], (lost[0],))
        elif (gone := engine.gone()) is not None:
            own = Departure(f"rank {rank}: {gone}")
        if own is not None:
            return Departure.of_json(self._store.compare_set(self._key("gone"), "", own.to_json()).decode())
        text = self._read("gone")
        return Departure.of_json(text) if text is not None else None

    def _leave(self, departure: Departure) -> None:
        if departure.lost:
            self._go_on_without(departure)
        self._connection.engine.stop(departure.why, elsewhere=True)
        self._crossing.leave()
        self.left += 1
        if departure.lost:
            left = f"{len(self.ranks)} of {self._meeting.size} ranks"
            self._tell(logging.WARNING, "%s go on without %s (%s)", left, names(self._lost), departure.why)
        else:
            self._tell(logging.WARNING, "all ranks go over to Gloo until the network is back (%s)", departure.why)

    def _go_on_without(self, departure: Departure) -> None:
        """Has those who are left meet, in groups of their own.

        Raises:
            _UnfitError: this rank is one of the lost, or somebody else did not come.
        """
        if self._meeting.rank not in (left := self._who_is_left(departure)):
            raise _UnfitError(f"the other ranks go on without this one: {departure.why}")
        self.ranks = left
        store = PrefixStore(self._key("groups"), self._store)
        limit, timeout = timedelta(seconds=HOLD_S), self._meeting.arrival_timeout
        try:
            groups = groups_of(self.ranks, self._meeting.rank, store, limit, timeout)
        except RuntimeError as error:
            raise _UnfitError(
                f"{names(self.ranks)} could not go on without {names(self._lost)}, as one of them did not come within "
                f"{HOLD_S:g} s ({error}): look at their output"
            ) from error
        self._crossing.go_on_without(self.ranks, f"{names(self._lost)}: {departure.why}", **groups)

    def _who_is_left(self, departure: Departure) -> list[int]:
        """Who says to be there, as the first says who has waited long enough: several ranks may be lost at once."""
        if self._meeting.rank in departure.lost:
            return []
        expected = [rank for rank in self.ranks if rank not in departure.lost]
        self._write(f"here/{self._meeting.rank}", GO)
        end_s = time.monotonic() + self._meeting.settings.dead_after_s
        while (told := self._read("left")) is None:
            here = [rank for rank in expected if self._read(f"here/{rank}") is not None]
            if here == expected or time.monotonic() > end_s:
                told = self._store.compare_set(self._key("left"), "", json.dumps(here)).decode()
                break
            if self._closing.wait(MEET_S):
                return []
        left: list[int] = json.loads(told)
        return left

    def _go_back(self, pause_s: float) -> None:
        """Joins again with all others, and agrees with them from which collective on the network sums.

        Args:
            pause_s: before the first attempt.
        """
        attempt = 0
        while (engine := self._join(attempt, pause_s)) is None:
            if self._closing.is_set():
                return
            attempt, pause_s = attempt + 1, PROBE_S
        try:
            first = self._agree_on_first()
        except BaseException:
            engine.close()
            raise
        self._crossing.go_on(first, self._connection.interface_of(engine))
        self._connection.go_on_with(engine)
        self._life += 1
        self.returned += 1
        self._tell(logging.WARNING, "all ranks are back in the network")

    def _join(self, attempt: int, pause_s: float) -> Engine | None:
        """An engine in the next incarnation, once all ranks have one; None where one of them has not."""
        engine = self._probe(attempt, pause_s) if self._leads else self._follow(attempt)
        if self._leads and engine is not None:
            joined = self._everyones(f"joined/{attempt}", JOIN_S + HOLD_S)
            self._write(f"verdict/{attempt}", GO if joined and all(text == GO for text in joined) else AGAIN)
        if self._wait_for(f"verdict/{attempt}") == GO:
            return engine
        if engine is not None:
            engine.close()
        return None

    def _probe(self, attempt: int, pause_s: float) -> Engine | None:
        """The first rank tries to join until a node answers; None at the end."""
        while not self._closing.wait(pause_s):
            pause_s = PROBE_S
            incarnation = next_incarnation()
            try:
                engine = self._meeting.open(incarnation, PROBE_S, self._lost)
            except JoinError:
                continue
            self._write(f"joined/{attempt}/{self._meeting.rank}", GO)
            self._write(f"incarnation/{attempt}", str(incarnation))
            return engine
        return None

    def _follow(self, attempt: int) -> Engine | None:
        incarnation = self._wait_for(f"incarnation/{attempt}")
        if incarnation is None:
            return None
        mine = f"joined/{attempt}/{self._meeting.rank}"
        try:
            engine = self._meeting.open(int(incarnation), JOIN_S, self._lost)
        except JoinError as error:
            self._write(mine, str(error))
            return None
        self._write(mine, GO)
        return engine

    def _agree_on_first(self) -> int:
        """The number of the first collective that the network sums: the first that no rank has given to Gloo.

        Raises:
            _UnfitError: the ranks have not met, or one of them has not said how far it is.
        """
        rank = self._meeting.rank
        try:
            self._write(f"given/{rank}", str(self._crossing.hold()))
        except RuntimeError as error:
            raise _UnfitError(f"the ranks could not go over to Gloo: {error}") from error
        if self._leads:
            given = self._everyones("given", HOLD_S)
            self._write("first", str(max(map(int, given))) if given else "")
        first = self._wait_for("first", 2 * HOLD_S)
        if not first:
            missing = [n for n in self.ranks if self._read(f"given/{n}") is None] or self.ranks[:1]
            raise _UnfitError(
                f"the ranks could not go back to the network together, as {names(missing)} did not say in time "
                "which collective is next: look at the output there"
            )
        return int(first)

    def _wait_for(self, what: str, limit_s: float = float("inf")) -> str | None:
        """What a rank writes; None at the end, or when the time is over."""
        end_s = time.monotonic() + limit_s
        while (text := self._read(what)) is None:
            if time.monotonic() > end_s or self._closing.wait(LOOK_S):
                return None
        return text

    def _everyones(self, what: str, limit_s: float) -> list[str]:
        """What all ranks that are left write, in order; nothing if one does not in time."""
        end_s = time.monotonic() + limit_s
        texts = []
        for rank in self.ranks:
            text = self._wait_for(f"{what}/{rank}", end_s - time.monotonic())
            if text is None:
                return []
            texts.append(text)
        return texts


class _UnfitError(Exception):
    """The group cannot go on, and why."""
