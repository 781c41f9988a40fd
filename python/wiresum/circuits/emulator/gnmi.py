"""gNMI as SONiC's switches speak it: Capabilities, Get of tables, Set of cross-connects, Subscribe; no TLS.

Calls come in gRPC's threads, and are answered in the thread of all other protocols.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, NoReturn

from wiresum.circuits.device import Connection
from wiresum.circuits.drivers.sonic_gnmi import INSTANCE, ORIGIN
from wiresum.circuits.emulator.gnmi_stream import RefusedError, stream
from wiresum.circuits.emulator.server import Device, EndedError, answered
from wiresum.circuits.emulator.sonic_tables import check_sides, connection_of, table
from wiresum.circuits.gnmi import JSON_IETF, METHODS, SERVICE, content, grpc, new, parsed, shown, typed
from wiresum.circuits.sonic_tables import CONFIG, CROSS_CONNECTS
from wiresum.errors import CircuitError

CALLS = 8
"""Calls at a time; more wait. A call that is never answered holds one until its caller gives up."""
LOGIN = {"username": "admin", "password": "YourPaSsWoRd"}
"""The login of a device as it is delivered, which whoever gives a name has to know."""
VERSION = "0.7.0"
ALL, DELETE, REPLACE, UPDATE = 0, 1, 2, 3
"""Type of data that SONiC shows, and operations."""
ROW = 2
"""Names of a row: its table's, and its key."""


async def serve(device: Device, host: str, port: int, credentials: Any = None) -> Server:
    """Begins to serve a device.

    Args:
        device: what is served.
        host: to listen at.
        port: 0 takes a free one.
        credentials: of gRPC, for TLS.

    Raises:
        OSError: the port is taken.
    """
    return Server(device, f"{host}:{port}", credentials)


