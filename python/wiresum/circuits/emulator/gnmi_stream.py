"""Subscribe of gNMI as SONiC's switches have it: streams of the rows of tables, on change or by samples.

A subscription tells all rows of its tables, then that it has; afterwards rows that are others, and an empty one for a
row that has gone. SONiC's server ends a subscription when the client's side of the stream ends, and so does this one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from wiresum.circuits.emulator.server import Device
from wiresum.circuits.emulator.sonic_tables import table
from wiresum.circuits.gnmi import JSON_IETF, ON_CHANGE, SAMPLE, STREAM, SUBSCRIBE, grpc, new, parsed, shown, typed
from wiresum.errors import CircuitError

MODES = frozenset({ON_CHANGE, SAMPLE})
"""When this device tells of a table."""
LEAST_SAMPLE_S = 1.0
"""Seconds between two samples at least, as at SONiC."""
TICK_S = 0.001
"""Seconds between two looks at the model, which has no clock of its own."""

Rows = Mapping[str, Mapping[str, str]]


class RefusedError(Exception):
    """A call that is answered with an error: name of gRPC's code, and why."""

    def __init__(self, code: str, why: object) -> None:
        super().__init__(str(why))
        self.code = code


@dataclass
class Told:
    """A table that is told of.

    Attributes:
        path: as the client has named it.
        table: its database, and its name.
        every_s: seconds between two samples; 0 where changes are told at once.
        leaves_out: whether samples leave out rows that are as before.
        rows: what was told last.
        due_s: when the next sample is due.
        version: of the model when rows were taken.
    """

    path: Any
    table: tuple[str, str]
    every_s: float
    leaves_out: bool
    rows: Rows
    due_s: float
    version: tuple[object, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all rows are told each time."""
        return self.every_s > 0 and not self.leaves_out

    def is_due(self, now_s: float, version: tuple[object, ...]) -> bool:
        """Whether there may be something to tell now."""
        return now_s >= self.due_s and (self.is_whole or self.version != version)

    def news(self, now_s: float, version: tuple[object, ...], rows: Rows) -> Rows:
        """What there is to tell now, given all rows of the table."""
        self.due_s, self.version = now_s + self.every_s, version
        before, self.rows = self.rows, rows
        if self.is_whole:
            return rows
        gone: Rows = {key: {} for key in before.keys() - rows.keys()}
        return {**gone, **{key: row for key, row in rows.items() if before.get(key) != row}}


def stream(
    device: Device, loop: asyncio.AbstractEventLoop, located: Callable[[Any, Any], tuple[str, list[str]]],
    requests: Iterator[bytes], context: Any,
) -> Iterator[bytes]:  # fmt: skip
    """Answers of one subscription, from the thread of its call; the model is looked at in the loop alone.

    Args:
        device: what is told of.
        loop: of all protocols.
        located: says which table a prefix and a path name.
        requests: of the client.
        context: of the call.

    Raises:
        RefusedError: the device does not tell that.
    """
    first = next(requests, b"")
    told: SimpleQueue[bytes | None] = SimpleQueue()
    tables = asyncio.run_coroutine_threadsafe(_begin(device, located, first, told), loop).result()
    work = asyncio.run_coroutine_threadsafe(_follow(device, tables, told), loop)
    context.add_callback(work.cancel)
    threading.Thread(target=_await_end, args=(requests, work.cancel), name="gnmi requests", daemon=True).start()
    work.add_done_callback(lambda _: told.put(None))
    yield from iter(told.get, None)
    try:
        work.result()
    except CancelledError:
        return


def _await_end(requests: Iterator[bytes], end: Callable[[], object]) -> None:
    """Ends a subscription when the client says nothing more, or is gone."""
    with suppress(grpc.RpcError):
        deque(requests, 0)
    end()


async def _begin(
    device: Device, located: Callable[[Any, Any], tuple[str, list[str]]], first: bytes, told: SimpleQueue[bytes | None]
) -> list[Told]:
    """The tables that a request names, told as they are."""
    device.tap(">", shown(SUBSCRIBE[0], first))
    try:
        tables = [_told(device, located, *one) for one in _subscriptions(first)]
    except RefusedError as refused:
        device.tap("<", f"{refused.code}: {refused}".encode())
        raise
    for one in tables:
        _tell(device, told, _update(device, one, one.rows))
    _tell(device, told, new("SubscribeResponse", sync_response=True))
    return tables


def _subscriptions(data: bytes) -> Iterator[tuple[Any, Any]]:
    """Prefix and subscription of each path of a request."""
    try:
        request = parsed(SUBSCRIBE[0], data).subscribe
    except ValueError as strange:
        raise RefusedError("INVALID_ARGUMENT", strange) from None
    if not request.subscription:
        raise RefusedError("INVALID_ARGUMENT", "a stream begins with a list of subscriptions")
    if request.mode != STREAM:
        raise RefusedError("UNIMPLEMENTED", "subscriptions are streams")
    if request.encoding != JSON_IETF:
        raise RefusedError("UNIMPLEMENTED", "tables are shown as JSON_IETF")
    yield from ((request.prefix, one) for one in request.subscription)


def _told(device: Device, located: Callable[[Any, Any], tuple[str, list[str]]], prefix: Any, one: Any) -> Told:
    database, names = located(prefix, one.path)
    every_s = one.sample_interval / 1e9 or LEAST_SAMPLE_S
    if one.mode not in MODES:
        raise RefusedError("INVALID_ARGUMENT", f"unsupported subscription mode, {one.mode}")
    if one.mode == SAMPLE and every_s < LEAST_SAMPLE_S:
        raise RefusedError("INVALID_ARGUMENT", f"invalid interval: {every_s:g} s is less than {LEAST_SAMPLE_S:g} s")
    if len(names) > 1:
        raise RefusedError("UNIMPLEMENTED", f"/{'/'.join(names)}: whole tables are told of")
    try:
        rows = table(device, database, names[0])
    except CircuitError as strange:
        raise RefusedError("INVALID_ARGUMENT", strange) from None
    every_s, now_s = every_s if one.mode == SAMPLE else 0.0, device.clock()
    version = device.crossbar.version(now_s)
    return Told(one.path, (database, names[0]), every_s, one.suppress_redundant, rows, now_s + every_s, version)


async def _follow(device: Device, tables: list[Told], told: SimpleQueue[bytes | None]) -> None:
    """Tells of changes until it is cancelled."""
    while True:
        await asyncio.sleep(TICK_S)
        now_s = device.clock()
        version = device.crossbar.version(now_s)
        for one in tables:
            news = one.news(now_s, version, table(device, *one.table)) if one.is_due(now_s, version) else {}
            if news:
                _tell(device, told, _update(device, one, news))


def _tell(device: Device, told: SimpleQueue[bytes | None], response: Any) -> None:
    data = device.mangle(response.SerializeToString())
    device.tap("<", shown(SUBSCRIBE[1], data))
    told.put(data)


def _update(device: Device, one: Told, rows: Rows) -> Any:
    update = new("Update", path=one.path, val=typed(rows))
    now_ns = int(1e9 * device.clock())
    return new("SubscribeResponse", update=new("Notification", timestamp=now_ns, update=[update]))
