"""A rank's side of gates: it does what the driver of its job's turns says.

The engine begins with a shut gate and joins its job in its first turn, as circuits and switches are its job's only
then. If the driver falls silent the gate opens by itself, and the rank sends over the network that is there. It looks
for the driver again, and one that is back finds it.
"""

from __future__ import annotations

import json
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Self

from wiresum import native
from wiresum.errors import JoinError, NoTurnError
from wiresum.gates import EXPIRY_S
from wiresum.gates.lines import ForeignLineError, Line, greeted, shut_down

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
MOST_LINES = 100
"""Lines to drivers that may end without an answer: one for each restart, and far fewer than whoever hangs up makes."""
AGREE_S = 10.0
"""Seconds that ranks have to agree that they sum without the network: they lose their driver at the same time."""
GOODBYE_S = 1.0
"""Seconds that a goodbye may take; a driver that has died is told nothing."""


Agree = Callable[[bool], bool]
"""Takes whether this rank's gate has ever been open; returns whether no rank's has, so that all of them may sum without
the network. False where not all ranks have said so in time."""


def join_in_turns(
    driver: str, plan_json: str, rank: int, incarnation: int, timeout_s: float, *, agree: Agree | None = None
) -> EngineInTurns:
    """Joins the job of a plan in its first turn; returns at once.

    Args:
        driver: `HOST:PORT`, or the path of a socket.
        plan_json: where to sum.
        rank: this worker.
        incarnation: as for `wiresum._native.Engine`.
        timeout_s: how long joining may take from the first turn's begin.
        agree: is asked once the driver has been gone for as long as a gate stays shut; None if this rank cannot sum
            without the network.

    Raises:
        JoinError: nobody answers at that address, or there is no native module.
        PlanError: the plan is not one that the engine can honour.
    """
    try:
        from wiresum._native import Engine
    except ImportError as error:
        raise JoinError(native.why_missing(error)) from error
    job = json.loads(plan_json)["job"]
    caller = Caller(driver, job["id"], rank, job["secret"])
    line = caller.call_in_time(elsewhere=agree is not None)
    try:
        engine = Engine(plan_json, rank, incarnation, timeout_s, EXPIRY_S)
    except BaseException:
        line.close()
        raise
    return EngineInTurns(engine, caller, line, agree=agree)


class Caller:
    """A rank that calls its driver.

    Args:
        driver: `HOST:PORT`, or the path of a socket.
        job: its number.
        rank: this worker.
        secret: of the job, 64 hexadecimal digits.

    Raises:
        JoinError: the secret is none.
    """

    def __init__(self, driver: str, job: int, rank: int, secret: str | None) -> None:
        from wiresum._native import gate_key

        key = gate_key(secret or "", rank)
        if key is None:
            problem = f"job {job} has no secret of 64 hexadecimal digits, by which its driver of turns knows it"
            raise JoinError(f"{problem}; set WIRESUM_SECRET_FILE, or put PLAN.secret beside the plan")
        self.driver, self.job, self.rank, self._key = driver, job, rank, key

    def call_in_time(self, patience_s: float = CONNECT_S, **more: Any) -> Line:
        """As `call`, of a driver that may be about to come."""
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            with suppress(JoinError):
                return self.call(**more)
            time.sleep(BACK_S)
        return self.call(**more)

    def call(self, **more: Any) -> Line:
        """A line to the driver, which has been greeted.

        Args:
            more: what the greeting says besides.

        Raises:
            JoinError: nobody answers, or no driver does.
        """
        line = connect(self.driver)
        try:
            line.settimeout(CONNECT_S)
            made = greeted(line, self._key, self.job, self.rank, **more)
        except (OSError, JoinError) as error:
            shut_down(line)
            raise JoinError(f"the driver of turns at WIRESUM_TURNS {self.driver} has broken off ({error})") from error
        line.settimeout(None)
        return made


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
    return line


def plan_in_turn(driver: str, job: int, rank: int, secret: str) -> str:
    """The plan of a job (JSON), which it has from its first turn on; until then this waits.

    Args:
        driver: `HOST:PORT`, or the path of a socket.
        job: its number.
        rank: this worker.
        secret: of the job, 64 hexadecimal digits, which the driver has too and does not send.

    Raises:
        NoTurnError: the driver has no turn for the job, and says why.
        JoinError: nobody answers at that address, or the driver ends first.
    """
    words = _ask_for_plan(Caller(driver, job, rank, secret))
    if not words:
        raise NoTurnError(f"the driver of turns at {driver} has ended before job {job} had a turn; its output says why")
    if words["do"] == "refuse":
        raise NoTurnError(f"the driver of turns at {driver} has no turn for job {job}: {words['why']}")
    plan: dict[str, Any] = words["plan"]
    return json.dumps({**plan, "job": {**plan["job"], "secret": secret}})


def _ask_for_plan(caller: Caller) -> dict[str, Any] | None:
    """The answer of a driver, or of one that takes its place in time; None where none does, or all break off.

    Raises:
        JoinError: nobody answers at that address.
    """
    line = caller.call_in_time(asks="plan")
    for _ in range(MOST_LINES):
        with closing(line), suppress(OSError, ValueError):
            answer = line.hear()
            if answer:
                return answer
        time.sleep(BACK_S)
        try:
            line = caller.call_in_time(EXPIRY_S, asks="plan")
        except JoinError:
            break
    return None


