"""The `wiresum-node` processes of a testbed."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.errors import SupportError, TestbedError
from wiresum.plan.aggregation_plan import PlanNode
from wiresum.plan.choices import XDP_ENGINES
from wiresum.testbed import processes

BINARY = "wiresum-node"
READY_LINE = "ready"
"""First word of the line that the daemon prints once it takes packets."""
WAITED = re.compile(r"has taken over; its socket waited ([\d.]+) ms")
START_S = 15.0
"""The verifier takes a second or two on a busy machine."""
POLL_S = 0.01


@dataclass
class Aggregator:
    """One running daemon.

    Attributes:
        node: what the plan says about it.
        process: the daemon.
        log: its output.
    """

    node: PlanNode
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until_ready(self) -> None:
        """Returns once the daemon takes packets.

        Raises:
            TestbedError: it ended, or is not ready in time; the message has the end of its output.
        """
        deadline = time.monotonic() + START_S
        while not any(line.startswith(READY_LINE) for line in self._lines()):
            if self.process.poll() is not None:
                raise TestbedError(
                    f"{BINARY} at {self.node.name} ended with {self.process.returncode}: {self.last_words()}"
                )
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"{BINARY} at {self.node.name} is not ready after {START_S:.0f} s: {self.last_words()}"
                )
            time.sleep(POLL_S)

    def take_over(self, successor: "Aggregator") -> float:
        """Waits until another daemon serves the node and this one has ended.

        Returns:
            Seconds for which packets of the node's socket have waited; those that the kernel sums do not wait.

        Raises:
            TestbedError: it does not take over; then this one goes on.
        """
        successor.wait_until_ready()
        self.process.wait(timeout=START_S)
        waited = re.search(WAITED, "\n".join(self._lines()))
        if waited is None:
            raise TestbedError(f"{BINARY} at {self.node.name} has not handed over: {self.last_words()}")
        return float(waited[1]) / 1000

    def stop(self) -> dict[str, Any]:
        """Ends the daemon and returns the counters that it prints as its last line; empty if it died before."""
        processes.end([processes.identify(self.process.pid)])
        self.process.wait()
        last = next((line for line in reversed(self._lines()) if line.startswith("{")), "{}")
        counters: dict[str, Any] = json.loads(last)
        return counters

    def last_words(self) -> str:
        """The end of its output."""
        return "\n".join(self._lines()[-5:]) or "it said nothing"

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()


def command(node: PlanNode, plan: Path, interfaces: list[str], socket: Path | None = None) -> list[str]:
    """The daemon's command line.

    Raises:
        SupportError: it is not built.
    """
    line = [find_binary(), "--plan", str(plan), "--node", str(node.id), "--engine", node.engine, "--json"]
    if socket:
        line += ["--control", str(socket)]
    if node.engine in XDP_ENGINES:
        line += [part for interface in interfaces for part in ("--interface", interface)]
    return line


def find_binary() -> str:
    """Path of the daemon: beside this interpreter, or on the search path.

    Raises:
        SupportError: it is in neither place.
    """
    beside = Path(sys.executable).parent / BINARY
    found = str(beside) if beside.exists() else shutil.which(BINARY)
    if found is None:
        raise SupportError(f"{BINARY} is not installed; run `make build`")
    return found
