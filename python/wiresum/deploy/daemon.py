"""One running `wiresum-node`."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.deploy import control
from wiresum.deploy.hosts import Hosts
from wiresum.deploy.server import END_S, Server, spawn
from wiresum.errors import ControlError, DeploymentError, SupportError
from wiresum.plan.aggregation_plan import PlanNode
from wiresum.plan.choices import XDP_ENGINES, Engine

BINARY = "wiresum-node"
VERSION_S = 10.0
"""Seconds in which a daemon tells its version; it opens nothing for that."""
WAITED = re.compile(r"has taken over; its socket waited ([\d.]+) ms")


@dataclass
class Daemon(Server):
    """A daemon that serves one node of the plans of its jobs.

    Attributes:
        node: what the plan that it was started for says about it.
        socket: its control socket.
    """

    node: PlanNode
    socket: Path

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        """The answer at the control socket; the fields are in docs/operating.md.

        Raises:
            ControlError: the daemon refuses or does not answer; the message names the node.
        """
        try:
            return control.ask(self.socket, request, **fields)
        except ControlError as refused:
            raise ControlError(f"{self.what}: {refused}") from refused

    def hand_over(self, successor: "Daemon") -> float:
        """Waits until another daemon serves the node and this one has ended.

        Returns:
            Seconds for which packets of the node's socket have waited; those that the kernel sums do not wait.

        Raises:
            DeploymentError: the successor does not take over; then this daemon goes on.
        """
        successor.await_ready()
        self.process.wait(timeout=END_S)
        waited = re.search(WAITED, "\n".join(self.lines()))
        if waited is None:
            raise DeploymentError(f"{self.what} has not handed over: {self.last_words()}")
        return float(waited[1]) / 1000

    def counters(self) -> dict[str, Any]:
        """What a daemon that has ended printed last: `verdicts` of packets and `socket` totals; empty if it crashed."""
        last = next((line for line in reversed(self.lines()) if line.startswith("{")), "{}")
        counters: dict[str, Any] = json.loads(last)
        return counters


def start_daemon(hosts: Hosts, node: PlanNode, log: Path, options: Sequence[str]) -> Daemon:
    """Starts the daemon of a node; `await_ready` says when it serves.

    Args:
        hosts: where the daemon runs.
        node: number, address and engine.
        log: takes the daemon's output.
        options: beyond number, engine, interfaces and control socket.

    Raises:
        SupportError: the daemon is not built.
    """
    socket = hosts.folder / f"{node.name}.sock"
    line = [find_binary(), "--node", str(node.id), "--json", "--control", str(socket)]
    engine = over(node.engine, hosts.interfaces(node.name) if node.engine in XDP_ENGINES else ())
    process = spawn(hosts, node.name, [*line, *engine, *options], log)
    return Daemon(f"{BINARY} at {node.name}", process, log, node, socket)


def over(engine: Engine, interfaces: Iterable[str]) -> list[str]:
    """Options of a daemon that say what sums, and on which interfaces."""
    return ["--engine", engine, *(word for interface in interfaces for word in ("--interface", interface))]


def find_binary() -> str:
    """Path of the daemon: beside this interpreter, or on the search path.

    Raises:
        SupportError: it is in neither place.
    """
    beside = Path(sys.executable).parent / BINARY
    found = str(beside) if beside.exists() else shutil.which(BINARY)
    if found is None:
        raise SupportError(
            f"{BINARY} is not installed; install Wiresum's wheel or its Debian package, or run `make build` in a clone"
        )
    return found


def daemon_version(binary: str) -> str:
    """The version of an installed daemon.

    Args:
        binary: its path.

    Raises:
        SupportError: it does not run here, or does not answer.
    """
    try:
        told = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=True)
    except (OSError, subprocess.SubprocessError) as failed:
        raise SupportError(f"{binary} does not run here: {failed}; install Wiresum's wheel again") from failed
    return told.stdout.removeprefix(BINARY).strip()
