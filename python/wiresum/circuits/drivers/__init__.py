"""Drivers of optical switches, by the scheme of a device's address: one file each, and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wiresum.errors import CircuitError
from wiresum.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from wiresum.circuits.device import Driver
    from wiresum.circuits.drivers.address import Address

DRIVERS: Registry[Callable[[Address], Driver]] = Registry(
    {
        "emulated": "wiresum.circuits.drivers.emulated:Emulated",
        "polatis-rest": "wiresum.circuits.drivers.polatis_rest:PolatisRest",
        "polatis-scpi": "wiresum.circuits.drivers.polatis_scpi:PolatisScpi",
        "calient-tl1": "wiresum.circuits.drivers.calient_tl1:CalientTl1",
        "sonic": "wiresum.circuits.drivers.sonic:Sonic",
        "sonic-tcp": "wiresum.circuits.drivers.sonic:Sonic",
        "sonic-gnmi": "wiresum.circuits.drivers.sonic_gnmi:SonicGnmi",
    }
)
"""`sonic` is a shell over ssh, `sonic-tcp` one over a bare connection, which only emulated devices have."""


def connect(url: str) -> Driver:
    """The driver of a device by its address, as `polatis-rest://admin:root@10.0.0.7:8008`. It connects when asked.

    Raises:
        CircuitError: no such driver, or no host.
    """
    from wiresum.circuits.drivers.address import Address

    scheme = urlsplit(url).scheme
    if scheme not in DRIVERS:
        raise CircuitError(f"{url} names no driver; write DRIVER://HOST with one of {', '.join(DRIVERS)}")
    return DRIVERS[scheme](Address.parse(url))
