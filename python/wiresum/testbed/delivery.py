"""Asserts that a testbed delivers: full packets from the first host to every other address and back."""

import contextlib
import select
import socket
import time
from dataclasses import dataclass
from ipaddress import ip_address

from wiresum.errors import TestbedError
from wiresum.testbed.layout import Layout
from wiresum.testbed.namespaces import inside

PROBE_PORT = 5746
"""UDP; the port before the aggregators'."""
UDP_IP_BYTES = {socket.AF_INET: 28, socket.AF_INET6: 48}
ATTEMPTS = 10
ATTEMPT_S = 0.4
"""Wait for each attempt: address resolution and a burst of probes fit many times over."""


@dataclass(frozen=True)
class Probe:
    """An addressed node with a socket in its namespace."""

    node: str
    address: str
    socket: socket.socket


def check(layout: Layout) -> None:
    """Sends probes of the full MTU until each has crossed both ways.

    Raises:
        TestbedError: some did not; the message names nodes and links.
    """
    probes = [_open(layout, node.name, node.address) for node in layout.topology.nodes if node.address]
    try:
        silent = _exchange(probes[0], probes[1:], layout.mtu_bytes)
    finally:
        for probe in probes:
            probe.socket.close()
    if silent:
        links = sorted({link.id for name in [probes[0].node, *silent] for link in layout.topology.links_of(name)})
        raise TestbedError(
            f"no delivery between {probes[0].node} and {', '.join(silent)}; look at the links {', '.join(links)} "
            "(firewall rules, a program on the interface, or the MTU)"
        )


def _open(layout: Layout, node: str, address: str) -> Probe:
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET  # noqa: PLR2004

    def bound() -> socket.socket:
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        sock.bind((address, PROBE_PORT))
        return sock

    return Probe(node, address, inside(layout.namespaces[node], bound))


def _exchange(first: Probe, others: list[Probe], mtu_bytes: int) -> list[str]:
    """Names of the nodes with which no probe was exchanged."""
    payload = bytes(mtu_bytes - UDP_IP_BYTES[first.socket.family])
    silent = {probe.address: probe.node for probe in others}
    for _ in range(ATTEMPTS):
        for address in silent:
            _send(first, address, payload)
        deadline = time.monotonic() + ATTEMPT_S
        while silent and (left_s := deadline - time.monotonic()) > 0:
            _answer(first, others, payload, silent, left_s)
    return list(silent.values())


def _answer(first: Probe, others: list[Probe], payload: bytes, silent: dict[str, str], left_s: float) -> None:
    """Returns what has reached the others, and notes what has come back to the first."""
    ready, _, _ = select.select([probe.socket for probe in (first, *others)], [], [], left_s)
    for probe in (first, *others):
        if probe.socket in ready:
            received, (source, *_) = probe.socket.recvfrom(len(payload))
            if probe is not first:
                _send(probe, first.address, payload)
            elif len(received) == len(payload):
                silent.pop(source, None)


def _send(probe: Probe, address: str, payload: bytes) -> None:
    """A probe that cannot be sent is one that does not arrive: the caller counts arrivals."""
    with contextlib.suppress(OSError):
        probe.socket.sendto(payload, (address, PROBE_PORT))
