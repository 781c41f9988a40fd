"""Addresses of devices: `driver://user:password@host:port?option=value`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from wiresum.errors import CircuitError

PORTS: Mapping[str, int] = {
    "emulated": 7410,
    "polatis-rest": 8008,
    "polatis-scpi": 5025,
    "calient-tl1": 3082,
    "sonic-tcp": 7422,
    "sonic-gnmi": 50052,
}
"""Ports of protocols: as devices have them, 5025 as IANA has it for SCPI, 50052 as SONiC's own tests have it for gNMI;
of emulated devices alone, free ones."""


@dataclass(frozen=True)
class Address:
    """Where a device is.

    Attributes:
        scheme: name of the driver.
        host: name or IP address.
        port: the protocol's own where the address has none; None where ssh knows it.
        user: None: the maker's default.
        password: likewise.
        options: of the driver.
    """

    scheme: str
    host: str
    port: int | None
    user: str | None
    password: str | None
    options: Mapping[str, str]

    @classmethod
    def parse(cls, url: str) -> Address:
        """Reads an address.

        Raises:
            CircuitError: it has no host, or its port is no number.
        """
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if not parts.hostname or port == -1:
            raise CircuitError(f"{url} is no address of a device; write DRIVER://HOST or DRIVER://HOST:PORT")
        user, password = (None if one is None else unquote(one) for one in (parts.username, parts.password))
        known = port or PORTS.get(parts.scheme)
        return cls(parts.scheme, parts.hostname, known, user, password, dict(parse_qsl(parts.query)))

    @property
    def name(self) -> str:
        """The device in errors: without password and options."""
        return f"{self.scheme}://{self.host}"

    def number(self, option: str, default: float) -> float:
        """An option that is a number.

        Raises:
            CircuitError: it is none.
        """
        try:
            return float(self.options.get(option, default))
        except ValueError:
            raise CircuitError(f"{self.scheme}: {option}={self.options[option]} is not a number; correct it") from None
