"""Where the processes of a deployment run."""

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from wiresum.plan.aggregation_plan import AggregationPlan

LOOPBACK = "127.0.0.1"


class Hosts(Protocol):
    """The machines of a plan's nodes: namespaces of a testbed, this host, or others that a shell reaches."""

    @property
    def folder(self) -> Path:
        """Takes plans, logs and control sockets; the processes find it under the same name."""

    def spawn(self, node: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Starts a command at a node; `options` are those of `subprocess.Popen`."""

    def interfaces(self, node: str) -> list[str]:
        """Names of the interfaces on which a node's programs run."""

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """The plan with the addresses and engines that these hosts have."""

    def prepare(self, plan: AggregationPlan) -> None:
        """Changes what the next plan needs changed, while no daemon runs."""


class ThisHost:
    """This machine, or a network namespace of it, for plans that have its addresses.

    Args:
        folder: as in `Hosts`.
        inside: begins the command lines, as `ip netns exec NAME`.
        ports: interfaces of every node.
    """

    def __init__(self, folder: Path, inside: Sequence[str] = (), ports: Sequence[str] = ()) -> None:
        self.folder = folder
        self._inside = inside
        self._ports = ports

    def spawn(self, node: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Starts it as a child of this process."""
        return subprocess.Popen([*self._inside, *command], **options)

    def interfaces(self, node: str) -> list[str]:
        """The same for each node."""
        return list(self._ports)

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """The plan as it is."""
        return plan

    def prepare(self, plan: AggregationPlan) -> None:
        """Does nothing."""


def on_loopback(plan: AggregationPlan) -> AggregationPlan:
    """The plan with every aggregator in user space on a free port of the loopback interface, and workers anywhere."""
    engine = "tcp" if any(node.engine == "tcp" for node in plan.nodes) else "udp"
    ports = free_ports(len(plan.nodes), socket.SOCK_STREAM if engine == "tcp" else socket.SOCK_DGRAM)
    nodes = [
        node.model_copy(update={"address": f"{LOOPBACK}:{port}", "engine": engine})
        for node, port in zip(plan.nodes, ports, strict=True)
    ]
    workers = [worker.model_copy(update={"address": None}) for worker in plan.workers]
    return plan.model_copy(update={"nodes": nodes, "workers": workers})


def free_ports(count: int, kind: socket.SocketKind) -> list[int]:
    """Distinct ports of the loopback interface that are free now."""
    sockets = [socket.socket(socket.AF_INET, kind) for _ in range(count)]
    for sock in sockets:
        sock.bind((LOOPBACK, 0))
    ports = [int(sock.getsockname()[1]) for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
