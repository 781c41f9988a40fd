"""How the backend of a group is made from its members, who meet in a store."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroupGloo

from wiresum.errors import WiresumError
from wiresum.plan.choices import lane_bytes
from wiresum.torch.bootstrap import Meeting
from wiresum.torch.connection import Claim, Connection
from wiresum.torch.losses import names
from wiresum.torch.replay import Replay
from wiresum.torch.seats import Seating
from wiresum.torch.settings import Settings
from wiresum.torch.watch import Watch

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName

    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.torch._c10d import WiresumBackend

logger = logging.getLogger("wiresum.torch")

MOST_NAMED = 8
"""Ranks that a line in the log names."""
LOSS_TOLD_S = 1.0
"""Seconds beyond WIRESUM_DEAD_AFTER for a rank to learn of another one's loss: of heartbeats, and of looking."""


@dataclass(frozen=True)
class Tools:
    """What all groups of a process are made with.

    Attributes:
        native: the extension.
        settings: those of this rank.
    """

    native: ModuleType
    settings: Settings


@dataclass(frozen=True)
class Members:
    """Who is in a group: what a Gloo group is made from.

    PyTorch's own options also hold the process group. A backend that kept them would keep the group, which keeps the
    backend: Gloo's threads would then outlive `destroy_process_group()` and meet the interpreter's end, which aborts
    the process.

    Attributes:
        rank: this process.
        size: number of ranks.
        timeout: that of collectives, and of ranks that come late.
        global_ranks: those in the default group; none where it is that group itself.
        group: its name.
    """

    rank: int
    size: int
    timeout: timedelta
    global_ranks: list[int]
    group: str

    @classmethod
    def of(cls, options: Any) -> Members:
        """Those of torch's `_DistributedBackendOptions`."""
        return cls(
            options.group_rank, options.group_size, options.timeout, options.global_ranks_in_group, options.group_id
        )

    @property
    def title(self) -> str:
        """What a part of the ranks is called in the log; empty for all of them."""
        ranks = self.global_ranks
        listed = names(ranks) if len(ranks) <= MOST_NAMED else f"{len(ranks)} ranks from {ranks[0]} to {ranks[-1]}"
        return f"group '{self.group}' ({listed})" if ranks else ""

    def without(self, excluded: Sequence[int]) -> Members:
        """Those who are left, this one among them. Of the default group they become the default group."""
        left = self.only([rank for rank in range(self.size) if rank not in excluded])
        return left if self.global_ranks else replace(left, global_ranks=[])

    def only(self, ranks: Sequence[int]) -> Members:
        """Some of them in this order, this one among them."""
        global_ranks = [self.global_ranks[rank] if self.global_ranks else rank for rank in ranks]
        return replace(self, rank=ranks.index(self.rank), size=len(ranks), global_ranks=global_ranks)


