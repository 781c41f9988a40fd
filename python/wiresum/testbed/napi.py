"""Receive offload at veth interfaces, in place of the program that passes everything (`xdp_pass`).

A veth interface takes what its peer's XDP program sends if it has a program of its own, or if receive offload is on.
An interface that a worker is to attach its own program to (the transport `af_xdp`) can have only the latter before.
"""

import ctypes
import fcntl
import os
import socket
import struct

from wiresum.errors import TestbedError
from wiresum.testbed.layout import Port
from wiresum.testbed.namespaces import inside

SIOCETHTOOL = 0x8946
ETHTOOL_SGRO = 0x2C
INTERFACE_REQUEST = struct.Struct("16sP")
"""`struct ifreq`, as far as it is used: name, and address of the request."""


def take_frames(port: Port) -> None:
    """Switches receive offload on.

    Raises:
        TestbedError: the kernel refused.
    """
    code = inside(port.namespace, lambda: _offload(port.interface))
    if code != 0:
        place = f"{port.interface} in {port.namespace}"
        raise TestbedError(
            f"receive offload cannot be switched on at {place} ({os.strerror(code)}); let workers send by UDP"
        )


def _offload(interface: str) -> int:
    """Sends the request; returns 0 or the error number."""
    value = ctypes.create_string_buffer(struct.pack("=II", ETHTOOL_SGRO, 1))
    request = INTERFACE_REQUEST.pack(interface.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        try:
            fcntl.ioctl(control, SIOCETHTOOL, request.ljust(40, b"\0"))
        except OSError as refused:
            return refused.errno or 1
    return 0