class Server:
    """gRPC's server, within the loop of the other protocols."""

    def __init__(self, device: Device, address: str, credentials: Any) -> None:
        self._device, self._loop = device, asyncio.get_running_loop()
        self.options: Mapping[str, str] = {} if credentials else {"insecure": "yes"}
        self._server = grpc.server(ThreadPoolExecutor(CALLS, "gnmi"), options=[("grpc.so_reuseport", 0)])
        calls = {method: grpc.unary_unary_rpc_method_handler(self._caller(method)) for method in METHODS}
        calls["Subscribe"] = grpc.stream_stream_rpc_method_handler(self._subscribe)
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, calls)])
        try:
            bind = self._server.add_secure_port if credentials else self._server.add_insecure_port
            self.port = int(bind(*([address, credentials] if credentials else [address])))
        except RuntimeError as taken:
            raise OSError(str(taken)) from None
        self._server.start()

    async def close(self) -> None:
        """Ends listening and all calls."""
        await asyncio.to_thread(self._server.stop(None).wait)

    def _caller(self, method: str) -> Callable[[bytes, Any], bytes]:
        def call(data: bytes, context: Any) -> bytes:
            logged_in = dict(context.invocation_metadata())
            work = asyncio.run_coroutine_threadsafe(self._answer(method, data, logged_in), self._loop)
            context.add_callback(work.cancel)
            try:
                return work.result()
            except RefusedError as refused:
                _refuse(context, grpc.StatusCode[refused.code], str(refused))
            except (EndedError, CancelledError):
                _refuse(context, grpc.StatusCode.UNAVAILABLE, "the device has ended the session")

        return call

    def _subscribe(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """A subscription. Faults of sessions befall calls alone."""
        try:
            _require_login(dict(context.invocation_metadata()))
            yield from stream(self._device, self._loop, _located, requests, context)
        except RefusedError as refused:
            _refuse(context, grpc.StatusCode[refused.code], str(refused))

    async def _answer(self, method: str, data: bytes, metadata: Mapping[str, str]) -> bytes:
        question, answer = METHODS[method]
        self._device.tap(">", shown(question, data))
        try:
            told, _ = await answered(self._device, lambda: _handle(self._device, method, data, metadata))
        except RefusedError as refused:
            self._device.tap("<", f"{refused.code}: {refused}".encode())
            raise
        self._device.tap("<", shown(answer, told))
        return told


def _refuse(context: Any, code: Any, why: str) -> NoReturn:
    context.abort(code, why)
    raise AssertionError("gRPC has ended the call")


def _handle(device: Device, method: str, data: bytes, metadata: Mapping[str, str]) -> bytes:
    _require_login(metadata)
    do: Callable[[Device, Any], Any] = {"Capabilities": _capabilities, "Get": _get, "Set": _set}[method]
    try:
        return bytes(do(device, parsed(METHODS[method][0], data)).SerializeToString())
    except CircuitError as conflict:
        raise RefusedError("UNKNOWN", conflict) from None
    except (ValueError, LookupError, TypeError, AttributeError) as strange:
        raise RefusedError("INVALID_ARGUMENT", f"{type(strange).__name__}: {strange}") from None


def _require_login(metadata: Mapping[str, str]) -> None:
    if "username" in metadata and any(metadata.get(name) != known for name, known in LOGIN.items()):
        raise RefusedError("UNAUTHENTICATED", "Invalid Password")


def _capabilities(_: Device, __: Any) -> Any:
    model = new("ModelData", name=ORIGIN, organization="SONiC", version="0.1.0")
    return new("CapabilityResponse", supported_models=[model], supported_encodings=[JSON_IETF], gNMI_version=VERSION)


def _get(device: Device, request: Any) -> Any:
    if request.type != ALL:
        raise RefusedError("UNIMPLEMENTED", "there is all data, or none")
    if request.encoding != JSON_IETF:
        raise RefusedError("UNIMPLEMENTED", "tables are shown as JSON_IETF")
    asked = [(one, *_located(request.prefix, one)) for one in request.path]
    if len({database for _, database, _ in asked}) > 1:
        raise RefusedError("UNIMPLEMENTED", "Target conflict in path")
    now_ns, prefix = _now_ns(device), _prefix(request)
    updates = [new("Update", path=one, val=typed(_value(device, database, names))) for one, database, names in asked]
    notifications = [new("Notification", timestamp=now_ns, prefix=prefix, update=[update]) for update in updates]
    return new("GetResponse", notification=notifications)


def _value(device: Device, database: str, names: Sequence[str]) -> Mapping[str, Any]:
    """A table or a row. A table without rows is not found, and a row that is not there is empty, as at SONiC."""
    rows = table(device, database, names[0])
    if not rows:
        raise RefusedError("NOT_FOUND", f"Failed to find {database} {names[0]}")
    return rows if len(names) < ROW else rows.get(names[1], {})


def _set(device: Device, request: Any) -> Any:
    """All of a Set, in one order. What is to be deleted and is not there is no error, as at SONiC."""
    here, prefix = device.crossbar.connections, request.prefix
    remove = [_connection(prefix, one) for one in request.delete]
    add = [_updated(prefix, one) for one in (*request.replace, *request.update)]
    device.order([one for one in remove if one in here], add)
    done = [(DELETE, one) for one in request.delete]
    done += [(REPLACE, one.path) for one in request.replace] + [(UPDATE, one.path) for one in request.update]
    results = [new("UpdateResult", path=one, op=operation) for operation, one in done]
    return new("SetResponse", prefix=_prefix(request), response=results, timestamp=_now_ns(device))


def _updated(prefix: Any, update: Any) -> Connection:
    connection = _connection(prefix, update.path)
    check_sides(connection, content(update.val))
    return connection


def _connection(prefix: Any, changed: Any) -> Connection:
    database, names = _located(prefix, changed)
    if (database, names[0], len(names)) != (CONFIG, CROSS_CONNECTS, ROW):
        raise RefusedError("UNIMPLEMENTED", f"/{'/'.join(names)}: only rows of {CONFIG} {CROSS_CONNECTS} are changed")
    return connection_of(names[1])


def _located(prefix: Any, path: Any) -> tuple[str, list[str]]:
    """Database of a path behind its prefix, and the names within: of a table, and perhaps of a row."""
    elements = [*prefix.elem, *path.elem]
    if (prefix.origin or path.origin) != ORIGIN or any(one.key for one in elements):
        raise RefusedError("UNIMPLEMENTED", f"paths are {ORIGIN}:/DATABASE/{INSTANCE}/TABLE/KEY")
    found = [one.name for one in elements]
    if found[1:2] != [INSTANCE] or not 1 <= len(found[2:]) <= ROW:
        raise RefusedError("UNIMPLEMENTED", f"/{'/'.join(found)} names no table and no row of {INSTANCE}")
    return found[0], found[2:]


def _prefix(request: Any) -> Any:
    """What an answer repeats."""
    return request.prefix if request.HasField("prefix") else None


def _now_ns(device: Device) -> int:
    return int(1e9 * device.clock())
