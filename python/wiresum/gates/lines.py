"""Lines that only a rank and its driver can write: each has a tag by a key of the job's secret.

`spec/circuits.md` has the format. Both sides draw a number for each line, so that what was recorded on one is of no use
on another, and each tag has the direction and the count of lines before it, so that none can be said again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from wiresum.errors import JoinError
from wiresum.gates import FORMAT

MAX_LINE_BYTES = 4096
"""Longest line of a rank, tag included."""
MAX_PLAN_BYTES = 64 << 20
"""Longest line of a driver, which may have a plan in it."""
NONCE_BYTES = 16
TAG_BYTES = 16
"""Tags are the first half of HMAC-SHA-256."""
BY_RANK, BY_DRIVER = b"rank", b"driver"


class ForeignLineError(ValueError):
    """A line that whoever should have written it has not, or has written before."""


class Line:
    """A line between a rank and its driver, once both have drawn their numbers.

    Args:
        line: the connection.
        key: of this line.
        own: the direction of what this side says.
        words: what was read ahead of the connection, if anything.
    """

    def __init__(self, line: socket.socket, key: bytes, own: bytes, words: BinaryIO | None = None) -> None:
        self.line, self._key = line, key
        self._own, self._other = own, BY_DRIVER if own == BY_RANK else BY_RANK
        self._longest = MAX_PLAN_BYTES if own == BY_RANK else MAX_LINE_BYTES
        self._words = words or line.makefile("rb")
        self._said = self._heard = 0
        self._saying = threading.Lock()

    def say(self, words: Mapping[str, Any]) -> None:
        """Says an object.

        Raises:
            OSError: the other side has gone, or does not read.
        """
        text = json.dumps(words).encode()
        with self._saying:
            tag = self._tag(self._own, self._said, text)
            self._said += 1
            self.line.sendall(tag + b" " + text + b"\n")

    def hear(self) -> dict[str, Any] | None:
        """The next object; None where the other side has ended.

        Raises:
            ForeignLineError: the other side has not said it, or not now.
            ValueError: it is no object.
            OSError: the line has broken.
        """
        said = self._words.readline(self._longest)
        return self.take(said) if said else None

    def take(self, said: bytes) -> dict[str, Any]:
        """As `hear`, of a line that was read."""
        tag, _, text = said.removesuffix(b"\n").partition(b" ")
        if not hmac.compare_digest(tag, self._tag(self._other, self._heard, text)):
            raise ForeignLineError("a line has the tag of another key, another line or another place in it")
        self._heard += 1
        return _object(text)

    def close(self) -> None:
        """Ends it, even while another thread hears."""
        shut_down(self.line)

    def _tag(self, by: bytes, count: int, text: bytes) -> bytes:
        whole = by + b"\0" + count.to_bytes(8, "big") + text
        return hmac.digest(self._key, whole, hashlib.sha256)[:TAG_BYTES].hex().encode()


def accepted(line: socket.socket, key_of: Callable[[int, int], bytes | None]) -> tuple[Line, dict[str, Any]]:
    """A driver's side of a new connection, and the rank's greeting.

    Args:
        line: the connection.
        key_of: the gate key of a job's rank; None where the driver has none.

    Raises:
        ForeignLineError: who greets is not that rank.
        ValueError: it does not speak this protocol.
        OSError: it has gone, or says nothing.
    """
    number = secrets.token_hex(NONCE_BYTES)
    line.sendall(json.dumps({"format": FORMAT, "number": number}).encode() + b"\n")
    words = line.makefile("rb")
    said = words.readline(MAX_LINE_BYTES)
    greeting = _object(said.partition(b" ")[2])
    if greeting["format"] != FORMAT:
        raise ValueError("another protocol")
    job, rank = int(greeting["job"]), int(greeting["rank"])
    key = key_of(job, rank)
    if key is None:
        raise ForeignLineError("nobody has given this driver a secret of that job")
    made = Line(line, _line_key(key, number, str(greeting["number"])), BY_DRIVER, words)
    return made, made.take(said)


def greeted(line: socket.socket, key: bytes, job: int, rank: int, **more: Any) -> Line:
    """A rank's side of a new connection: it has greeted the driver.

    Args:
        line: the connection.
        key: the rank's gate key.
        job: its job's number.
        rank: its own.
        more: what its greeting says besides.

    Raises:
        JoinError: who answers is no driver of this format.
        OSError: the driver has gone, or says nothing.
    """
    words = line.makefile("rb")
    try:
        hello = _object(words.readline(MAX_LINE_BYTES))
        theirs = str(hello["number"]) if hello["format"] == FORMAT else ""
    except (ValueError, LookupError):
        theirs = ""
    if not theirs:
        raise JoinError(f"who answers at WIRESUM_TURNS does not speak {FORMAT}; run the same release on both sides")
    own = secrets.token_hex(NONCE_BYTES)
    made = Line(line, _line_key(key, theirs, own), BY_RANK, words)
    made.say({"format": FORMAT, "job": job, "rank": rank, "number": own, **more})
    return made


def shut_down(line: socket.socket) -> None:
    """Ends a connection even while another thread reads it."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


def _line_key(key: bytes, driver: str, rank: str) -> bytes:
    return hmac.digest(key, f"{FORMAT} {driver} {rank}".encode(), hashlib.sha256)


def _object(text: bytes) -> dict[str, Any]:
    words = json.loads(text)
    if not isinstance(words, dict):
        raise ValueError("not an object")
    return words
