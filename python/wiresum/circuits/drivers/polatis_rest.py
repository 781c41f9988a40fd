"""Polatis optical switches by RESTCONF: the collection of cross-connects, put as a whole.

Light goes one way: it enters by an ingress and leaves by an egress, which are numbered apart. Of a switch of n × n
fibres, port p is ingress p and egress n + p. Single pairs that are posted are reported to vanish after some seconds, so
an order reads the collection, changes it, and puts it back, with the pairs of others as they were. If the device gives
a strong `ETag`, it refuses an order that another one has overtaken. A weak one (`W/"1"`) never matches an `If-Match`
(RFC 9110, 13.1.1), so orders go without a condition. If nothing is joined, a device may say that there is no such
collection (RFC 8040, 4.3 and 7).

A device with power meters says whether there is light at an egress; without them, a connection is lit a while after its
order (`?light=0.05`, in seconds).
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, TypeVar

from wiresum.circuits.device import Connection, Description, PortState, Reading, State
from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.lit_by_time import LitByTime
from wiresum.circuits.drivers.session import CHUNK_BYTES, MAX_ANSWER_BYTES, patience, understood
from wiresum.circuits.drivers.yang import entries, member, unexpected, whole
from wiresum.errors import CircuitError, CircuitSessionError

USER, PASSWORD = "admin", "root"
"""The login of a device as its maker delivers it."""
MEDIA = "application/yang-data+json"
BASE = "/api/data/optical-switch:"
CROSS_CONNECTS = "cross-connects"
LIGHT_S = 0.05
"""Seconds from an order to light; the maker promises less."""
DARK_DBM = -30.0
"""Power below which there is no light: transceivers for a kilometre see down to about −15 dBm."""
OK, NOT_FOUND, CONFLICT, PRECONDITION_FAILED = range(200, 300), 404, 409, 412
DATA_MISSING = "data-missing"
ABSENT = frozenset({DATA_MISSING, "invalid-value"})
"""Tags of errors that say that a resource does not exist: the first with 404 or 409, the second with 404."""
WEAK = "W/"
"""Start of an `ETag` that no condition may have."""

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What the device says to a request.

    Attributes:
        status: of HTTP.
        etag: version of what was got; empty where the device has none.
        content: JSON; None where there is no body.
    """

    status: int
    etag: str
    content: Any


