"""What a device that speaks gNMI tells by itself, while a subscription lasts; and how calls of gRPC fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from wiresum.circuits.gnmi import SUBSCRIBE, grpc, parsed
from wiresum.errors import CircuitError, CircuitSessionError

MOST_SHOWN = 200
"""Characters of a device's reason that an error shows."""
ENDED = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "DATA_LOSS", "RESOURCE_EXHAUSTED"})
"""Codes of calls whose session has ended; with all others a device has answered, and refuses."""


def as_error(name: str, method: str, failed: Any, hint: str) -> CircuitError:
    """What a call of gRPC that has failed is for whoever asked: the end of a session, or a refusal."""
    code, details = failed.code().name, " ".join((failed.details() or "").split())[:MOST_SHOWN]
    if code in ENDED:
        return CircuitSessionError(f"{name}: {code} {details}; {hint}")
    return CircuitError(f"{name} refuses {method}: {code} {details}")


class GnmiChanges:
    """A subscription. A thread hears what the device tells; what it says is not kept, as whoever waits reads then.

    Args:
        name: of the device.
        call: begins the call, given the messages that go to the device.
        request: the first of them. The stream stays open afterwards, as its end is that of the subscription.
    """

    def __init__(self, name: str, call: Callable[[Iterator[bytes]], Any], request: Any) -> None:
        self._name = name
        self._asks: SimpleQueue[bytes | None] = SimpleQueue()
        self._asks.put(request.SerializeToString())
        self._has_all, self._news = threading.Event(), threading.Event()
        self._end: CircuitError | None = None
        self._call = call(iter(self._asks.get, None))
        threading.Thread(target=self._listen, name="gnmi changes", daemon=True).start()

    def await_all(self, timeout_s: float) -> None:
        """Returns when the device has told what is there at first; changes count from then on.

        Raises:
            CircuitSessionError: it has not in this time, or the session has ended.
            CircuitError: it refuses.
        """
        if not self._has_all.wait(timeout_s):
            raise CircuitSessionError(f"{self._name}: no sync_response of a subscription in {timeout_s:g} s")
        if self._end is not None:
            raise self._end

    def wait(self, timeout_s: float) -> None:
        """Returns when the device has told of a change since the last call, or after a time; errors as `await_all`."""
        self._news.wait(timeout_s)
        self._news.clear()
        if self._end is not None:
            raise self._end

    def close(self) -> None:
        """Ends the subscription."""
        self._asks.put(None)
        self._call.cancel()

    def _listen(self) -> None:
        try:
            for data in self._call:
                self._hear(parsed(SUBSCRIBE[1], data))
            self._end = CircuitSessionError(f"{self._name} has ended the subscription")
        except grpc.RpcError as failed:
            self._end = as_error(self._name, "Subscribe", failed, "the subscription has ended")
        except ValueError as strange:
            self._end = CircuitSessionError(f"{self._name} tells what makes no sense: {strange}")
        self._call.cancel()
        self._has_all.set()
        self._news.set()

    def _hear(self, told: Any) -> None:
        if told.sync_response:
            self._has_all.set()
        elif self._has_all.is_set():
            self._news.set()
