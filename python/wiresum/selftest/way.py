"""What this host's kernel knows of the way to a node: no privileges, and no help of the node."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass

from wiresum.plan.aggregation_plan import AggregationPlan, PlanNode
from wiresum.wire import HEADER_LEN, IPV4_LEN, IPV6_LEN, UDP_LEN

# Linux's numbers from <linux/in.h> and <linux/in6.h>, which the module `socket` lacks.
IP_MTU_DISCOVER, IP_MTU = 10, 14
IPV6_MTU_DISCOVER, IPV6_MTU = 23, 24
NEVER_SPLIT = 2
"""IP_PMTUDISC_DO: packets that are too long are refused, not split."""
UNUSED_PORTS = (1, 9)
"""Ports of services that nobody runs, below those that hosts give out: a host that is there refuses one of them."""
PROBES = 3
"""Datagrams to a port before its silence counts: hosts bound how many they refuse."""
PROBE_S = 0.2
"""The wait for a refusal, by probe."""


@dataclass(frozen=True)
class Way:
    """The way to one node.

    Attributes:
        source: this host's address towards it; empty where there is no way.
        mtu_bytes: the longest IP packet that the kernel believes to fit.
        needed_bytes: the plan's longest IP packet.
        is_refused: whether the host says that nothing listens at the node's port.
        is_host_there: whether the host answers anything at all.
        problem: why there is no way; empty where there is one.
    """

    source: str
    mtu_bytes: int
    needed_bytes: int
    is_refused: bool
    is_host_there: bool
    problem: str = ""

    @property
    def is_too_narrow(self) -> bool:
        """Whether the plan's packets do not fit."""
        return not self.problem and self.mtu_bytes < self.needed_bytes


def way_to(plan: AggregationPlan, node: PlanNode) -> Way:
    """Asks the kernel, and the host of the node by datagrams of one byte, which a node drops."""
    needed = packet_bytes(plan, node)
    family = socket.AF_INET6 if node.ip.version == 6 else socket.AF_INET  # noqa: PLR2004 - of IP
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(node.ip), node.port))
            source, mtu_bytes = probe.getsockname()[0], _mtu(probe)
            is_refused = node.engine != "tcp" and _is_refused(probe)
        is_there = is_refused or any(_refuses(family, str(node.ip), port) for port in UNUSED_PORTS)
    except OSError as error:
        return Way("", 0, needed, is_refused=False, is_host_there=False, problem=error.strerror or str(error))
    return Way(source, mtu_bytes, needed, is_refused, is_there)


def packet_bytes(plan: AggregationPlan, node: PlanNode) -> int:
    """The longest IP packet of the plan on its way to a node; 0 where a stream of bytes carries packets."""
    if node.engine == "tcp":
        return 0
    ip_bytes = IPV6_LEN if node.ip.version == 6 else IPV4_LEN  # noqa: PLR2004 - of IP
    return ip_bytes + UDP_LEN + HEADER_LEN + plan.job.payload_bytes


def _mtu(probe: socket.socket) -> int:
    """The kernel's belief about a connected socket's path."""
    if probe.family == socket.AF_INET6:
        probe.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, NEVER_SPLIT)
        return probe.getsockopt(socket.IPPROTO_IPV6, IPV6_MTU)
    probe.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, NEVER_SPLIT)
    return probe.getsockopt(socket.IPPROTO_IP, IP_MTU)


def _refuses(family: socket.AddressFamily, host: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return _is_refused(probe)


def _is_refused(probe: socket.socket) -> bool:
    """Whether the host answers that nothing listens, by ICMP."""
    probe.settimeout(PROBE_S)
    for _ in range(PROBES):
        try:
            with suppress(TimeoutError):
                probe.send(b"\0")
                probe.recv(1)
        except ConnectionRefusedError:
            return True
    return False