@dataclass(frozen=True)
class Formation:
    """A group that is to be.

    Attributes:
        tools: what it is made with.
        members: who is in it.
        store: where they meet, which no other group uses.
        claims: where groups that exist at once claim jobs.
    """

    tools: Tools
    members: Members
    store: Store
    claims: Store

    def form(self, *, failure: WiresumError | None = None, seating: Seating | None = None) -> WiresumBackend:
        """Meets the other members and makes the backend of the group, in the network where all agree.

        Args:
            failure: what went wrong on this rank so far.
            seating: the plan, and this rank's worker of it, where the settings do not say so.

        Raises:
            WiresumError: the same on every member.
        """
        members = self.members
        claim = Claim(self.claims, members.group)
        meeting = Meeting(
            self.store, members.rank, members.size, self.tools.settings, members.timeout,
            global_ranks=members.global_ranks or None, seating=seating,
        )  # fmt: skip
        decision, engine = meeting.agree(claim, failure, is_default_group=not members.global_ranks)
        if engine is None:
            return self._unconnected(decision.why_not, partial(self._without, seating))
        assert meeting.plan is not None  # without one there is no engine
        connection = Connection(members.group, meeting.plan.digest(), engine, claim, members.title)
        try:
            own = Seating(meeting.plan, meeting.seats[members.rank])
            return self._connected(connection, meeting, partial(self._without, own))
        except BaseException:
            connection.close()
            raise

    def _without(self, seating: Seating | None, excluded: Sequence[int]) -> WiresumBackend:
        """The group of all but these ranks, each on its seat of before."""
        store = PrefixStore(f"without/{','.join(map(str, sorted(excluded)))}", self.store)
        members = self.members.without(excluded)
        return replace(self, members=members, store=store, claims=store).form(seating=seating)

    def _split(self, store: Store, ranks: Sequence[int], timeout: timedelta, group: str) -> WiresumBackend:
        """A part of the group, which is one of the plan's groups or not, as one of `new_group()` is.

        PyTorch may hand in this group's own connection to the store. A wait on it would block the group, so the part
        gets another one.
        """
        members = replace(self.members.only(ranks), timeout=timeout, group=group)
        return replace(self, members=members, store=store_of_this_life(store.clone(), members)).form()

    def _unconnected(self, why_not: str, remake: Callable[[Sequence[int]], WiresumBackend]) -> WiresumBackend:
        """A group without the network is worth a warning, unless another one has it."""
        level = logging.INFO if Connection.by_job else logging.WARNING
        if self.members.rank == 0:
            who = self.members.title or f"group '{self.members.group}'"
            logger.log(level, "%s uses Gloo for everything: %s", who, why_not)
        backend: WiresumBackend = self.tools.native.unconnected(
            inner=self._gloo("gloo"),
            timeout=self.members.timeout,
            why=why_not,
            open_gloo=self._gloo,
            remake=remake,
            split=self._split,
        )
        return backend

    def _connected(
        self, connection: Connection, meeting: Meeting, remake: Callable[[Sequence[int]], WiresumBackend]
    ) -> WiresumBackend:
        assert meeting.plan is not None  # without one there is no connection
        settings, job = self.tools.settings, meeting.plan.job
        tells_losses = meeting.replays and settings.dead_after_s > 0
        backend: WiresumBackend = self.tools.native.connected(
            inner=self._gloo("gloo"),
            fallback=self._gloo("not_finite"),
            timeout=self.members.timeout,
            engine=connection.abi,
            min_elements=settings.min_elements,
            lane_bytes=job.value_bytes,
            narrow_lane_bytes=lane_bytes(job.lanes, element_bytes=2),
            # What a job may have to do again elsewhere is sums alone.
            copies=any(stream.is_exchange for stream in meeting.plan.streams) and not connection.may_leave,
            open_gloo=self._gloo,
            close=connection.close,
            afterwards=self._gloo("afterwards") if connection.may_leave or meeting.replays else None,
            replay_bytes=settings.replay_bytes if meeting.replays else None,
            remake=remake,
            split=self._split,
            loss_known_after=timedelta(seconds=settings.dead_after_s + LOSS_TOLD_S if tells_losses else 0),
        )
        connection.keep_books(backend.ledger)
        connection.follow(backend.leave)
        if meeting.replays:
            assert backend.crossing is not None  # it has a group for afterwards
            connection.replay_by(Replay(self.store, meeting, connection, backend.crossing))
        if settings.dead_after_s > 0 and self._is_unwatched(meeting.plan):
            tell = partial(_lose, backend.lose, connection, meeting)
            connection.watch_by(Watch(self._gloo("watch"), tell, self.tools.native.abort))
        return backend

    def _is_unwatched(self, plan: AggregationPlan) -> bool:
        """Whether no server watches ranks, and there are others to be watched."""
        by_nobody = plan.fabric is not None or self.tools.settings.turns is not None
        return by_nobody and self.members.size > 1

    def _gloo(self, prefix: str) -> ProcessGroupGloo:
        """A Gloo group as PyTorch itself would make it."""
        members = self.members
        store = PrefixStore(prefix, self.store)
        gloo = ProcessGroupGloo(store, members.rank, members.size, timeout=members.timeout)
        gloo.options.global_ranks_in_group = members.global_ranks
        gloo.options.group_name = cast("GroupName", members.group)
        return gloo


def _lose(lose: Callable[[str], None], connection: Connection, meeting: Meeting, rank: int) -> None:
    """Ends the job of a rank that is dead."""
    assert meeting.plan is not None  # there is a connection
    worker = meeting.plan.workers[meeting.seats[rank]]
    why = f"worker {worker.name} (rank {rank}) is lost: its process has ended; look at its output"
    lose(why)
    connection.engine.stop(why)


def store_of_this_life(store: Store, members: Members) -> Store:
    """A part of the group's store that no earlier group of the same name has used.

    A program may destroy its groups and create them again in the same store. Each rank counts the lives of the group of
    this name and these members, so the counts of all members are equal.
    """
    who = hashlib.sha256(repr(members.global_ranks).encode()).hexdigest()[:16]
    life = store.add(f"life/{who}/{members.rank}", 1)
    return PrefixStore(f"life/{who}/{life}", store)
