"""The members of a job whose workers come and go: what a scheduler would tell them, by way of a store.

Workers announce themselves when they start and when a collective has failed; hosts say whose process has ended. Once
all who are alive have announced themselves, they are the members of the next epoch.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch._C._distributed_c10d import Store

LOOK_S = 0.02
"""Seconds between two looks into the store."""


@dataclass(frozen=True)
class Announcement:
    """A worker that would be a member of the next epoch.

    Attributes:
        seat: its worker of the plan.
        life: how often it was started before.
        handle: what others find it by.
        steps: that it has done; who has done most comes first.
    """

    seat: int
    life: int
    handle: str
    steps: int


@dataclass(frozen=True)
class Epoch:
    """A number, and its members in order of their ranks."""

    number: int
    handles: list[str]


@dataclass
class Membership:
    """Decides who is a member. Sans-IO."""

    members: set[int] = field(default_factory=set)
    waiting: dict[int, Announcement] = field(default_factory=dict)
    epoch: int = 0

    def announce(self, one: Announcement) -> None:
        """A worker would be a member."""
        self.waiting[one.seat] = one

    def end(self, seat: int, life: int) -> None:
        """A worker's process has ended."""
        if seat not in self.waiting or self.waiting[seat].life <= life:
            self.members.discard(seat)
            self.waiting.pop(seat, None)

    @property
    def is_changing(self) -> bool:
        """Whether the members shall announce themselves anew."""
        return bool(self.waiting)

    def decide(self) -> Epoch | None:
        """The next epoch, once all who are alive have announced themselves."""
        if not self.waiting or not self.members <= self.waiting.keys():
            return None
        ordered = sorted(self.waiting.values(), key=lambda one: (-one.steps, one.seat))
        self.members, self.waiting, self.epoch = set(self.waiting), {}, self.epoch + 1
        return Epoch(self.epoch, [one.handle for one in ordered])


@contextmanager
def serving(store: Store, expected: int) -> Iterator[None]:
    """Decides in a thread of its own, for a `with` block. The first epoch has all workers.

    Args:
        store: where workers and hosts write.
        expected: number of workers.
    """
    over = threading.Event()
    thread = threading.Thread(target=_serve, args=(store, expected, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _serve(store: Store, expected: int, over: threading.Event) -> None:
    membership = Membership(members=set(range(expected)))
    seen = {"announced": 0, "ended": 0}
    while not over.wait(LOOK_S):
        for what, before in list(seen.items()):
            seen[what] = store.add(what, 0)
            for index in range(before, seen[what]):
                told = json.loads(store.get(f"{what}/{index}"))
                membership.announce(Announcement(**told)) if what == "announced" else membership.end(**told)
        store.set("changing", str(membership.epoch + 1 if membership.is_changing else 0))
        if (epoch := membership.decide()) is not None:
            store.set("epoch", json.dumps({"number": epoch.number, "handles": epoch.handles}))


def tell(store: Store, what: str, **fields: object) -> None:
    """Writes an announcement (`announced`) or an end (`ended`)."""
    store.set(f"{what}/{store.add(what, 1) - 1}", json.dumps(fields))


def await_epoch(store: Store, after: int, handle: str) -> Epoch:
    """The next epoch that has this worker as a member."""
    while True:
        if store.check(["epoch"]):
            epoch = Epoch(**json.loads(store.get("epoch")))
            if epoch.number > after and handle in epoch.handles:
                return epoch
        time.sleep(LOOK_S)


def is_changing(store: Store, present: int) -> bool:
    """Whether members of this epoch shall announce themselves."""
    return store.check(["changing"]) and int(store.get("changing")) > present
