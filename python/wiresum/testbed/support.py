"""What this machine lets a testbed do, found out by trying it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wiresum.errors import SupportError, TestbedError
from wiresum.testbed import namespaces, xdp_pass
from wiresum.testbed.layout import Layout, lay_out
from wiresum.testbed.networks import why_no_namespaces
from wiresum.topology.generators.star import star
from wiresum.topology.model import Topology

PROBE_MTU_BYTES = 3200


def why_no_shaping() -> str:
    """Why links cannot be made and shaped, with the remedy; empty if they can."""
    return why_no_namespaces() or _attempt(star(workers=1, rate_bps=1e9), lambda layout: None)


def why_no_xdp() -> str:
    """Why programs cannot be attached to veth interfaces, with the remedy; empty if they can."""
    return why_no_namespaces() or _attempt(star(workers=1, rate_bps=None), _attach)


def _attach(layout: Layout) -> None:
    with xdp_pass.loaded() as program:
        xdp_pass.attach(program, layout.wires[0].source)


def _attempt(topology: Topology, action: Callable[[Layout], None]) -> str:
    try:
        with _probe_layout(topology) as layout:
            action(layout)
    except (TestbedError, SupportError) as refused:
        return str(refused)
    return ""


@contextmanager
def _probe_layout(topology: Topology) -> Iterator[Layout]:
    layout = lay_out(f"probe-{os.getpid()}", topology, PROBE_MTU_BYTES)
    try:
        namespaces.create(layout)
        yield layout
    finally:
        namespaces.remove(layout.namespaces.values())
