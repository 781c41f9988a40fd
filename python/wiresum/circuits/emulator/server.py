"""Serves an emulated switch over TCP, with faults of the session: late, cut, dropped, halved, or foreign answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self
from urllib.parse import urlencode

from wiresum.circuits.device import Connection
from wiresum.circuits.emulator.crossbar import Crossbar
from wiresum.errors import CircuitError
from wiresum.registry import Registry

SessionFault = Literal["late", "silent", "drop", "done-drop", "half", "cut", "foreign"]
"""What befalls a request. `late`: it is answered late; `silent`: never; `drop`: the session ends before it is done;
`done-drop`: after; `half`: half of the order is done; `cut`: half of the answer comes, and the session ends;
`foreign`: the answer is another service's."""
LATE_S = 0.05
HOST = "127.0.0.1"
START_TIMEOUT_S = 10.0
FOREIGN = b"220 mail.example ESMTP ready\r\n\r\n;"
"""What another service says; it has the ends of all answers, so that nobody waits for more."""


@dataclass
class Device:
    """An emulated switch: a crossbar, a clock, and what goes wrong with sessions.

    Attributes:
        crossbar: the model.
        faults: of the next requests, one each.
        clock: seconds.
        halved: the next order is done by half.
        tap: sees what comes (`>`) and goes (`<`).
        mangle: changes every answer on its way.
    """

    crossbar: Crossbar
    faults: deque[SessionFault] = field(default_factory=deque)
    clock: Callable[[], float] = time.monotonic
    halved: bool = False
    tap: Callable[[str, bytes], None] = lambda _, __: None
    mangle: Callable[[bytes], bytes] = lambda answer: answer

    def order(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """An order as a protocol has understood it; errors as `Crossbar.order`."""
        if self.halved:
            self.halved = False
            parts = [("remove", one) for one in sorted(remove)] + [("add", one) for one in sorted(add)]
            done = parts[: len(parts) // 2]
            remove, add = ([one for verb, one in done if verb == wanted] for wanted in ("remove", "add"))
        self.crossbar.order(self.clock(), remove, add)


class EndedError(Exception):
    """This session ends here."""


class Exchange:
    """One session as a protocol's server sees it."""

    def __init__(self, device: Device, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.device, self._reader, self._writer = device, reader, writer

    async def until(self, end: bytes) -> bytes:
        """A request up to and without its end."""
        request = await self._reader.readuntil(end)
        self.device.tap(">", request)
        return request[: -len(end)]

    async def exactly(self, count: int) -> bytes:
        """So many bytes."""
        request = await self._reader.readexactly(count)
        if request:
            self.device.tap(">", request)
        return request

    def push(self, message: bytes) -> None:
        """Says something that nobody has asked for."""
        self.device.tap("<", message)
        self._writer.write(message)

    async def answer(self, handle: Callable[[], bytes]) -> None:
        """Does what was asked and answers, or does what the next fault says."""
        text, is_cut = await answered(self.device, handle)
        self.push(text)
        await self._writer.drain()
        if is_cut:
            raise EndedError


async def answered(device: Device, handle: Callable[[], bytes]) -> tuple[bytes, bool]:
    """The answer to a request, and whether it is cut, as the next fault says.

    Args:
        device: whose next fault befalls the request.
        handle: does what was asked, and returns the answer.

    Raises:
        EndedError: the session ends before the answer.
    """
    fault = device.faults.popleft() if device.faults else None
    if fault == "drop":
        raise EndedError
    device.halved = fault == "half"
    text = handle()
    device.halved = False
    if fault == "done-drop":
        raise EndedError
    if fault == "silent":
        await asyncio.Event().wait()
    if fault == "late":
        await asyncio.sleep(LATE_S)
    text = {"cut": text[: len(text) // 2], "foreign": FOREIGN}.get(fault or "", text)
    return device.mangle(text), fault == "cut"


class Listener(Protocol):
    """A server of one protocol.

    Attributes:
        port: where it listens.
        options: what the address for a driver says besides host and port.
    """

    port: int
    options: Mapping[str, str]

    async def close(self) -> None:
        """Listens no more; sessions may go on until their tasks are cancelled."""


Serve = Callable[[Device, str, int], Awaitable[Listener]]
"""Begins to serve a device at a host and a port; port 0 takes a free one. Raises OSError where the port is taken."""


class _Streams:
    """Sessions over TCP, one task each."""

    options: Mapping[str, str] = {}

    def __init__(self, server: asyncio.Server) -> None:
        self._server, self.port = server, int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()


def over_streams(converse: Callable[[Exchange], Awaitable[None]]) -> Serve:
    """The server of a protocol over TCP, from what answers the next request of a session."""

    async def serve(device: Device, host: str, port: int) -> Listener:
        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    await converse(Exchange(device, reader, writer))
            except (EndedError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass  # The other end has gone, or this one goes as a fault says.
            except asyncio.CancelledError:
                pass  # The server ends.
            finally:
                writer.close()

        return _Streams(await asyncio.start_server(session, host, port))

    return serve


SERVERS: Registry[Serve] = Registry(
    {
        "emulated": "wiresum.circuits.emulator.plain:serve",
        "polatis-rest": "wiresum.circuits.emulator.restconf:serve",
        "polatis-scpi": "wiresum.circuits.emulator.scpi:serve",
        "calient-tl1": "wiresum.circuits.emulator.tl1:serve",
        "sonic-tcp": "wiresum.circuits.emulator.sonic:serve",
        "sonic-gnmi": "wiresum.circuits.emulator.gnmi:serve",
    }
)
"""Servers of protocols, by the scheme of the driver that speaks to them."""

NUMBERED = {"polatis-rest", "polatis-scpi", "sonic-tcp", "sonic-gnmi"}
"""Protocols in which the number of a port is its name."""


async def listen(device: Device, protocol: str, host: str = HOST, port: int = 0) -> Listener:
    """Starts a server; port 0 takes a free one.

    Raises:
        CircuitError: no such protocol, or the port is taken.
        SupportError: the protocol needs a library that is not installed.
    """
    if protocol not in SERVERS:
        raise CircuitError(f"there is no protocol {protocol}; choose from {', '.join(SERVERS)}")
    if protocol in NUMBERED and not all(port.isdigit() for port in device.crossbar.sides):
        raise CircuitError(f"{protocol} numbers its ports 1, 2, …; give the ports of the switch such names")
    serve = SERVERS[protocol]
    try:
        return await serve(device, host, port)
    except OSError as taken:
        raise CircuitError(f"{protocol} cannot be served at {host}:{port} ({taken}); choose another port") from None


class Serving:
    """Servers of one device in a thread of their own, for a `with` block.

    Args:
        device: what they serve.
        protocols: names, each with a host and a port; port 0 takes a free one.

    Example:
        >>> from wiresum.circuits.drivers import connect
        >>> with Serving(Device(Crossbar({"1": None, "2": None}, dark_s=0.0)), {"polatis-scpi": (HOST, 0)}) as serving:
        ...     len(connect(serving.url("polatis-scpi")).describe().sides)
        2
    """

    def __init__(self, device: Device, protocols: dict[str, tuple[str, int]]) -> None:
        self.device, self._wanted = device, protocols
        self._ports: dict[str, tuple[str, int]] = {}
        self._options: dict[str, Mapping[str, str]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="optical switch", daemon=True)
        self._servers: list[Listener] = []

    def url(self, protocol: str, **options: object) -> str:
        """Address for a driver, with options of its own."""
        host, port = self._ports[protocol]
        query = urlencode({**self._options[protocol], **options})
        return f"{protocol}://{host}:{port}{'?' if query else ''}{query}"

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of each protocol."""
        return dict(self._ports)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            for protocol, (host, port) in self._wanted.items():
                server = self._run(listen(self.device, protocol, host, port))
                self._servers.append(server)
                self._ports[protocol], self._options[protocol] = (host, server.port), server.options
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends servers and sessions."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            await server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_TIMEOUT_S)
