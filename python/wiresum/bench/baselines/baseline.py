"""What a rival is: where its servers are, how they are started, what bounds it, and a run of it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wiresum.bench.baselines.task import Task
from wiresum.deploy.server import start_server
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.model import Topology
from wiresum.topology.paths import Capacity, RoutedTopology

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Run:
    """One all-reduce, in seconds since the first worker's start.

    Attributes:
        seconds: until the last worker had the sums.
        summed_seconds: until the servers had added everything.
        largest_deviation: from Gloo's sums, of any element on any worker.
        began: the first worker's start, on the machine's monotonic clock.
    """

    seconds: float
    summed_seconds: float
    largest_deviation: float
    began: float


@dataclass(frozen=True)
class Baseline:
    """Servers to which workers push gradients, and from which they pull the sums.

    Attributes:
        name: what a command line takes.
        source: the publication.
        place: nodes at which servers run; each sums an equal part of the gradient.
    """

    name: str
    source: str
    place: Callable[[Topology], list[str]]

    def start(self, bed: Testbed) -> list[str]:
        """Starts the servers, which end with the testbed; where workers find them, `address:port`.

        Raises:
            TopologyError: the topology has no place for them.
            DeploymentError: a server does not start; the message has the end of its output.
        """
        places = self.place(bed.topology)
        return [_start_server(bed, node, f"{self.name}-{index}") for index, node in enumerate(places)]

    def run(
        self, bed: Testbed, elements: int, runs: int, delays_s: Sequence[float] = (), warmups: int = 1
    ) -> list[Run]:
        """Sums random float32 values of every worker of a testbed.

        Args:
            bed: a testbed that is up.
            elements: float32 values.
            runs: all-reduces, one after the other, by the same processes.
            delays_s: worker i begins so much later than the first; nothing for workers beyond the end of the list.
            warmups: all-reduces before them.

        Raises:
            TestbedError: a process failed; the message has the end of its output.
        """
        output = Path(bed.folder) / f"{self.name}.json"
        task = Task(self.start(bed), elements, runs, warmups, list(delays_s), str(output))
        run_or_fail(bed, task.command(), self.name)
        return [Run(**one) for one in json.loads(output.read_text())]

    def link_bytes(self, topology: Topology, elements: int) -> dict[Capacity, float]:
        """Bytes of gradient that cross each direction of each link, headers aside."""
        network, places = RoutedTopology(topology), self.place(topology)
        share = elements * FLOAT32_BYTES / len(places)
        crossed: Counter[Capacity] = Counter()
        for worker in topology.workers:
            for server in (place for place in places if place != worker.name):
                for direction in (*network.path(worker.name, server), *network.path(server, worker.name)):
                    crossed[direction] += share  # type: ignore[assignment] # a counter of fractions
        return dict(crossed)

    def bound_s(self, topology: Topology, elements: int) -> float:
        """Seconds that the busiest link needs for the gradients that must cross it: no run can be faster."""
        network = RoutedTopology(topology)
        crossed = self.link_bytes(topology, elements)
        return max((8 * size / network.capacities[way] for way, size in crossed.items()), default=0.0)


def _start_server(bed: Testbed, node: str, name: str) -> str:
    command = [sys.executable, "-m", "wiresum.bench.baselines.serve", bed.address(node), str(len(bed.workers))]
    (address,) = start_server(bed, node, command, name).await_ready()
    return address
