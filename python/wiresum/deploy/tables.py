"""The daemons of a sparse job: one for each server of tables, and one for each switch that sums hot rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from wiresum.deploy.daemon import find_binary, over
from wiresum.deploy.hosts import Hosts
from wiresum.deploy.server import Server, start_server
from wiresum.document import write_text
from wiresum.errors import DeploymentError

PROGRAM = "tables"
"""Names the daemons' logs, with the node's number."""

Command = Callable[[Path, int], list[str]]


def daemon(job_file: Path, number: int, interfaces: Sequence[str] = ()) -> list[str]:
    """The command line of a sparse job's daemon.

    Args:
        job_file: of the job.
        number: of the node.
        interfaces: on which the kernel sums hot rows; none: user space does.
    """
    engine = over("xdp", interfaces) if interfaces else []
    return [find_binary(), "--tables", str(job_file), "--node", str(number), "--json", *engine]


class TableDaemons:
    """One daemon at each node of a sparse job. Use in a `with` statement, or call `start` and `stop`.

    Args:
        hosts: where the daemons run.
        job: text of the job's file, whose addresses are those of the hosts.
        nodes: name of the host of each node: the servers in the job's order, then the switches.
        command: program and arguments of a node, given the job's file and the node's number; by default the daemon's.
        program: names logs, with the node's number.

    Attributes:
        servers: the daemons, by the node's number.
    """

    def __init__(
        self, hosts: Hosts, job: str, nodes: Sequence[str], command: Command | None = None, program: str = PROGRAM
    ) -> None:
        self._hosts = hosts
        self._job = job
        self._nodes = nodes
        self._command = command or daemon
        self._program = program
        self.servers: list[Server] = []

    @property
    def job_file(self) -> Path:
        """The job's file, for daemons and workers."""
        return self._hosts.folder / "sparse-job.json"

    def beside(self, command: Command, count: int, program: str) -> TableDaemons:
        """Another program at the first nodes, which reads the same file.

        Args:
            command: program and arguments of a node.
            count: how many nodes have it.
            program: names its logs.
        """
        return TableDaemons(self._hosts, self._job, self._nodes[:count], command, program)

    def start(self) -> None:
        """Starts the daemons and waits until all serve; if one does not, none stays.

        Raises:
            DeploymentError: a daemon does not start; the message has its node and its last words.
            SupportError: the daemon is not built.
        """
        # The job's secret is in it.
        write_text(self.job_file, self._job, "sparse job", DeploymentError, is_secret=True)
        try:
            for number in range(len(self._nodes)):
                self.servers.append(self._start(number))
            for server in self.servers:
                server.await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the daemons."""
        for server in self.servers:
            server.process.terminate()
        for server in self.servers:
            server.await_end()
        self.servers.clear()

    def kill(self, number: int) -> None:
        """Ends a daemon as a crash would."""
        self.servers[number].kill()

    def revive(self, number: int) -> None:
        """Starts a daemon that has ended again, as a service manager would, and waits until it serves.

        Raises:
            DeploymentError: it does not start.
        """
        self.servers[number] = self._start(number)
        self.servers[number].await_ready()

    def dead(self) -> dict[str, str]:
        """Daemons that have ended though no one asked them to, with their last words, by program and node."""
        return {one.what: one.last_words() for one in self.servers if one.process.poll() is not None}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, number: int) -> Server:
        if not self._nodes:
            raise DeploymentError("no hosts are named for the sparse job; name one for each of its servers")
        line = self._command(self.job_file, number)
        return start_server(self._hosts, self._nodes[number], line, f"{self._program}-{number}")
