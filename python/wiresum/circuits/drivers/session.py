"""A byte stream to a device: connects when it is needed, and every wait on it ends."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from json import JSONDecodeError
from typing import TypeVar

from wiresum.circuits.drivers.address import Address
from wiresum.errors import CircuitError, CircuitSessionError

TIMEOUT_S = 5.0
"""For an answer, all of it. Devices switch in tens of milliseconds, and ssh needs a second to begin."""
MAX_ANSWER_BYTES = 1 << 22
"""A device of a thousand ports lists its state in a tenth of it; more is a stream that never ends."""
CHUNK_BYTES = 1 << 16

T = TypeVar("T")


def patience(address: Address) -> float:
    """Seconds for an answer: the address may say how many (`?timeout=2`)."""
    return address.number("timeout", TIMEOUT_S)


def dial(address: Address) -> socket.socket:
    """A TCP connection."""
    return socket.create_connection((address.host, address.port or 0), TIMEOUT_S)


def understood(name: str, read: Callable[[], T]) -> T:
    """What a function makes of an answer of the device with this name.

    Raises:
        CircuitSessionError: it makes nothing of it.
    """
    try:
        return read()
    except (UnicodeDecodeError, JSONDecodeError) as broken:
        raise CircuitSessionError(f"{name}: a broken answer ({broken}); ask again") from None
    except (ValueError, LookupError, TypeError, AttributeError) as strange:
        why = f"no field {strange}" if isinstance(strange, KeyError) else f"{strange}"
        remedy = f"check that the device at the address speaks {name.partition('://')[0]}"
        raise CircuitSessionError(f"{name}: an answer of an unexpected form ({why}); {remedy}") from None


class Session:
    """One connection, begun when something is sent, and again after it has ended.

    Args:
        address: of the device; it may say how long to wait for each answer.
        connect: makes the connection.
        greet: says hello on a fresh connection.
    """

    def __init__(
        self,
        address: Address,
        connect: Callable[[Address], socket.socket] = dial,
        greet: Callable[[Session], None] | None = None,
    ) -> None:
        self._address, self._connect, self._greet = address, connect, greet
        self._name, self._timeout_s = address.name, patience(address)
        self._socket: socket.socket | None = None
        self._rest = b""

    def send(self, data: bytes) -> None:
        """Sends all of it.

        Raises:
            CircuitSessionError: the device cannot be reached, or does not take it.
        """
        try:
            if self._socket is None:
                self._rest = b""
                self._socket = self._connect(self._address)
                self._socket.settimeout(self._timeout_s)
                if self._greet:
                    self._greet(self)
            self._socket.sendall(data)
        except CircuitError:
            self.close()
            raise
        except OSError as broken:
            self.close()
            raise CircuitSessionError(f"{self._name}: {broken}; is it there, and reachable from here?") from None

    def until(self, end: bytes) -> bytes:
        """What comes up to and without the next `end`.

        Raises:
            CircuitSessionError: it does not come in time, is too long, or the session ends before.
        """
        deadline_s = time.monotonic() + self._timeout_s
        while end not in self._rest:
            self._rest += self._receive(deadline_s)
            if len(self._rest) > MAX_ANSWER_BYTES:
                raise self.fail(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        found, _, self._rest = self._rest.partition(end)
        return found

    def _receive(self, deadline_s: float) -> bytes:
        if self._socket is None:
            raise self.fail("the session has ended")
        try:
            self._socket.settimeout(max(1e-3, deadline_s - time.monotonic()))
            data = self._socket.recv(CHUNK_BYTES)
        except TimeoutError:
            raise self.fail(f"no answer within {self._timeout_s:g} s") from None
        except OSError as broken:
            raise self.fail(str(broken)) from None
        if not data or time.monotonic() > deadline_s:
            raise self.fail(f"no answer within {self._timeout_s:g} s" if data else "the device has ended the session")
        return data

    def understood(self, read: Callable[[], T]) -> T:
        """What a function makes of an answer.

        Raises:
            CircuitSessionError: it makes nothing of it, so the session is not where it should be.
        """
        try:
            return understood(self._name, read)
        except CircuitSessionError:
            self.close()
            raise

    def fail(self, why: str) -> CircuitSessionError:
        """Ends the session, whose further bytes could belong to any question; returns what to raise."""
        self.close()
        return CircuitSessionError(f"{self._name}: {why}; ask again")

    def close(self) -> None:
        """Ends it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket, self._rest = None, b""
