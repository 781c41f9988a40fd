"""A program that passes every packet, for the far end of each veth pair whose near end sums in XDP.

A veth interface without a program silently drops what its peer sends with `XDP_TX` or `XDP_REDIRECT`.

A program of a few instructions needs no compiler: it is loaded with bpf(2) and attached over rtnetlink. It
stays until its interface goes.
"""

import os
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from wiresum.errors import TestbedError
from wiresum.testbed import bpf, offloads
from wiresum.testbed.layout import Layout, Port
from wiresum.testbed.namespaces import inside

PASS = bpf.instruction(bpf.MOVE_VALUE, value=bpf.XDP_PASS) + bpf.instruction(bpf.EXIT)

RTM_SETLINK = 19
NLM_F_REQUEST_ACK = 0x05
NLMSG_ERROR = 2
IFLA_IFNAME = 3
IFLA_XDP = 43 | 0x8000
"""With NLA_F_NESTED."""
IFLA_XDP_FD = 1
IFLA_XDP_FLAGS = 3
XDP_FLAGS_DRV_MODE = 1 << 2
NETLINK_HEADER = struct.Struct("=IHHII")
REPLY_BYTES = 4096


def redirect(ifindex: int) -> bytes:
    """A program that sends every packet out by an interface of the same namespace."""
    arguments = bpf.instruction(bpf.MOVE_VALUE, 1, value=ifindex) + bpf.instruction(bpf.MOVE_VALUE, 2, value=0)
    return arguments + bpf.instruction(bpf.CALL, value=bpf.REDIRECT) + bpf.instruction(bpf.EXIT)


@contextmanager
def loaded(program: bytes = PASS) -> Iterator[int]:
    """Loads a program; the descriptor is for `attach` and lasts for the `with` block.

    Args:
        program: its instructions.

    Raises:
        SupportError: no privilege, or a machine without BPF.
    """
    descriptor = bpf.load(bpf.BPF_PROG_TYPE_XDP, program, "an XDP program (the engine `udp` needs none)")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def attach(program: int, port: Port) -> None:
    """Attaches a program to an interface in its namespace.

    Raises:
        TestbedError: the kernel refused.
    """
    _require(
        inside(port.namespace, lambda: _set_link_xdp(port.interface, program)), f"{port.interface} in {port.namespace}"
    )


def attach_here(interfaces: Collection[str]) -> None:
    """Attaches the passing program to interfaces of this process' network namespace, where it stays.

    Raises:
        SupportError: no privilege, or a machine without BPF.
        TestbedError: the kernel refused.
    """
    with loaded() as program:
        for interface in interfaces:
            _require(_set_link_xdp(interface, program), interface)


def _require(code: int, place: str) -> None:
    if code != 0:
        raise TestbedError(f"XDP cannot be attached to {place} ({os.strerror(code)}); use the engine `udp`")


def attach_opposite(layout: Layout, nodes: Collection[str], bare: Collection[str] = ()) -> None:
    """Puts the passing program at the far end of every port of some nodes.

    Args:
        layout: of the network.
        nodes: those with XDP programs.
        bare: hosts whose interfaces stay without a program, as they will attach their own.

    Raises:
        SupportError: no privilege, or a machine without BPF.
        TestbedError: the kernel refused.
    """
    if not nodes:
        return
    with loaded() as program:
        for node in nodes:
            for far_end in map(layout.far_end, layout.ports(node)):
                if far_end.node in bare:
                    offloads.take_frames(far_end)
                else:
                    attach(program, far_end)


def _set_link_xdp(interface: str, program: int) -> int:
    """Sends the request; returns 0 or the error number."""
    options = _attribute(IFLA_XDP_FD, struct.pack("=i", program))
    options += _attribute(IFLA_XDP_FLAGS, struct.pack("=I", XDP_FLAGS_DRV_MODE))
    body = bytes(16) + _attribute(IFLA_IFNAME, interface.encode() + b"\0") + _attribute(IFLA_XDP, options)
    header = NETLINK_HEADER.pack(NETLINK_HEADER.size + len(body), RTM_SETLINK, NLM_F_REQUEST_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as netlink:
        netlink.send(header + body)
        reply = netlink.recv(REPLY_BYTES)
    _, kind, *_ = NETLINK_HEADER.unpack_from(reply)
    (code,) = struct.unpack_from("=i", reply, NETLINK_HEADER.size)
    return -int(code) if kind == NLMSG_ERROR else 0


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