class EngineInTurns:
    """An engine, and the thread that does what its driver says.

    Attributes:
        engine: whose gate it is.
        refused: lines that were not the driver's, or had been said before.
    """

    def __init__(self, engine: Engine, caller: Caller, line: Line, *, agree: Agree | None = None) -> None:
        self.engine, self.refused = engine, 0
        self._caller, self._line, self._agree = caller, line, agree
        self._is_ready = self._is_closing = self._has_opened = self._has_stopped = False
        self._leave: Callable[[], None] | None = None
        self._obeying = threading.Thread(target=self._obey_drivers, name="wiresum-turns", daemon=True)
        self._obeying.start()
        threading.Thread(target=self._announce, name="wiresum-turns", daemon=True).start()

    @property
    def goes_elsewhere(self) -> bool:
        """Whether this rank can sum without the network where its driver says so."""
        return self._agree is not None

    def follow(self, leave: Callable[[], None] | None) -> None:
        """Names what is called when the engine has been told that the network serves the job no more.

        A rank that has nothing under way then may have results that others need.
        """
        self._leave = leave

    @property
    def transport(self) -> str:
        """As `Engine.transport`."""
        return str(self.engine.transport)

    def abi(self) -> object:
        """As `Engine.abi`."""
        return self.engine.abi()

    def await_children(self, k: int) -> None:
        """As `Engine.await_children`."""
        self.engine.await_children(k)

    def gone(self) -> str | None:
        """As `Engine.gone`: the driver says when the network serves the job no more."""
        return None

    def lost(self) -> tuple[int, str] | None:
        """As `Engine.lost`: behind turns nobody watches ranks."""
        return None

    def stop(self, why: str, elsewhere: bool = False) -> None:
        """As `Engine.stop`."""
        self.engine.stop(why, elsewhere)

    def statistics(self) -> Mapping[str, Any]:
        """As `Engine.statistics`."""
        counts: Mapping[str, Any] = self.engine.statistics()
        return counts

    def close(self) -> None:
        """Says goodbye first, as the driver gives the job's turn to another one."""
        if not self._is_closing:
            self._is_closing = True
            self._say_goodbye()
            self._obeying.join(GOODBYE_S)
        self.engine.close()

    def _say_goodbye(self) -> None:
        # Between two drivers there is no line.
        with suppress(OSError):
            self._line.line.settimeout(GOODBYE_S)
            self._say({"bye": True})
            # An order that crosses the goodbye is still read: refused, it would take the goodbye with it.
            self._line.line.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say(self, words: Mapping[str, Any]) -> None:
        try:
            self._line.say(words)
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
        while not self._is_closing and not self._has_stopped:
            self._obey()
            if not self._is_closing and not self._has_stopped:
                logger.warning("the driver of turns is gone: a gate that is shut opens by itself")
                self._find_again()

    def _obey(self) -> None:
        try:
            while order := self._line.hear():
                self._carry_out(order)
        except ForeignLineError as trouble:
            self.refused += 1
            logger.warning("who speaks at WIRESUM_TURNS is not the driver of this job's turns (%s)", trouble)
        except (OSError, ValueError, LookupError) as trouble:
            if not self._is_closing:
                logger.warning("the driver of turns has broken off (%s)", trouble)

    def _find_again(self) -> None:
        if self._agree is not None and not self._has_opened:
            # The gate does not open by itself before ranks have agreed.
            self.engine.shut(EXPIRY_S + AGREE_S)
        expires_s = time.monotonic() + EXPIRY_S
        while not self._is_closing and not self._has_stopped:
            time.sleep(BACK_S)
            if self._agree is not None and time.monotonic() > expires_s:
                self._agree_to_leave(self._agree)
                expires_s = math.inf
            with suppress(JoinError):
                self._line.close()
                self._line = self._caller.call(elsewhere=self._agree is not None)
                if self._is_ready:
                    self._say({"ready": True})
                if self._is_closing:
                    # The goodbye went to the driver before this one.
                    self._say_goodbye()
                    return self._obey()
                logger.warning("the driver of turns is back")
                return None
        return None

    def _agree_to_leave(self, agree: Agree) -> None:
        """Without a driver, a job that has not begun sums without the network; one that has begun goes on."""
        if agree(self._has_opened):
            self._stop(f"the driver of turns has been gone for {EXPIRY_S:g} s", elsewhere=True)
        elif not self._has_opened:
            self._has_opened = True
            self.engine.open()

    def _stop(self, why: str, *, elsewhere: bool) -> None:
        self._has_stopped = True
        self.engine.stop(why, elsewhere)
        leave = self._leave
        if elsewhere and leave is not None:
            leave()
        logger.warning("%s%s", why, "; this job sums without the network from now on" if elsewhere else "")

    def _carry_out(self, order: Mapping[str, Any]) -> None:
        match order["do"]:
            case "open":
                self._has_opened = True
                self.engine.open(None if order["rate_bps"] is None else int(order["rate_bps"]))
            case "shut":
                self.engine.shut(float(order["for_s"]))
                self._drain()
            case "stop" if not self._has_stopped:
                self._stop(str(order["why"]), elsewhere=bool(order["elsewhere"]))
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
