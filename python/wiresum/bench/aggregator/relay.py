"""A host between the generator and the aggregator that turns socket buffers into frames.

A veth hands XDP a copy of each socket buffer, which the receiving core pays for; a network card hands it the frame
that has come in. Here the relay's ports copy, on the relay's core, and redirect. What reaches the aggregator's port
are frames (`struct xdp_frame`, as drivers make them), and its program runs on them where they lie.
"""

from __future__ import annotations

from socket import if_nametoindex

from wiresum.testbed import xdp_pass
from wiresum.testbed.layout import Port
from wiresum.testbed.namespaces import inside


def connect(namespace: str, one: str, other: str) -> None:
    """Sends whatever comes in by one port out by the other, both ways, until the ports go.

    Args:
        namespace: of both ports.
        one: a port.
        other: the other one.

    Raises:
        SupportError: no privilege, or a machine without BPF.
        TestbedError: a port refuses XDP.
    """
    for port, exit_port in ((one, other), (other, one)):
        with xdp_pass.loaded(xdp_pass.redirect(index_of(namespace, exit_port))) as program:
            xdp_pass.attach(program, Port("relay", namespace, port, 0))


def index_of(namespace: str, interface: str) -> int:
    """The kernel's number of an interface."""
    return inside(namespace, lambda: if_nametoindex(interface))
