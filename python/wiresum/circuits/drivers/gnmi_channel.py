"""A gRPC channel to a device that speaks gNMI: TLS, a login, and every call with a bound on its time.

Addresses end in options: `?ca=FILE` has the certificates by which the device's is judged, where the ones that gRPC
brings do not do; `?cert=FILE&key=FILE` are the driver's own, `?name=NAME` is the name in the device's certificate where
that is not its address, `?insecure=yes` does without TLS. The user is in the address, and the password in the file
`?password-file=FILE` or in the variable `WIRESUM_GNMI_PASSWORD`, as everybody on a machine may read command lines.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from wiresum.circuits.drivers.address import Address
from wiresum.circuits.drivers.gnmi_changes import GnmiChanges, as_error
from wiresum.circuits.drivers.session import MAX_ANSWER_BYTES, patience, understood
from wiresum.circuits.gnmi import JSON_IETF, METHODS, SERVICE, grpc, new, parsed
from wiresum.document import MAX_FILE_BYTES, open_regular
from wiresum.errors import CircuitError, CircuitSessionError

PASSWORD = "WIRESUM_GNMI_PASSWORD"
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    # Channels would otherwise share a connection, and wait together after it has broken.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class GnmiChannel:
    """Calls of one device. A channel that has failed is closed, and the next call opens another.

    Raises:
        CircuitError: the address has options that contradict each other, or files that cannot be read.
    """

    def __init__(self, address: Address) -> None:
        self._name, self._timeout_s = address.name, patience(address)
        self._credentials = None if _is_insecure(address) else _credentials(address)
        self._login = _login(address)
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._target = f"dns:///{host}:{address.port}"
        named = address.options.get("name")
        self._options = [*OPTIONS, *([("grpc.ssl_target_name_override", named)] if named else [])]
        self._channel: Any = None

    def ask(self, method: str, request: Any, nothing: Any = None) -> Any:
        """One call.

        Args:
            method: of gNMI.
            request: its message.
            nothing: what to return where the device says that there is no such thing; None: that is an error.

        Raises:
            CircuitSessionError: no answer, or none that makes sense.
            CircuitError: the device refuses.
        """
        if self._channel is None:
            self._open()
        try:
            data = self._call(method, request.SerializeToString())
        except grpc.RpcError as failed:
            if failed.code().name == "NOT_FOUND" and nothing is not None:
                return nothing
            error = as_error(self._name, method, failed, self._hint())
            if isinstance(error, CircuitSessionError):
                self.close()
            raise error from None
        return understood(self._name, lambda: parsed(METHODS[method][1], data))

    def listen(self, request: Any) -> GnmiChanges:
        """A subscription, once the device has told all that is there.

        Args:
            request: for it.

        Raises:
            CircuitSessionError: no answer, or none that makes sense.
            CircuitError: the device refuses.
        """
        if self._channel is None:
            self._open()
        call = self._channel.stream_stream(f"/{SERVICE}/Subscribe")
        changes = GnmiChanges(self._name, partial(call, metadata=self._login), request)
        try:
            changes.await_all(self._timeout_s)
        except CircuitError:
            changes.close()
            raise
        return changes

    def close(self) -> None:
        """Ends it."""
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def _open(self) -> None:
        """Begins a session: the device has to say that it shows tables as JSON."""
        secured = self._credentials
        self._channel = (
            grpc.insecure_channel(self._target, self._options)
            if secured is None
            else grpc.secure_channel(self._target, secured, self._options)
        )
        try:
            able = self.ask("Capabilities", new("CapabilityRequest"))
            if JSON_IETF not in able.supported_encodings:
                raise CircuitError(f"{self._name} speaks gNMI {able.gNMI_version} without JSON_IETF; it is no SONiC")
        except CircuitError:
            self.close()
            raise

    def _call(self, method: str, request: bytes) -> bytes:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}")
        return bytes(call(request, timeout=self._timeout_s, metadata=self._login))

    def _hint(self) -> str:
        if self._credentials is None:
            return "is it there, and does it speak gNMI without TLS?"
        return "is it there, and is its certificate one of ?ca=FILE?"


def _is_insecure(address: Address) -> bool:
    said = address.options.get("insecure", "no")
    if said not in {"yes", "no"}:
        raise CircuitError(f"{address.name}: insecure={said} is neither yes nor no; correct it")
    return said == "yes"


def _credentials(address: Address) -> Any:
    ca, key, certificate = (_file(address, option) for option in ("ca", "key", "cert"))
    if (key is None) != (certificate is None):
        raise CircuitError(f"{address.name}: a certificate needs its key; give both ?cert=FILE and key=FILE")
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _login(address: Address) -> list[tuple[str, str]]:
    """Metadata of every call."""
    if address.password is not None:
        where = f"?password-file=FILE, or into {PASSWORD}"
        raise CircuitError(f"{address.name}: everybody may read a password in an address; put it into {where}")
    if address.user is None:
        return []
    if _is_insecure(address):
        raise CircuitError(f"{address.name}: without TLS everybody on the way may read a password; leave insecure out")
    told = _file(address, "password-file")
    password = os.environ.get(PASSWORD) if told is None else told.decode("utf-8", "replace").rstrip("\r\n")
    if not password:
        missing = f"user {address.user} has no password"
        raise CircuitError(f"{address.name}: {missing}; set {PASSWORD}, or give ?password-file=FILE")
    if not all(text.isascii() and text.isprintable() for text in (address.user, password)):
        raise CircuitError(f"{address.name}: a login by gNMI has printable ASCII characters alone; choose another one")
    return [("username", address.user), ("password", password)]


def _file(address: Address, option: str) -> bytes | None:
    named = address.options.get(option)
    if named is None:
        return None
    try:
        with open_regular(named) as file:
            return file.read(MAX_FILE_BYTES)
    except (OSError, ValueError) as unreadable:
        reason = unreadable.strerror if isinstance(unreadable, OSError) else unreadable
        raise CircuitError(f"{address.name}: {option}={named} cannot be read ({reason}); check the path") from None
