"""Makes a device as it is wanted: the whole state in, the difference out, everything read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from wiresum.circuits.device import (
    Changes,
    Connection,
    Driver,
    Pair,
    PortState,
    Reading,
    State,
    Teller,
    both_ways,
    check_pairs,
    natural,
    shown,
)
from wiresum.errors import CircuitError, CircuitSessionError, CircuitStuckError

T = TypeVar("T")

ATTEMPTS = 3
"""Orders until what is read is what is wanted. A session that drops may have done its work; a device that applies half
of a batch does the rest when asked again; more than that is a device that does not obey."""
POLL_S = 0.002
"""Seconds between two questions whether there is light: a tenth of the darkness of a fast MEMS switch."""
MOST_SILENT_S = 0.25
"""Seconds until a device that tells of changes is asked all the same, as one of them may have been lost."""
PATIENCE_S = 5.0
"""Seconds after which a circuit without light has failed. No driver expects more than 0.2 s."""


@dataclass(frozen=True)
class Change:
    """What an order did.

    Attributes:
        removed: circuits, and halves of circuits, that are gone.
        added: circuits that were not there before.
        attempts: orders that it took; 0 where nothing was to change.
    """

    removed: frozenset[Connection]
    added: frozenset[Pair]
    attempts: int


def apply(
    driver: Driver, wanted: Collection[Pair], owned: Collection[str], expected: Collection[Pair] | None = None
) -> Change:
    """Brings the ports that are ours to the circuits that are wanted, and leaves all others alone.

    The device is asked first, so an order after a crash begins with what is lit. The same order twice changes nothing.

    Args:
        driver: of the device.
        wanted: every circuit between ports of ours.
        owned: ports of ours.
        expected: circuits that should be there now; anything else means that a stranger was at work.

    Raises:
        CircuitError: the wanted state cannot be, a port of a stranger is in the way, a stranger has changed ours, or
            the device does not obey (`CircuitStuckError`); the message names the ports.
        CircuitSessionError: the device does not answer, however often it is asked.
    """
    wanted, ours = frozenset(wanted), frozenset(owned)
    _check(driver, wanted, ours)
    before = _retried(driver.read)
    if expected is not None:
        _require_no_stranger(before, frozenset(expected), ours)
    goal, now = both_ways(wanted), _own(before, ours)
    first, attempts, trouble = now, 0, ""
    while now != goal and attempts < ATTEMPTS:
        attempts += 1
        trouble = _order(driver, now - goal, goal - now)
        now = _own(_retried(driver.read), ours)
    if now != goal:
        raise CircuitStuckError(f"the device does not do as ordered: {_differences(now, goal)}{trouble}")
    return Change(first - goal, wanted - before.pairs, attempts)


def watch(
    driver: Driver,
    ports: Collection[str],
    patience_s: float = PATIENCE_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[float, str, PortState]]:
    """Follows ports until each has light or has failed: yields seconds, port and state at every change.

    A device that tells of changes is read after each; others are asked again and again. A port without light after
    `patience_s` has failed, whatever the device says of it.

    Args:
        driver: of the device.
        ports: which are followed.
        patience_s: seconds until a port without light has failed.
        clock: seconds.
        sleep: between two questions.
        tell: hears why a device that could tell of changes is asked instead.
    """
    began_s = clock()
    seen: dict[str, PortState] = {}
    # Listens before it reads, so that no change falls between.
    with _News(driver, sleep, tell) as news:
        while True:
            states = _retried(driver.read).states
            elapsed_s = clock() - began_s
            for port in sorted(ports, key=natural):
                state = states.get(port, PortState(State.FAILED, "the device does not list it"))
                if elapsed_s > patience_s and state.state in {State.DARK, State.TUNING}:
                    state = PortState(State.FAILED, f"{state.state} after {patience_s:g} s")
                if seen.get(port) != state:
                    seen[port] = state
                    yield elapsed_s, port, state
            if all(state.state in {State.LIT, State.FAILED} for state in seen.values()):
                return
            news.wait(patience_s - elapsed_s)


class _News:
    """The time between two readings: until a device tells of a change, or a moment where it does not tell."""

    def __init__(self, driver: Driver, sleep: Callable[[float], None], tell: Callable[[str], None]) -> None:
        self._sleep, self._tell = sleep, tell
        self._changes: Changes | None = None
        try:
            self._changes = driver.changes() if isinstance(driver, Teller) else None
        except CircuitError as refused:
            self._ask_instead(refused)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._changes is not None:
            self._changes.close()

    def wait(self, left_s: float) -> None:
        """Returns when it is time to read, at the latest a moment after so many seconds."""
        if self._changes is None:
            self._sleep(POLL_S)
            return
        try:
            self._changes.wait(min(MOST_SILENT_S, max(POLL_S, left_s)))
        except CircuitSessionError as ended:
            self._changes = None
            self._ask_instead(ended)

    def _ask_instead(self, why: CircuitError) -> None:
        self._tell(f"{why}; the device is asked every {POLL_S * 1e3:g} ms instead")


def wait_for_light(driver: Driver, pairs: Collection[Pair], probe: Callable[[Pair], bool] | None = None) -> None:
    """Returns when all circuits carry traffic.

    Args:
        driver: of the device.
        pairs: circuits that were ordered.
        probe: tries whether something gets through; a device may say `lit` and be dark.

    Raises:
        CircuitError: one has failed; the message names the ports and the reason.
    """
    dark = without_light(driver, pairs, probe)
    if dark:
        raise CircuitError("; ".join(dark.values()))


def without_light(
    driver: Driver, pairs: Collection[Pair], probe: Callable[[Pair], bool] | None = None
) -> dict[Pair, str]:
    """Waits until each circuit carries traffic or has failed; returns those that have failed, with their reasons.

    Args:
        driver: of the device.
        pairs: circuits that were ordered.
        probe: tries whether something gets through; a device may say `lit` and be dark.
    """
    ends: Mapping[str, PortState] = {port: state for _, port, state in watch(driver, frozenset().union(*pairs))}
    found: dict[Pair, str] = {}
    for pair in sorted(pairs, key=sorted):
        failed = [
            f"port {port}: {ends[port].reason}"
            for port in sorted(pair, key=natural)
            if ends[port].state is State.FAILED
        ]
        if failed:
            found[pair] = f"{'; '.join(failed)}; check its fibre, or use another port"
        elif probe is not None and not probe(pair):
            found[pair] = f"{shown(pair)}: the device says `lit`, and nothing gets through; check the fibres"
    return found


def _check(driver: Driver, wanted: frozenset[Pair], ours: frozenset[str]) -> None:
    sides = _retried(driver.describe).sides
    check_pairs(wanted, sides)
    foreign = sorted(frozenset().union(*wanted) - ours, key=natural)
    if foreign:
        raise CircuitError(f"port {foreign[0]} is not ours, so it is not touched; add it to the owned ports")


def _own(reading: Reading, ours: frozenset[str]) -> frozenset[Connection]:
    """Connections of our ports. One that leads to a stranger's port is in the way of everything."""
    for one in sorted(reading.connections):
        if len(ours.intersection(one)) == 1:
            raise CircuitError(f"{one[0]} → {one[1]}: one of the ports is not ours; disconnect them, or own both")
    return frozenset(one for one in reading.connections if ours.issuperset(one))


def _require_no_stranger(before: Reading, expected: frozenset[Pair], ours: frozenset[str]) -> None:
    now = _own(before, ours)
    if now != both_ways(expected):
        differences = _differences(now, both_ways(expected))
        raise CircuitError(f"someone else has changed the device: {differences}; find out who, and order again")


def _order(driver: Driver, remove: frozenset[Connection], add: frozenset[Connection]) -> str:
    """One order; a session that ends may have brought it about, so what is read afterwards decides."""
    try:
        driver.change(remove, add)
    except CircuitError as trouble:
        return f" ({trouble})"
    return ""


def _retried(ask: Callable[[], T]) -> T:
    """Asks again after a session that ended: questions change nothing."""
    for _ in range(ATTEMPTS - 1):
        try:
            return ask()
        except CircuitSessionError:
            continue
    return ask()


def _differences(now: frozenset[Connection], goal: frozenset[Connection]) -> str:
    more = [f"{one} → {other} is there" for one, other in sorted(now - goal)]
    less = [f"{one} → {other} is missing" for one, other in sorted(goal - now)]
    return ", ".join([*more, *less][:8])
