"""Tells the ranks of a group that one of them has left, and ends what waits for that rank.

The ranks form a ring in a Gloo group that nothing else uses. Each rank waits for a word of the next one. A rank that
leaves says how far it has come, and the word goes around the ring, from each rank to the one before it. If a process
ends without a word, its host closes its connections, and the wait of the rank before ends at once. Ranks that have left
drop out of the ring. Nothing is sent meanwhile, and a rank that is slow has not left.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

from torch.distributed import Work

import torch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend

    from wiresum.torch._c10d import Progress, Stalled

logger = logging.getLogger("wiresum.torch")

FOR_EVER = timedelta(days=365)
WORD_S = 1.0
"""Seconds for a word to get to the rank before, and for a thread to end."""
LOST = -1
"""In place of a count: the rank has left without a word."""
Word = tuple[int, int, int]
"""A rank that has left, the first collective that it has not ended, and the number of those it has submitted."""


class Watch:
    """A rank's place in the ring."""

    in_use: ClassVar[set[Watch]] = set()
    """Watches whose ranks have not left."""

    def __init__(
        self, gloo: Backend, progress: Progress, abort: Callable[[Work], None], *, misses_the_silent: bool
    ) -> None:
        """Makes a watch that has not begun.

        Args:
            gloo: a group of all ranks that nothing else uses.
            progress: the collectives of the watched group.
            abort: ends the wait for a message.
            misses_the_silent: whether a rank whose connection ends without a word ends collectives.
        """
        self._gloo: Any = cast("Any", gloo)  # whose messages PyTorch's types lack
        self._rank, self._size = gloo.rank(), gloo.size()
        self.progress, self._abort, self._misses_the_silent = progress, abort, misses_the_silent
        self._absent: dict[int, Word] = {}
        self._sent: list[object] = []  # what Gloo may still send
        self._process = os.getpid()
        self._has_left = self._is_closing = False
        self._lock = threading.Lock()
        self._word = torch.zeros(3, dtype=torch.int64)
        self._message: Work | None = None
        self._threads: list[threading.Thread] = []
        self._tell: Callable[[Stalled], bool] = lambda _stalled: False

    def start(self, tell: Callable[[Stalled], bool]) -> None:
        """Begins to wait.

        Args:
            tell: takes what waits for ranks that have left, on a thread of the watch, and returns whether the group
                goes on without these.
        """
        self._tell = tell
        Watch.in_use.add(self)
        self._begin("wiresum-watch", self._hear)

    def leave(self) -> None:
        """Tells the others how far this rank has come. Harmless when repeated, and in a forked child."""
        if self._is_forked():
            return
        with self._lock:
            if self._has_left:
                return
            self._has_left = True
        Watch.in_use.discard(self)
        count = self.progress.count()
        end_s = time.monotonic() + WORD_S
        for rank in self._others(-1):  # those that have left, too, refuse it at once
            if self._is_heard((self._rank, count.ended, count.begun), rank) or time.monotonic() >= end_s:
                return

    def close(self) -> None:
        """Leaves, and waits no more. Harmless when repeated, and in a forked child."""
        if self._is_forked():
            return  # the threads of Gloo are the parent's, and would be waited for
        self.leave()
        self.progress.close()
        with self._lock:
            self._is_closing = True
            message, self._message = self._message, None
        if message is not None:
            self._abort(message)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(WORD_S)
        self._gloo, self._sent = None, []  # from now on the connections of this rank are closed
        self._tell = lambda _stalled: False  # what it holds may hold this

    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def _begin(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _others(self, step: int) -> list[int]:
        """The ranks that have not left, the nearest one in this direction first."""
        ranks = [(self._rank + step * distance) % self._size for distance in range(1, self._size)]
        return [rank for rank in ranks if rank not in self._absent]

    def _hear(self) -> None:
        while others := self._others(1):
            try:
                message = self._expect_word(others[0])
                if message is None:
                    return
                message.wait(FOR_EVER)
                rank, ended, begun = self._word.tolist()
            except RuntimeError as error:
                logger.debug("the connection to rank %d has ended: %s", others[0], error)
                rank, ended, begun = others[0], 0, LOST
            if self._is_closing:
                return
            self._learn((rank, ended, begun))

    def _expect_word(self, rank: int) -> Work | None:
        with self._lock:
            if not self._is_closing:
                self._message = self._gloo.recv([self._word], rank, 0)
            return self._message

    def _learn(self, word: Word) -> None:
        rank, ended, begun = word
        if rank == self._rank or rank in self._absent:
            return
        is_first, listeners = not self._absent, self._others(-1)
        self._absent[rank] = word
        # A listener that is new may lack everything.
        news = list(self._absent.values()) if listeners[:1] == [rank] else [word]
        for listener in self._others(-1)[:1]:
            for one in news:
                self._say(one, listener)
        if begun == LOST:
            self.progress.note_lost(rank, self._misses_the_silent)
        else:
            self.progress.note_absence(rank, ended, begun)
        if is_first:
            self._begin("wiresum-absence", self._end_what_is_stalled)

    def _end_what_is_stalled(self) -> None:
        while (stalled := self.progress.await_stalled()) is not None:
            if not self._tell(stalled):
                return
            self.progress.forget_absences(stalled.ranks)

    def _say(self, word: Word, listener: int) -> Work | None:
        """Sends a word, which arrives once the other rank listens; None if that rank is gone."""
        gloo = self._gloo
        if gloo is None:
            return None
        try:
            tensor = torch.tensor(word)
            work: Work = gloo.send([tensor], listener, 0)
        except RuntimeError as error:
            logger.debug("rank %d does not hear: %s", listener, error)
            return None
        self._sent.append((tensor, work))
        return work

    def _is_heard(self, word: Word, listener: int) -> bool:
        work = self._say(word, listener)
        try:
            if work is not None:
                work.wait(timedelta(seconds=WORD_S))
                return True
        except RuntimeError as error:
            logger.debug("rank %d does not hear: %s", listener, error)
        return False


@atexit.register
def _leave_all() -> None:
    """A program may end without destroying its groups. This runs before slower handlers, as it is among the last."""
    for watch in list(Watch.in_use):
        watch.leave()