class PolatisRest:
    """RESTCONF over HTTP, with a connection for each request."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._name = address.name
        self._light = LitByTime(address.number("light", LIGHT_S))
        self._timeout_s = patience(address)
        self._size = 0

    def describe(self) -> Description:
        """Model and number of ports."""
        information = self._get("product-information")
        model = self._understood(lambda: _model(information))
        sides = {str(port): None for port in range(1, self._ports() + 1)}
        return Description(model, sides, self._light.light_s)

    def read(self) -> Reading:
        """What is connected, and the state of every port."""
        size = self._ports()
        connections = self._understood(lambda: _connections(self._collection().content, size))
        return Reading(connections, self._states(size, connections))

    def change(self, remove: Collection[Connection], add: Collection[Connection]) -> None:
        """Puts the collection that is there, less what goes, with what comes."""
        size = self._ports()
        answer = self._collection()
        there = self._understood(lambda: _connections(answer.content, size))
        pairs = sorted((there - frozenset(remove)) | frozenset(add))
        body = {f"optical-switch:{CROSS_CONNECTS}": {"pair": [_pair(one, size) for one in pairs]}}
        put = self._request("PUT", CROSS_CONNECTS, body, _condition(answer.etag))
        if put.status == PRECONDITION_FAILED:
            raise CircuitError(f"{self._name}: someone else has changed the device meanwhile; order again")
        self._light.ordered(add)

    def close(self) -> None:
        """Nothing is open."""

    def _ports(self) -> int:
        if not self._size:
            content = self._get("ports")
            self._size = self._understood(lambda: _port_count(content))
        return self._size

    def _collection(self) -> Answer:
        """The cross-connects, whose content is None if the device says that there are none."""
        answer = self._request("GET", CROSS_CONNECTS, allowed=(NOT_FOUND, CONFLICT))
        if answer.status in OK:
            return answer
        if _tag(answer.content) not in (ABSENT if answer.status == NOT_FOUND else {DATA_MISSING}):
            raise self._refusal("GET", CROSS_CONNECTS, answer)
        return Answer(answer.status, "", None)

    def _states(self, size: int, connections: frozenset[Connection]) -> dict[str, PortState]:
        ports = [str(port) for port in range(1, size + 1)]
        answer = self._request("GET", "opm-power", allowed=(NOT_FOUND,))
        if answer.status == NOT_FOUND:
            return self._light.states(ports, connections)
        power = self._understood(lambda: _power(answer.content))
        lit = {one for one in connections if power.get(size + int(one[1]), DARK_DBM) > DARK_DBM}
        return {port: _state(port, connections, lit) for port in ports}

    def _get(self, what: str) -> Any:
        return self._request("GET", what).content

    def _request(
        self,
        method: str,
        what: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        allowed: Iterable[int] = (PRECONDITION_FAILED,),
    ) -> Answer:
        try:
            answer = self._exchange(method, what, body, headers or {})
        except (OSError, HTTPException, ValueError) as broken:
            raise CircuitSessionError(f"{self._name}: {type(broken).__name__} {broken}; ask again") from None
        if answer.status not in OK and answer.status not in allowed:
            raise self._refusal(method, what, answer)
        return answer

    def _refusal(self, method: str, what: str, answer: Answer) -> CircuitError:
        reason = f"HTTP {answer.status} {_error(answer.content)}".strip()
        return CircuitError(f"{self._name} refuses {method} {what}: {reason}")

    def _exchange(self, method: str, what: str, body: object, headers: Mapping[str, str]) -> Answer:
        address = self._address
        login = f"{address.user or USER}:{address.password or PASSWORD}".encode()
        connection = HTTPConnection(address.host, address.port, timeout=self._timeout_s)
        try:
            connection.request(
                method,
                BASE + what,
                None if body is None else json.dumps(body).encode(),
                {
                    "Accept": MEDIA,
                    "Content-Type": MEDIA,
                    "Authorization": f"Basic {base64.b64encode(login).decode()}",
                    **headers,
                },
            )
            response = connection.getresponse()
            text = b""
            deadline_s = time.monotonic() + self._timeout_s
            while data := response.read1(CHUNK_BYTES):
                text += data
                if len(text) > MAX_ANSWER_BYTES or time.monotonic() > deadline_s:
                    raise ValueError("an answer that does not end")
            wanted = response.getheader("Content-Length")
            if wanted is not None and len(text) < int(wanted):
                raise ValueError(f"{len(text)} of {wanted} bytes")
            return Answer(response.status, response.getheader("ETag") or "", json.loads(text) if text else None)
        finally:
            connection.close()

    def _understood(self, read: Callable[[], T]) -> T:
        return understood(self._name, read)


def _condition(etag: str) -> dict[str, str]:
    """Header with which the device refuses an order if the collection no longer has this strong tag."""
    return {"If-Match": etag} if etag and not etag.startswith(WEAK) else {}


def _model(content: Any) -> str:
    """Manufacturer and model, as far as the device names them."""
    information = member(content, "product-information")
    names = [member(information, name, is_optional=True) or "" for name in ("manufacturer", "model-name")]
    return " ".join(map(str, names)).strip()


def _port_count(content: Any) -> int:
    """Duplex ports, each of which is listed as an ingress and an egress."""
    ports = entries(member(member(content, "ports"), "port"), "a list of ports")
    if not ports or len(ports) % 2:
        raise unexpected("as many ingresses as egresses in the list of ports", content)
    return len(ports) // 2


def _connections(content: Any, size: int) -> frozenset[Connection]:
    pairs = entries(member(member(content, CROSS_CONNECTS), "pair"), "a list of pairs with ingress and egress")
    return frozenset((_number(pair, "ingress", 0, size), _number(pair, "egress", size, size)) for pair in pairs)


def _number(pair: Mapping[str, Any], side: str, before: int, size: int) -> str:
    """Name of the duplex port of an ingress or an egress, which are numbered from `before` on."""
    number = whole(member(pair, side), f"a pair with a number as {side}") - before
    if not 1 <= number <= size:
        raise unexpected(f"an {side} from {before + 1} to {before + size}", number + before)
    return str(number)


def _pair(connection: Connection, size: int) -> dict[str, int]:
    return {"ingress": int(connection[0]), "egress": size + int(connection[1])}


def _power(content: Any) -> dict[int, float]:
    ports = entries(member(member(content, "opm-power"), "port"), "a list of ports with their power")
    return {whole(member(port, "port-id"), "a port with a number as port-id"): _dbm(port) for port in ports}


def _dbm(port: Mapping[str, Any]) -> float:
    power = member(port, "power")
    try:
        return float(power)
    except (TypeError, ValueError):
        raise unexpected("a port with a number as power", port) from None


def _state(port: str, connections: frozenset[Connection], lit: set[Connection]) -> PortState:
    """A port is lit if light passes all of its connections."""
    own = [one for one in connections if port in one]
    if not own:
        return PortState(State.DARK)
    return PortState(State.LIT if lit.issuperset(own) else State.TUNING)


def _error(content: Any) -> str:
    """Message of a refusal; empty if it has none."""
    return str(_of_error(content, "error-message"))


def _tag(content: Any) -> str:
    """Tag of a refusal; empty if it has none."""
    return str(_of_error(content, "error-tag"))


def _of_error(content: Any, name: str) -> Any:
    try:
        errors = entries(member(member(content, "errors"), "error"), "errors")
        return member(errors[0], name, is_optional=True) or ""
    except (ValueError, LookupError):
        return ""
