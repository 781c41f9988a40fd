"""Offloads of interfaces: off on lossy links, and on where a worker is to attach its own XDP program.

A veth interface takes what its peer's XDP program sends if it has a program of its own, or if receive offload is on.
One that a worker is to attach its own to (the transport `af_xdp`) can have only the latter before (`xdp_pass`).
"""

import ctypes
import errno
import fcntl
import socket
import struct
from functools import partial

from wiresum.errors import TestbedError
from wiresum.testbed.layout import Port
from wiresum.testbed.namespaces import inside

SIOCETHTOOL = 0x8946
TSO, GSO, GRO = 0x1F, 0x24, 0x2C
"""Commands of ethtool that switch offloads: of segmentation (TCP's, and any), and of receiving."""
VALUE = struct.Struct("=II")
"""`struct ethtool_value`: command and value."""
INTERFACE_REQUEST = struct.Struct("16sP")
"""`struct ifreq`, as far as it is used: name, and address of the request."""
IFREQ_BYTES = 40


def take_frames(port: Port) -> None:
    """Switches receive offload on.

    Raises:
        TestbedError: the kernel refused.
    """
    try:
        inside(port.namespace, partial(_switch, port.interface, GRO, 1))
    except OSError as refused:
        place = f"{port.interface} in {port.namespace}"
        raise TestbedError(
            f"receive offload cannot be switched on at {place} ({refused.strerror}); let workers send by UDP"
        ) from None


def take_apart(port: Port) -> None:
    """Switches all of them off: a packet of TCP on a lossy link has to be a packet, not a bundle of forty."""
    for offload in (TSO, GSO, GRO):
        try:
            inside(port.namespace, partial(_switch, port.interface, offload, 0))
        except OSError as refused:
            # Opposite a port with an XDP program, veth has given up segmentation for good already.
            if refused.errno != errno.EOPNOTSUPP:
                raise


def _switch(interface: str, offload: int, value: int) -> None:
    content = ctypes.create_string_buffer(VALUE.pack(offload, value))
    request = INTERFACE_REQUEST.pack(interface.encode(), ctypes.addressof(content))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        fcntl.ioctl(control, SIOCETHTOOL, request.ljust(IFREQ_BYTES, b"\0"))
