"""A network of switches that several jobs share: numbers of nodes and addresses of links that all of their plans have.

A plan alone numbers what it uses. Plans that run side by side, or one after another over other circuits, need one
numbering, as each node is one process and each end of a link one address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Self

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanNode
from wiresum.plan.choices import SwitchEngine
from wiresum.plan.fabric import FabricEnd, FabricLink, PlanFabric
from wiresum.plan.members import NodeChild, WorkerChild, parse_socket_address
from wiresum.plan.schedule import Schedule
from wiresum.topology.circuits import fibres
from wiresum.topology.model import Link, Topology
from wiresum.topology.optical import Circuit

PORT = 5747
"""At which nodes receive, on all of their links. Workers of job j receive at a port of their own, this one plus j."""
NETWORK = IPv4Address("10.98.0.0")
"""The k-th link has the addresses 2k and 2k + 1 from here on."""
MOST_LINKS = 1 << 15


@dataclass
class SharedNetwork:
    """Ordinary links of a topology, and every circuit that is ever lit.

    Attributes:
        topology: with its optical switches.
        lit: circuits at one time, and at the next one.
        engine: what runs the switches.
        known: numbers of links that plans have given them before; others get those that are free.
    """

    topology: Topology
    lit: Sequence[Sequence[Circuit]]
    engine: SwitchEngine = "udp"
    known: Mapping[str, int] = field(default_factory=dict)
    links: dict[str, Link] = field(init=False)
    """By id; circuits are named after their ports."""
    _numbers: dict[str, int] = field(init=False)
    _circuits: dict[frozenset[str], str] = field(init=False)
    _indices: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        dark = {fibre.link.id for fibre in fibres(self.topology)}
        self.links = {link.id: link for link in self.topology.links if link.id not in dark}
        self._circuits = {}
        for circuit in (circuit for circuits in self.lit for circuit in circuits):
            link = self.topology.with_circuits([circuit]).links[-1]
            self.links[link.id] = link
            self._circuits[frozenset(circuit.links)] = link.id
        if len(self.links) > MOST_LINKS:
            raise PlanError(f"{len(self.links)} links and circuits are more than {MOST_LINKS} with addresses")
        inner = [node.name for node in self.topology.nodes if node.kind not in {"worker", "oxc"}]
        hosts = [node.name for node in self.topology.nodes if node.kind == "worker"]
        self._numbers = {name: number for number, name in enumerate([*inner, *hosts])}
        taken = set(self.known.values())
        free = (number for number in range(MOST_LINKS) if number not in taken)
        self._indices = {name: self.known[name] if name in self.known else next(free) for name in self.links}

    @classmethod
    def with_spares(cls, schedule: Schedule, topology: Topology, spare: Iterable[Circuit]) -> Self:
        """As `of`, with circuits that no plan names, for jobs whose circuits fail while they run."""
        lit = [*(interval.circuits for interval in schedule.intervals), *_at_one_time(spare)]
        return cls(topology, lit, "udp", numbers(schedule))

    @classmethod
    def of(cls, schedule: Schedule, topology: Topology, engine: SwitchEngine = "udp") -> Self:
        """The network of a schedule's plans, with their numbers."""
        return cls(topology, [interval.circuits for interval in schedule.intervals], engine, numbers(schedule))

    def in_kernel(self) -> list[str]:
        """Names of the nodes that sum in XDP."""
        switches = [node.name for node in self.topology.nodes if node.kind == "switch" and node.sums]
        return switches if self.engine == "xdp" else []

    def name(self, circuit: Circuit) -> str:
        """The link that a circuit is."""
        return self.named(frozenset(circuit.links))

    def named(self, ends: frozenset[str]) -> str:
        """The link that a circuit of two fibres is."""
        return self._circuits[ends]

    def ends(self, name: str) -> set[str]:
        """The two nodes that a link joins."""
        return {self.links[name].source, self.links[name].target}

    def addresses(self, name: str) -> dict[str, str]:
        """IP address of a link's end at each of its two nodes."""
        link, low = self.links[name], NETWORK + 2 * self._indices[name]
        return {link.source: str(low), link.target: str(low + 1)}

    def ways(self, plan: AggregationPlan) -> dict[str, str]:
        """The circuit that carries each link of a plan that is one, by the link's name.

        Addresses say so: a job whose circuit has failed keeps the link's name, and has another circuit beneath it.
        """
        circuits = set(self._circuits.values())
        by_number = {self._indices[name]: name for name in circuits}
        links = plan.fabric.links if plan.fabric else []
        found = {link.id: by_number.get(_number(link), link.id) for link in links}
        return {link: name for link, name in found.items() if name in circuits}

    def number(self, node: str) -> int:
        """The number of a switch or server in all plans."""
        return self._numbers[node]

    def nodes(self, names: Iterable[str]) -> list[PlanNode]:
        """Switches and servers of a plan, in the order of their numbers."""
        kinds = {node.name: node.kind for node in self.topology.nodes}
        return [
            PlanNode(
                id=self._numbers[name],
                name=name,
                address=f"0.0.0.0:{PORT}",
                engine=self.engine if kinds[name] == "switch" else "udp",
            )
            for name in sorted(names, key=self._numbers.__getitem__)
        ]

    def link(self, name: str, ranks: dict[str, int], job: int) -> FabricLink:
        """A link of the plan of a job, whose workers have ranks by the names of their hosts."""
        link, low = self.links[name], NETWORK + 2 * self._indices[name]
        ends = []
        for offset, node in enumerate((link.source, link.target)):
            at = WorkerChild(worker=ranks[node]) if node in ranks else NodeChild(node=self._numbers[node])
            ends.append(FabricEnd(at=at, address=f"{low + offset}:{PORT + job * (node in ranks)}"))
        return FabricLink(id=name, ends=ends)

    def frame(self, circuits: Iterable[Circuit]) -> PlanFabric:
        """All links while some circuits are lit, in the order of `Topology.with_circuits`."""
        there = self.topology.with_circuits(circuits).links
        return PlanFabric(links=[self.link(link.id, {}, 0) for link in there], memory=[])

    def frames(self) -> list[PlanFabric]:
        """One frame for the time before, when nothing is lit, and one for each time after."""
        return [self.frame(circuits) for circuits in ([], *self.lit)]


def _at_one_time(circuits: Iterable[Circuit]) -> list[list[Circuit]]:
    """Circuits in groups that have no port twice: a frame for each would cost seconds with hundreds of circuits."""
    groups: list[tuple[set[str], list[Circuit]]] = []
    for circuit in circuits:
        group = next((one for one in groups if one[0].isdisjoint(circuit.links)), None)
        if group is None:
            groups.append(group := (set(), []))
        group[0].update(circuit.links)
        group[1].append(circuit)
    return [group for _, group in groups]


def numbers(schedule: Schedule) -> dict[str, int]:
    """The numbers of links that a schedule's plans name, as their addresses say."""
    plans = (plan for interval in schedule.intervals for plan in interval.plans.values())
    links = {link.id: link for plan in plans if plan.fabric for link in plan.fabric.links}
    found = {name: _number(link) for name, link in links.items()}
    return {name: number for name, number in found.items() if 0 <= number < MOST_LINKS}


def _number(link: FabricLink) -> int:
    low = min(int(parse_socket_address(end.address)[0]) for end in link.ends)
    return (low - int(NETWORK)) // 2
