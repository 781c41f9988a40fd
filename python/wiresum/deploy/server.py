"""A process that serves until it is ended, and says in its output when it begins to."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wiresum.deploy.hosts import Hosts
from wiresum.errors import DeploymentError

READY_WORD = "ready"
"""First word of the line that a server prints once it serves."""
START_S = 15.0
"""The verifier takes a second or two on a busy machine, and so does an interpreter."""
END_S = 15.0
"""From a polite request to the end by force; the kernel takes a while to let programs go."""
POLL_S = 0.002
"""Between two looks at the output: little beside the shortest start that is measured."""
LAST_LINES = 5


@dataclass
class Server:
    """One running process.

    Attributes:
        what: program and node, for errors.
        process: the process.
        log: its output.
    """

    what: str
    process: subprocess.Popen[bytes]
    log: Path

    def await_ready(self) -> list[str]:
        """Returns the words that follow `ready`, once they are there.

        Raises:
            DeploymentError: the process ended, or is not ready in time; the message has the end of its output.
        """
        deadline = time.monotonic() + START_S
        while (ready := self._ready_line()) is None:
            if self.process.poll() is not None:
                raise DeploymentError(f"{self.what} ended with {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise DeploymentError(f"{self.what} is not ready after {START_S:g} s: {self.last_words()}")
            time.sleep(POLL_S)
        return ready.split()[1:]

    def end(self) -> None:
        """Ends the process, politely first."""
        self.process.terminate()
        self.await_end()

    def await_end(self) -> None:
        """Waits for the end of a process that was asked to end, and then ends it by force."""
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the process with SIGKILL, as a crash would."""
        self.process.kill()
        self.process.wait()

    def lines(self) -> list[str]:
        """The output so far."""
        return self.log.read_text(errors="replace").splitlines()

    def last_words(self) -> str:
        """The end of the output."""
        return "\n".join(self.lines()[-LAST_LINES:]) or "it said nothing"

    def _ready_line(self) -> str | None:
        """Whole lines only: the rest of the words may be under way."""
        lines = self.log.read_text(errors="replace").splitlines(keepends=True)
        return next((line for line in lines if line.split()[:1] == [READY_WORD] and line.endswith("\n")), None)


def start_server(hosts: Hosts, node: str, command: Sequence[str], program: str) -> Server:
    """Starts a server at a node; `await_ready` says when it serves.

    Args:
        hosts: where the server runs.
        node: name of the node.
        command: program and arguments.
        program: its name, for errors and for the file of its output.
    """
    log = hosts.folder / f"{program}-{node}.log"
    return Server(f"{program} at {node}", spawn(hosts, node, command, log), log)


def spawn(hosts: Hosts, node: str, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a command at a node, with its output in a file."""
    with log.open("wb") as output:
        return hosts.spawn(node, command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
