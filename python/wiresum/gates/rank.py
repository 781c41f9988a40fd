"""A rank's side of gates: it does what the driver of its job's turns says.

The engine begins with a shut gate and joins its job in its first turn, as circuits and switches are its job's only
then. If the driver falls silent the gate opens by itself, and the rank sends over the network that is there. It looks
for the driver again, and one that is back finds it.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from wiresum.errors import JoinError
from wiresum.gates import EXPIRY_S, FORMAT

if TYPE_CHECKING:
    from wiresum._native import Engine

logger = logging.getLogger("wiresum.gates")

CONNECT_S = 10.0
"""Seconds for the driver to answer. It is there before the ranks are, unless it is just being started again."""
LOOK_S = 0.01
"""Seconds between two looks whether the rank has something to send, until it has."""
QUIET_S = 0.004
"""Seconds without news after which what was sent has arrived: results come back all the time before."""
DRAIN_S = 0.2
"""Seconds that this may take at most: a full window of the slowest links that are of use."""
BACK_S = 0.25
"""Seconds between two looks whether a driver that has gone is back."""
GOODBYE_S = 1.0
"""Seconds that a goodbye may take; a driver that has died is told nothing."""


def join_in_turns(driver: str, plan_json: str, rank: int, incarnation: int, timeout_s: float) -> EngineInTurns:
    """Joins the job of a plan in its first turn; returns at once.

    Args:
        driver: `HOST:PORT`, or the path of a socket.
        plan_json: where to sum.
        rank: this worker.
        incarnation: as for `wiresum._native.Engine`.
        timeout_s: how long joining may take from the first turn's begin.

    Raises:
        JoinError: nobody answers at that address, or there is no native module.
        PlanError: the plan is not one that the engine can honour.
    """
    try:
        from wiresum._native import Engine
    except ImportError as error:
        raise JoinError(f"wiresum._native cannot be loaded ({error}); install wiresum, or run `make build`") from error
    line = _connect_in_time(driver)
    try:
        engine = Engine(plan_json, rank, incarnation, timeout_s, EXPIRY_S)
    except BaseException:
        line.close()
        raise
    return EngineInTurns(engine, driver, line, int(json.loads(plan_json)["job"]["id"]), rank)


def _connect_in_time(driver: str) -> socket.socket:
    end_s = time.monotonic() + CONNECT_S
    while time.monotonic() < end_s:
        with suppress(JoinError):
            return connect(driver)
        time.sleep(BACK_S)
    return connect(driver)


def connect(driver: str) -> socket.socket:
    """A line to a driver.

    Raises:
        JoinError: nobody answers.
    """
    host, _, port = driver.rpartition(":")
    try:
        if port.isdigit() and host:
            line = socket.create_connection((host.strip("[]"), int(port)), CONNECT_S)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            line = socket.socket(socket.AF_UNIX)
            line.settimeout(CONNECT_S)
            line.connect(driver)
    except OSError as error:
        problem = f"no driver of turns answers at WIRESUM_TURNS {driver} ({error.strerror or error})"
        raise JoinError(f"{problem}; start it with `wiresum circuits run`") from error
    line.settimeout(None)
    return line


def plan_in_turn(driver: str, job: int, rank: int) -> str:
    """The plan of a job (JSON), which it has from its first turn on; until then this waits.

    Args:
        driver: `HOST:PORT`, or the path of a socket.
        job: its number.
        rank: this worker.

    Raises:
        JoinError: nobody answers at that address, the driver has no turn for the job, or it ends first.
    """
    with _connect_in_time(driver) as line, line.makefile("rb") as answers:
        asked = {"format": FORMAT, "job": job, "rank": rank, "asks": "plan"}
        try:
            line.sendall(json.dumps(asked).encode() + b"\n")
            answer = answers.readline()
        except OSError:
            answer = b""
    if not answer:
        raise JoinError(f"the driver of turns at {driver} has no turn for job {job}, or has ended; its output says why")
    return json.dumps(json.loads(answer)["plan"])


class EngineInTurns:
    """An engine, and the thread that does what its driver says.

    Attributes:
        engine: whose gate it is.
    """

    def __init__(self, engine: Engine, driver: str, line: socket.socket, job: int, rank: int) -> None:
        self.engine = engine
        self._driver, self._line = driver, line
        self._greeting = {"format": FORMAT, "job": job, "rank": rank}
        self._is_ready = self._is_closing = False
        self._say(self._greeting)
        self._obeying = threading.Thread(target=self._obey_drivers, name="wiresum-turns", daemon=True)
        self._obeying.start()
        threading.Thread(target=self._announce, name="wiresum-turns", daemon=True).start()

    def abi(self) -> object:
        """As `Engine.abi`."""
        return self.engine.abi()

    def await_children(self, k: int) -> None:
        """As `Engine.await_children`."""
        self.engine.await_children(k)

    def statistics(self) -> Mapping[str, Any]:
        """As `Engine.statistics`."""
        counts: Mapping[str, Any] = self.engine.statistics()
        return counts

    def close(self) -> None:
        """Says goodbye first, as the driver gives the job's turn to another one."""
        if not self._is_closing:
            self._is_closing = True
            # Between two drivers there is no line.
            with suppress(OSError):
                self._line.settimeout(GOODBYE_S)
                self._say({"bye": True})
                # An order that crosses the goodbye is still read: refused, it would take the goodbye with it.
                self._line.shutdown(socket.SHUT_WR)
            self._obeying.join(GOODBYE_S)
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say(self, words: Mapping[str, Any]) -> None:
        try:
            self._line.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            logger.debug("the driver of turns is gone")

    def _announce(self) -> None:
        """Tells the driver once there is something to send, as what comes before takes nobody's turn."""
        while not self._is_closing:
            if self.statistics()["busy_seconds"] > 0:
                self._is_ready = True
                return self._say({"ready": True})
            time.sleep(LOOK_S)
        return None

    def _obey_drivers(self) -> None:
        """Does what the driver says, and what one says that takes its place."""
        while not self._is_closing:
            self._obey()
            if not self._is_closing:
                logger.warning("the driver of turns is gone: a gate that is shut opens by itself")
                self._find_again()

    def _obey(self) -> None:
        try:
            with self._line.makefile("rb") as orders:
                for order in orders:
                    self._carry_out(json.loads(order))
        except (OSError, ValueError, LookupError) as trouble:
            if not self._is_closing:
                logger.warning("the driver of turns has broken off (%s)", trouble)

    def _find_again(self) -> None:
        while not self._is_closing:
            time.sleep(BACK_S)
            with suppress(JoinError):
                self._line.close()
                self._line = connect(self._driver)
                self._say(self._greeting)
                if self._is_ready:
                    self._say({"ready": True})
                logger.warning("the driver of turns is back")
                return

    def _carry_out(self, order: Mapping[str, Any]) -> None:
        if order.get("why"):
            logger.warning("the driver of turns says: %s", order["why"])
        match order["do"]:
            case "open":
                self.engine.open(None if order["rate_bps"] is None else int(order["rate_bps"]))
            case "shut":
                self.engine.shut(float(order["for_s"]))
                self._drain()
        self._say({"done": order["number"], "results": self.statistics()["results"]})

    def _drain(self) -> None:
        """Returns when all that was sent has its result, or nothing has come for a while: no queue has any of it."""
        end_s, before = time.monotonic() + DRAIN_S, -1
        while time.monotonic() < end_s:
            counts = self.statistics()
            if counts["datagrams_received"] == before or counts["contributions"] == counts["results"]:
                return
            before = counts["datagrams_received"]
            time.sleep(QUIET_S)
