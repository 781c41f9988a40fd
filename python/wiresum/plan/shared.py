"""A network of switches that several jobs share: numbers of nodes and addresses of links that all of their plans have.

A plan alone numbers what it uses. Plans that run side by side, or one after another over other circuits, need one
numbering, as each node is one process and each end of a link one address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import PlanNode
from wiresum.plan.choices import SwitchEngine
from wiresum.plan.fabric import FabricEnd, FabricLink, PlanFabric
from wiresum.plan.members import NodeChild, WorkerChild
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
    """

    topology: Topology
    lit: Sequence[Sequence[Circuit]]
    engine: SwitchEngine = "udp"
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
        self._indices = {name: index for index, name in enumerate(self.links)}

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

    def addresses(self, name: str) -> dict[str, str]:
        """IP address of a link's end at each of its two nodes."""
        link, low = self.links[name], NETWORK + 2 * self._indices[name]
        return {link.source: str(low), link.target: str(low + 1)}

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
