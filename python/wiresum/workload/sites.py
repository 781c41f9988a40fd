"""Where jobs may be placed: units of a topology, with their hosts; and jobs placed in as few of them as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from wiresum.errors import WorkloadError
from wiresum.topology.circuits import units
from wiresum.topology.model import Topology


@dataclass(frozen=True)
class Unit:
    """A switch and what hangs at it.

    Attributes:
        name: of the switch.
        hosts: workers in it.
        servers: parameter servers in it.
    """

    name: str
    hosts: Sequence[str]
    servers: Sequence[str]


def units_of(topology: Topology) -> list[Unit]:
    """The units of a topology: what optical switches join, or where there are none, every switch that has hosts.

    Raises:
        WorkloadError: there is none.
    """
    names = units(topology) or [node.name for node in topology.nodes if node.kind == "switch"]
    kinds = {node.name: node.kind for node in topology.nodes}
    below: dict[str, list[str]] = {name: [] for name in names}
    for link in topology.links:
        for end, other in ((link.source, link.target), (link.target, link.source)):
            if end in below and kinds[other] in {"worker", "ps", "aggregator"}:
                below[end].append(other)
    found = [
        Unit(name, [h for h in hosts if kinds[h] == "worker"], [h for h in hosts if kinds[h] != "worker"])
        for name, hosts in below.items()
    ]
    found = [unit for unit in found if unit.hosts or unit.servers]
    if not found:
        raise WorkloadError(f"topology {topology.name} has no switch with hosts; take one with units, as `optical`")
    return found


def unit_of_location(found: Sequence[Unit]) -> dict[str, str]:
    """The unit of every location: of hosts, servers and units themselves."""
    return {location: unit.name for unit in found for location in (unit.name, *unit.hosts, *unit.servers)}


@dataclass
class Placer:
    """Places jobs one after another, each in as few units as possible, where the fewest workers are so far.

    When every host has a worker, hosts get a second one, and so on: a network that is shared holds more jobs than
    hosts.

    Attributes:
        units: to choose from.
        random: breaks ties, and chooses servers.
        spread: share of the jobs that are put in two units though one has room.
        by_host: locations are hosts, not units.
    """

    units: Sequence[Unit]
    random: Random
    spread: float = 0.0
    by_host: bool = False
    _load: Counter[str] = field(default_factory=Counter)
    _hosts: Counter[str] = field(default_factory=Counter)

    def workers(self, count: int) -> dict[str, int]:
        """Places for the workers of a job.

        Raises:
            WorkloadError: the topology has fewer hosts than the job has workers.
        """
        if count > sum(len(unit.hosts) for unit in self.units):
            raise WorkloadError(f"a job of {count} workers has no room; give the topology more hosts, or fewer workers")
        split = self.random.random() < self.spread and count > 1 and len(self.units) > 1
        placed: Counter[str] = Counter()
        left = count
        for unit in self._by_room(count):
            here = min(left, len(unit.hosts), -(-count // 2) if split else count)
            if here:
                self._put(unit, here, placed)
            left -= here
            if not left:
                break
        return dict(placed)

    def server(self) -> str | None:
        """A unit, or host, with a parameter server; any of them alike. None where no unit has one."""
        candidates = [unit for unit in self.units if unit.servers]
        if not candidates:
            return None
        unit = self.random.choice(candidates)
        return self.random.choice(unit.servers) if self.by_host else unit.name

    def _by_room(self, count: int) -> list[Unit]:
        """Units in which a whole job has room come first, then large ones, so that few are needed."""
        shuffled = self.random.sample(list(self.units), len(self.units))
        return sorted(
            (unit for unit in shuffled if unit.hosts),
            key=lambda unit: (-min(len(unit.hosts), count), self._load[unit.name] / len(unit.hosts)),
        )

    def _put(self, unit: Unit, count: int, placed: Counter[str]) -> None:
        self._load[unit.name] += count
        if not self.by_host:
            placed[unit.name] += count
            return
        for host in sorted(unit.hosts, key=self._hosts.__getitem__)[:count]:
            self._hosts[host] += 1
            placed[host] += 1
