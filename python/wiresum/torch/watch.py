"""Notices a rank that has died where no server watches ranks: in networks of switches, and in turns.

Each rank waits for a word of the next one, in a group of Gloo of their own. If that rank takes leave, its word says so.
If it dies, its host closes its connections, and the wait ends at once. Who is dead is then the word that goes around
the ring, from each rank to the one before it. Nothing is sent meanwhile, and no rank is taken for dead because it is
slow.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from torch.distributed import ProcessGroupGloo, Work

import torch

logger = logging.getLogger("wiresum.torch")

FOR_EVER = timedelta(days=365)
WORD_S = 1.0
"""Seconds for a word to get to the rank before, and for the thread to end."""
LEAVE = -1
"""The word of a rank that ends; other words are the number of one that is dead."""


class Watch:
    """The thread of a rank that waits for the next one."""

    def __init__(self, gloo: ProcessGroupGloo, tell: Callable[[int], None], abort: Callable[[Work], None]) -> None:
        """Makes a watch that has not begun.

        Args:
            gloo: a group of all ranks that nobody else uses.
            tell: takes the rank that is dead, once, on the watch's thread.
            abort: ends the wait for a message.
        """
        self._gloo = cast("Any", gloo)  # whose messages PyTorch's types lack
        self._tell, self._abort = tell, abort
        rank, size = gloo.rank(), gloo.size()
        self._before, self._next = (rank - 1) % size, (rank + 1) % size
        self._has_spoken = self._is_closing = False
        self._speaking = threading.Lock()
        self._word = torch.zeros(1, dtype=torch.int64)
        self._message: Work = self._gloo.recv([self._word], self._next, 0)
        self._thread = threading.Thread(target=self._run, name="wiresum-watch", daemon=True)

    def start(self) -> None:
        """Begins to wait."""
        self._thread.start()

    def close(self) -> None:
        """Takes leave of the rank before, and waits no more. Harmless when repeated."""
        self._is_closing = True
        self._speak(LEAVE)
        self._abort(self._message)
        if self._thread is not threading.current_thread():
            self._thread.join(WORD_S)

    def _run(self) -> None:
        dead = self._hear()
        if dead != LEAVE and not self._is_closing:
            self._speak(dead)
            self._tell(dead)

    def _hear(self) -> int:
        """The word of the next rank, or that it is dead."""
        try:
            self._message.wait(FOR_EVER)
        except RuntimeError as error:
            logger.debug("the connection to rank %d has ended: %s", self._next, error)
            return self._next
        return int(self._word)

    def _speak(self, word: int) -> None:
        """Says one word to the rank before, the first that is to be said."""
        with self._speaking:
            if self._has_spoken:
                return
            self._has_spoken = True
        try:
            self._gloo.send([torch.tensor([word])], self._before, 0).wait(timedelta(seconds=WORD_S))
        except RuntimeError as error:
            logger.debug("rank %d does not hear: %s", self._before, error)
